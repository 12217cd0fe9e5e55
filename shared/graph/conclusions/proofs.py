"""Proof of a conclusion: for each figure, date, name and relation that it states, the sentence of a page that says it. Pure.

It is selected when the conclusion is stored, and never changes. `docs/decisions/0072-proof-as-it-was.md` has the reasons.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence, Set
from dataclasses import dataclass, field
from datetime import datetime
from functools import cached_property
from typing import Any, Final
from uuid import UUID

from shared.enums import Entailment
from shared.graph.conclusions.citations import Kind
from shared.graph.conclusions.figures import (
    CitedElement,
    Value,
    claimed_dates,
    known_values,
    language_and_sign,
    matching,
    read_sentences,
    stems_of,
)
from shared.graph.conclusions.figures import Sentence as ReadSentence
from shared.graph.conclusions.sentences import Sentence, sentences_of, split_sentences
from shared.graph.grounding.dates import Date, parse_date
from shared.graph.grounding.names import find_names, is_mentioned
from shared.graph.grounding.quantities import Quantity
from shared.graph.provenance.integrity import canonical_json, is_equal, sha256
from shared.tools.readings import EXISTS

MAX_ROWS: Final = 300
_FORECAST: Final = "invalidation"
_MAX_WORDS_CHARS: Final = 80
"""Longest value in words that counts as stated by a sentence. A longer one is a description."""
_MIN_WORDS_CHARS: Final = 3
_SMALL: Final = 10
"""Below, a number without a unit is stated only where its property is named: it may count something else."""


@dataclass(frozen=True, eq=False)
class Quote:
    """A sentence of a page, with what it says of a node or edge."""

    claims: Mapping[str, Any]
    as_of: str | None
    valid_from: str | None
    valid_to: str | None
    """In ISO 8601."""
    learned_at: datetime
    source_id: UUID
    first_byte: int
    end_byte: int
    is_retracted: bool = False
    verdicts: Mapping[str, str] | None = None
    """By property; under EXISTS, that the node or edge exists. None: no model has read it."""

    @property
    def dates(self) -> list[str]:
        return [each for each in (self.as_of, self.valid_from, self.valid_to) if each]

    @property
    def span(self) -> tuple[UUID, int, int]:
        return self.source_id, self.first_byte, self.end_byte

    def verdict(self, name: str) -> str | None:
        """On the value with this name; None: no model has read it."""
        return (self.verdicts or {}).get(name)


@dataclass(frozen=True, eq=False)
class ProvableElement:
    """A node or edge that a conclusion rests on."""

    id: UUID
    kind: Kind
    name: str
    """The name of the node, or the names of both ends of the edge."""
    element: CitedElement
    quotes: Sequence[Quote]
    """The newest first."""
    ends: Sequence[tuple[UUID, str]]
    """Id and name of both ends of an edge."""
    cited_by: frozenset[UUID]
    """The ids by which sentences of the conclusion cite it: its own, or those of analyses that cite it."""

    def saying(self, claim: tuple[str, Any] | None) -> list[Quote]:
        """The quotes that say it, or that it exists, and can prove it; those that were read as supported first."""
        name = EXISTS if claim is None else claim[0]
        found = [
            each
            for each in self.quotes
            if not each.is_retracted
            and each.verdict(name) in (None, Entailment.SUPPORTED)
            and (claim is None or is_equal(each.claims.get(claim[0]), claim[1]))
        ]
        return sorted(found, key=lambda each: each.verdict(name) != Entailment.SUPPORTED)


@dataclass(frozen=True)
class ProofRow:
    """A row of `conclusion_proofs`: a claim, and the sentence of a page that says it."""

    sentence: int
    stated: str
    kind: Kind
    element_id: UUID
    type: str
    name: str
    property: str | None
    value: Any
    source_id: UUID
    first_byte: int
    end_byte: int


def hash_proof(rows: Sequence[ProofRow]) -> str:
    """SHA-256 of the rows in hexadecimal, the same in a copy of the graph: ids are left out."""
    parts = [
        [
            *(row.sentence, row.stated, row.kind, row.type, row.name, row.property, row.value),
            *(row.first_byte, row.end_byte),
        ]
        for row in rows
    ]
    return sha256(canonical_json(parts)).hex()


def find_proof(
    name: str, properties: Mapping[str, Any], elements: Sequence[ProvableElement]
) -> list[ProofRow]:
    """The proof of the conclusion with this name and these texts, in the order of its sentences.

    `elements` are what it rests on. What no quote of theirs says has no row: the conclusion computes or infers it.
    """
    stated = _stated_sentences(name, properties)
    return _ProofFinder(stated, elements).find()[:MAX_ROWS]


def count_figures(name: str, properties: Mapping[str, Any], proven: Set[str]) -> tuple[int, int]:
    """How many figures, dates and names the conclusion states, and how many of them are `proven` by its proof.

    Names, and small numbers without a unit, which mostly count what the sentence lists, are stated only if they are proven.
    """
    sentences = [each.text for _, each in _stated_sentences(name, properties)]
    text = "\n".join(sentences)
    stated = _figures(sentences, proven)
    stated |= {each for each in proven if all(part in text for part in each.split(" → "))}
    return len(stated), len(stated & proven)


def unproven_figures(text: str, elements: Sequence[ProvableElement]) -> list[str]:
    """The figures and dates of `text` that no quote of the elements says."""
    properties = {"content": text}
    proven = {row.stated for row in find_proof("", properties, elements)}
    sentences = [each.text for _, each in _stated_sentences("", properties)]
    return sorted(_figures(sentences, proven) - proven)


def _figures(sentences: Sequence[str], proven: Set[str]) -> set[str]:
    """The figures and dates as they are written, without small ones that are not `proven`."""
    language = language_and_sign("\n".join(sentences))
    stated: set[str] = set()
    for text in sentences:
        for read in read_sentences(text, *language):
            stated |= {read.text[date.start : date.end] for date in read.dates if date.year}
            stated |= {
                read.shown(number)
                for number in read.numbers
                if not (number.is_label or _is_in_date(read, number))
                and (read.shown(number) in proven or not _is_small(number))
            }
    return stated


def _is_in_date(sentence: ReadSentence, number: Quantity) -> bool:
    return any(each.start <= number.start and number.end <= each.end for each in sentence.dates)


def _is_small(number: Quantity) -> bool:
    is_bare = not (number.unit or number.scale)
    return is_bare and number.values[0] % 1 == 0 and abs(number.values[0]) < _SMALL


def _stated_sentences(name: str, properties: Mapping[str, Any]) -> list[tuple[int, Sentence]]:
    """The numbered sentences, without those that say only what would prove it wrong: their figures are thresholds."""
    forecast = {each.text for each in split_sentences(str(properties.get(_FORECAST) or ""))}
    others = {name} | {
        each.text
        for key in ("summary", "content")
        for each in split_sentences(str(properties.get(key) or ""))
    }
    return [
        (number, each)
        for number, each in enumerate(sentences_of(name, properties), 1)
        if each.text not in forecast - others
    ]


@dataclass(frozen=True)
class _Place:
    """A sentence of the conclusion as it was read, with the elements that are near."""

    number: int
    cited: frozenset[UUID]
    read: ReadSentence
    near: Mapping[int, tuple[bool, bool]]
    """By place of the element: whether the sentence does not cite it, and whether it does not name it."""


@dataclass
class _ProofFinder:
    stated: Sequence[tuple[int, Sentence]]
    elements: Sequence[ProvableElement]
    _rows: dict[tuple[int, str | None, str], ProofRow] = field(default_factory=dict)
    """By place of the element, property and value."""
    _quotes: dict[int, list[Quote]] = field(default_factory=dict)
    """Those of the rows, by place of the element."""

    def find(self) -> list[ProofRow]:
        places = list(self._places())
        for place in places:
            self._find_figures(place)
        for place in places:
            self._find_words(place)
            self._find_relations(place)
        for place in places:
            self._find_dates(place)
        for place in places:
            self._find_names(place)
        return sorted(self._rows.values(), key=lambda row: row.sentence)

    @cached_property
    def _known(self) -> list[Value]:
        return known_values([each.element for each in self.elements])

    @cached_property
    def _language(self) -> tuple[str | None, str | None]:
        return language_and_sign("\n".join(each.text for _, each in self.stated))

    @cached_property
    def _names(self) -> list[tuple[tuple[str, ...], ...]]:
        """By place of the element, its names; of an edge, those of each end."""
        of_nodes = {each.id: each.element.names for each in self.elements}
        return [
            tuple(of_nodes.get(end, (name,)) for end, name in each.ends) or (each.element.names,)
            for each in self.elements
        ]

    def _places(self) -> Iterator[_Place]:
        for number, sentence in self.stated:
            cited = frozenset(sentence.cited)
            for read in read_sentences(sentence.text, *self._language):
                near = {}
                for place, element in enumerate(self.elements):
                    is_cited = not element.cited_by.isdisjoint(cited)
                    is_named = any(
                        is_mentioned(name, [read.text])
                        for names in self._names[place]
                        for name in names
                    )
                    if is_cited or is_named:
                        near[place] = not is_cited, not is_named
                yield _Place(number, cited, read, near)

    # ---- Figures

    def _find_figures(self, place: _Place) -> None:
        for number in place.read.numbers:
            if number.is_label or _is_in_date(place.read, number):
                continue
            if value := self._value_of(place, number):
                claim = self.elements[value.element].element.values[value.claim]
                self._add(place.number, place.read.shown(number), value.element, claim)

    def _value_of(self, place: _Place, number: Quantity) -> Value | None:
        """The value that the number most likely is: of an element that the sentence cites, names, and speaks of."""
        found = self._matching(place, number)
        if not found and not (number.unit or number.scale):
            scaled = (number.scaled(power) for power in sorted(self._powers))
            found = next((each for one in scaled if (each := self._matching(place, one))), [])
        return min(found, key=lambda value: self._distance(place, number, value), default=None)

    def _matching(self, place: _Place, number: Quantity) -> list[Value]:
        return [
            value
            for value in matching(place.read, number, self._known)
            if self._may_state(place, number, value)
        ]

    def _may_state(self, place: _Place, number: Quantity, value: Value) -> bool:
        if not _is_small(number):
            return True
        return value.element in place.near and _speaks_of(place.read, value.property)

    def _distance(self, place: _Place, number: Quantity, value: Value) -> tuple[int, ...]:
        is_not_clear = bool(number.unit) and not value.unit
        is_other = not _speaks_of(place.read, value.property)
        # A description can repeat what a property says alone.
        chars = len(str(self.elements[value.element].element.values[value.claim][1]))
        return *place.near.get(value.element, (True, True)), is_other, is_not_clear, chars

    @cached_property
    def _powers(self) -> frozenset[int]:
        """Scales that the conclusion names, such as that of a table in millions."""
        text = "\n".join(each.text for _, each in self.stated)
        return frozenset(
            power for each in read_sentences(text, *self._language) for power in each.powers
        ) - {0, 1, 2}

    # ---- Words, relations, names, dates

    def _find_words(self, place: _Place) -> None:
        """Values in words that the sentence has, and those that have a name which it has."""
        for element in place.near:
            own = [name for names in self._names[element] for name in names]
            named = [
                name.text
                for name in find_names(place.read.text, self._language[0])
                if not is_mentioned(name.text, own)
            ]
            for claim in self.elements[element].element.values:
                value = claim[1]
                if (
                    not isinstance(value, str)
                    or not _MIN_WORDS_CHARS <= len(value) <= _MAX_WORDS_CHARS
                    or parse_date(value) is not None
                    or is_mentioned(value, own)
                ):
                    continue
                if is_mentioned(value, [place.read.text]):
                    self._add(place.number, value, element, claim, is_new_quote=True)
                elif name := next((each for each in named if is_mentioned(each, [value])), None):
                    self._add(place.number, name, element, claim, is_new_quote=True)

    def _find_relations(self, place: _Place) -> None:
        """Edges that the sentence cites, or both of whose ends it names."""
        for element in place.near:
            edge = self.elements[element]
            if edge.kind is not Kind.EDGE or element in self._quotes:
                continue
            are_named = all(
                any(is_mentioned(name, [place.read.text]) for name in names)
                for names in self._names[element]
            )
            if are_named or edge.id in place.cited:
                self._add(place.number, edge.name, element, None)

    def _find_names(self, place: _Place) -> None:
        """Nodes of which nothing else is stated: those that the sentence cites itself, and those that it names, unless a
        relation names them.
        """
        related = {end for element in self._quotes for end, _ in self.elements[element].ends}
        for element, (_, is_not_named) in place.near.items():
            node = self.elements[element]
            if node.kind is not Kind.NODE or element in self._quotes:
                continue
            is_named = not is_not_named and node.id not in related
            if is_named or node.id in place.cited:
                quotes = sorted(
                    node.saying(None),
                    key=lambda each: (
                        not any(_speaks_of(place.read, name) for name in each.claims),
                        bool(each.claims),
                    ),
                )
                self._add(place.number, node.name, element, None, quotes)

    def _find_dates(self, place: _Place) -> None:
        """Dates that no sentence of the proof has yet."""
        for date in place.read.dates:
            written = place.read.text[date.start : date.end]
            if date.year is None or any(
                _has_date(each, date)
                for element in self._quotes.keys() & place.near.keys()
                for each in self._quotes[element]
            ):
                continue
            for element in sorted(place.near, key=lambda each: place.near[each]):
                if self._add_date(place, written, date, element):
                    break

    def _add_date(self, place: _Place, written: str, date: Date, element: int) -> bool:
        values = self.elements[element].element.values
        claim = next((each for each in values if _claims_date(each, date)), None)
        if claim is not None:
            return self._add(place.number, written, element, claim)
        quotes = [each for each in self.elements[element].saying(None) if _has_date(each, date)]
        return self._add(place.number, written, element, None, quotes)

    # ---- Rows

    def _add(
        self,
        number: int,
        stated: str,
        element: int,
        claim: tuple[str, Any] | None,
        quotes: Sequence[Quote] | None = None,
        *,
        is_new_quote: bool = False,
    ) -> bool:
        """Add a row with the first of the quotes, unless the claim has one; returns whether there is a quote.

        With `is_new_quote`, only if no row of the element has its sentence.
        """
        property_name, value = claim or (None, None)
        key = element, property_name, canonical_json(value)
        proven = self.elements[element]
        if not (quotes := proven.saying(claim) if quotes is None else quotes):
            return False
        quote = quotes[0]
        known = self._quotes.setdefault(element, [])
        if key in self._rows or (is_new_quote and quote.span in {each.span for each in known}):
            return True
        known.append(quote)
        self._rows[key] = ProofRow(
            number,
            stated,
            proven.kind,
            proven.id,
            proven.element.type,
            proven.name,
            property_name,
            value,
            *quote.span,
        )
        return True


def _speaks_of(sentence: ReadSentence, property_name: str) -> bool:
    stems = stems_of(property_name)
    return any(token.word.startswith(stems) for token in sentence.tokens)


def _claims_date(claim: tuple[str, Any], date: Date) -> bool:
    return any(date.follows_from(each) for each in claimed_dates(*claim))


def _has_date(quote: Quote, date: Date) -> bool:
    """Whether the quote says the date, or is of that date."""
    if any(date.follows_from(each) for each in _parsed(quote.dates)):
        return True
    return any(_claims_date(claim, date) for claim in quote.claims.items())


def _parsed(dates: Iterable[str]) -> Iterator[Date]:
    for text in dates:
        if (date := parse_date(text)) is not None:
            yield date
