"""The outcome of each value that a write claims: whether the cited sentences have it, by rules alone. Pure.

A value is closed if it is a number, an amount, a date, a name or an identifier. It is matched if the cited sentences have
one candidate of its kind, in a plain sentence whose words or unit fit the name of the property. A date or name that is
written in part is completed. Everything that takes reading is unread. Decision 0067 has the figures.
"""

import re
from collections.abc import Container, Hashable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from decimal import Decimal
from itertools import product
from typing import Any, Final, NamedTuple

from shared.graph.grounding.date_rules import DateRules
from shared.graph.grounding.dates import find_moments, has_vague_time
from shared.graph.grounding.figure_rules import FigureRules, is_same
from shared.graph.grounding.name_rules import (
    IDENTIFIER,
    MAX_NAME_WORDS,
    SCORE,
    SENTENCE_ENDS,
    NameRules,
    is_name_of_site,
)
from shared.graph.grounding.names import contains, find_names, is_place_name, tokenize
from shared.graph.grounding.passages import (
    MATCHED,
    UNREAD,
    Cited,
    Level,
    Outcome,
    Passages,
    Reading,
    WrittenNode,
    is_any_mentioned,
    left_out,
    without_office,
)
from shared.graph.grounding.quantities import Quantity, find_quantities, hint_of, to_decimal
from shared.graph.grounding.words import (
    STEM_LENGTH,
    find_language,
    fold,
    is_function_word,
    pattern_of,
)

RULES: Final = 7
"""Version of the rules of this package. Evidence is stored with the version that accepted it."""
_MAX_DEPTH: Final = 20
_TIME: Final = re.compile(r"(?:[01]?\d|2[0-3])[:.h][0-5]\d(?::[0-5]\d)?")
_REFERENCE: Final = re.compile(r"\d+/\d+")
"""The number of a case or tender, as "2026/11"."""


class Quoted(NamedTuple):
    """A quote, and the values that it is said to support."""

    cited: Cited
    page: Hashable
    """Equal for quotes of one page."""
    claims: Mapping[str, Any]
    valid_from: datetime | None = None
    valid_to: datetime | None = None
    """The first moment at which it is no longer true."""


@dataclass(frozen=True)
class ElementOutcome:
    """The outcomes of a node or edge, and of its properties. `stated` are the quotes that state a property, by place."""

    element: Outcome
    properties: Mapping[str, Outcome] = field(default_factory=dict)
    stated: Mapping[str, Sequence[int]] = field(default_factory=dict)


PUBLISHER_PROPERTIES: Final = ("outlet", "publisher", "side")
"""They are those of the page, and filled in where its publisher is known. `side` is the country of the publisher."""


def check_element(
    ends: Sequence[WrittenNode],
    quotes: Sequence[Quoted],
    required: Container[str] = (),
    declared: Container[str] = (),
) -> ElementOutcome:
    """The outcomes of a node, with one of `ends`, or an edge, with two.

    A property is checked with all quotes that claim it, and if they do not have it, with all of the same pages. A text
    that is `required` is left out only if the pages do not have its figures, dates and names. Of the `declared` properties,
    those of the publisher are filled in.
    """
    known = [end.names for end in ends if end.is_stored and not end.is_label]
    check = WriteCheck([quote.cited for quote in quotes], known)
    element = check.edge(ends) if len(ends) > 1 else check.node(ends[0])
    names = dict.fromkeys(name for quote in quotes for name in quote.claims)
    if element.level is Level.LEFT_OUT:
        return ElementOutcome(element, dict.fromkeys(names, element))
    properties: dict[str, Outcome] = {}
    stated: dict[str, Sequence[int]] = {}
    for name in names:
        outcome, stated[name] = _check_property(check, quotes, name)
        text = next(quote.claims[name] for quote in quotes if name in quote.claims)
        if outcome.level is Level.LEFT_OUT and name in required:
            outcome = check.required_text(text, outcome)
        properties[name] = outcome
    # A book or a game has a publisher of its own.
    is_of_page = len(ends) > 1 or ends[0].is_label
    for name in PUBLISHER_PROPERTIES if is_of_page else ():
        if name in declared and name not in names and (value := check.of_page(name)):
            properties[name] = Outcome(Level.COMPLETED, "it is that of the page", value)
            stated[name] = range(len(quotes))
    return ElementOutcome(element, properties, stated)


def _check_property(
    check: "WriteCheck", quotes: Sequence[Quoted], name: str
) -> tuple[Outcome, Sequence[int]]:
    """The outcome of a property, and the places of the quotes that state it."""
    claiming = [place for place, quote in enumerate(quotes) if name in quote.claims]
    value = quotes[claiming[0]].claims[name]
    claiming = [place for place in claiming if quotes[place].claims[name] == value]

    def outcome_of(places: Sequence[int]) -> Outcome:
        return check.of_sentences([quotes[place].cited for place in places]).value(name, value)

    outcome = outcome_of(claiming)
    if outcome.level is Level.LEFT_OUT and len(claiming) < len(quotes):
        pages = {quotes[place].page for place in claiming}
        claiming = [place for place, quote in enumerate(quotes) if quote.page in pages]
        outcome = min(outcome, outcome_of(claiming), key=lambda each: each.level)
    if outcome.level is Level.LEFT_OUT or len(claiming) == 1:
        return outcome, claiming
    alone = {place: outcome_of([place]).level for place in claiming}
    least = max(min(alone.values()), Level.COMPLETED)
    stating = [place for place, level in alone.items() if level <= least]
    if least is Level.COMPLETED:
        return outcome, stating
    # Of those, the quotes that have most words of it.
    words = _stems(str(value))
    shared = {place: len(words & _stems(quotes[place].cited.sentence)) for place in stating}
    return outcome, [place for place in stating if shared[place] == max(shared.values())]


def _stems(text: str) -> set[str]:
    words = {token.word for token in tokenize(text)}
    return {word[:STEM_LENGTH] for word in words if not is_function_word(word)}


class WriteCheck:
    """Checks the values of one node or edge against the sentences that it cites."""

    def __init__(self, cited: Sequence[Cited], known: Sequence[Sequence[str]] = ()) -> None:
        """`known` are the names of each node that the graph has."""
        self._passages = Passages(cited, known)
        self._dates = DateRules(self._passages)
        self._figures = FigureRules(self._passages, self._dates)
        self._names = NameRules(self._passages)
        self._is_unnamed = False

    def of_sentences(self, cited: Sequence[Cited]) -> "WriteCheck":
        check = WriteCheck(cited, self._passages.known)
        check._passages.own, check._passages.label = self._passages.own, self._passages.label
        check._is_unnamed = self._is_unnamed
        return check

    def node(self, node: WrittenNode) -> Outcome:
        """The outcome of the node itself. A label is free text: its figures, dates and proper names must be there."""
        names = node.names
        if node.is_label:
            self._passages.label = names[0]
            return self._label(names[0], is_stored=node.is_stored, needs_names=False)
        self._passages.own = names
        named = self._passages.is_named(names)
        if named:
            return MATCHED
        self._is_unnamed = True
        may_be_meant = (
            named is None
            or self._names.may_be_meant(names)
            or self._names.has_words_apart(names[0])
            or self._names.is_publisher(names[0])
            or not self._passages.can_miss_names
            or (node.is_stored and self._names.has_unnamed_holder)
        )
        if may_be_meant:
            return UNREAD
        if self._names.is_description(names[0]):
            return self._label(names[0], is_stored=node.is_stored, needs_names=not node.is_stored)
        return left_out(f"no cited sentence names {names[0]!r}")

    def edge(self, ends: Sequence[WrittenNode]) -> Outcome:
        """The outcome of the edge between these nodes. What connects them is always unread."""
        self._passages.own = [name for end in ends for name in end.names]
        for names in (end.names for end in ends if not end.is_label):
            named = self._passages.is_named(names)
            if named:
                continue
            self._is_unnamed = True
            may_be_meant = (
                named is None
                or self._names.refers
                or self._names.has_number_of(names)
                or self._names.is_meant_by_noun(names)
                or self._passages.is_in_title(names)
                or not self._passages.can_miss_names
                or self._is_described(names[0])
            )
            if not may_be_meant:
                return left_out(f"no cited sentence names {names[0]!r}")
        return UNREAD

    def _is_described(self, name: str) -> bool:
        """Whether a name is a description, and a cited sentence has a proper name of it, or its page has all."""
        if not self._names.is_description(name):
            return False
        parts = [each.text for each in find_names(name, self._passages.readings[0].language)]
        if is_any_mentioned(parts, self._passages.sentences):
            return True
        return self._label(name, is_stored=True).level is not Level.LEFT_OUT

    def required_text(self, text: Any, outcome: Outcome) -> Outcome:
        """The outcome of a text that a write must have, and that can be anywhere on the page; else `outcome`."""
        if not isinstance(text, str) or len(text.split()) <= MAX_NAME_WORDS:
            return outcome
        return self._free_text(text, is_of_page=True) if self._passages.has_pages else UNREAD

    def value(self, name: str, value: Any) -> Outcome:
        if name in PUBLISHER_PROPERTIES and value == self.of_page(name):
            return MATCHED
        outcome = self._value(name, value, 0)
        return UNREAD if self._is_unnamed and outcome.level < Level.UNREAD else outcome

    def of_page(self, name: str) -> str | None:
        """The value of one of PUBLISHER_PROPERTIES that all pages have; None if that is not known."""
        publishers = {page.publisher for page in self._passages.pages}
        publisher = publishers.pop() if len(publishers) == 1 else None
        return None if publisher is None else publisher.value_of(name)

    def _value(self, name: str, value: Any, depth: int) -> Outcome:
        if value is None:
            return MATCHED
        if isinstance(value, str):
            return self._text(name, value.strip())
        if isinstance(value, int | float | Decimal) and not isinstance(value, bool):
            number = to_decimal(value)
            return UNREAD if number is None else self._figures.number(name, number)
        if depth >= _MAX_DEPTH or not isinstance(value, Mapping | Sequence):
            return UNREAD
        parts = (
            [(f"{name}_{key}", each) for key, each in value.items()]
            if isinstance(value, Mapping)
            else [(name, each) for each in value]
        )
        outcomes = [self._value(*part, depth + 1) for part in parts]
        outcome = max(outcomes, key=lambda each: each.level, default=MATCHED)
        return UNREAD if outcome.level is Level.COMPLETED else outcome

    def _text(self, name: str, text: str) -> Outcome:
        if not self._passages.is_readable:
            return UNREAD
        is_short = len(text.split()) <= MAX_NAME_WORDS
        if not is_short and text.endswith(SENTENCE_ENDS):
            return MATCHED if self._is_whole_sentence(text) else self._free_text(text)
        if (moment := self._dates.read_date(text)) is not None:
            return self._dates.date(name, moment, text)
        if _TIME.fullmatch(text) or pattern_of("rough").search(fold(text)):
            return UNREAD
        if "=" in text and (computed := self._figures.computation(name, text)) is not None:
            return computed
        has_digits = any(each.isdigit() for each in text)
        is_vague = is_short and has_vague_time(fold(text), is_day=False)
        if is_vague and has_digits:
            return UNREAD
        if (currency := self._figures.currency(text)) is not None:
            return currency
        if (amount := self._figures.read_amount(text)) is not None:
            return self._figures.amount(name, amount, text)
        if IDENTIFIER.fullmatch(text) or SCORE.fullmatch(text):
            return self._names.identifier(name, text)
        if hint_of(name).is_kind and not has_digits:
            return UNREAD
        if self._names.is_name(text) and not is_vague:
            return self._names.name(name, text)
        return self._free_text(text)

    def _is_whole_sentence(self, text: str) -> bool:
        signs = r"[ \"'“”«»()\[\]•-]*"
        end = "" if text.endswith(SENTENCE_ENDS) else rf"{signs}(?:[.!?\n]|$)"
        whole = rf"(?:^|[.!?\n]){signs}{re.escape(text)}{end}"
        return any(text in each and re.search(whole, each) for each in self._passages.sentences)

    # Free text: a summary, a description, the label of a node. Its words are not compared. Its figures, dates and proper
    # names must be in the cited sentences, or in title, heading, site and date of the page; those of a label on the page.

    def _free_text(self, text: str, *, is_of_page: bool = False) -> Outcome:
        """Left out if a figure, date or proper name is not there; otherwise unread. `is_of_page` allows the whole page."""
        around = self._passages.context(is_of_page=is_of_page)
        missing = (*self._missing_values(text, around, ()), *self._missing_names(text))
        return next(iter(missing), UNREAD)

    def _label(self, name: str, *, is_stored: bool = False, needs_names: bool = True) -> Outcome:
        """The outcome of a label. Of a stored one, dates and figures can be of another page; unless it `needs_names`, so can
        all names but one: the type says that it is free text, and a reader judges it.
        """
        if not self._passages.is_readable:
            return UNREAD
        missing = [*self._missing_names(name)]
        if not needs_names and (
            len(missing) < len([*self._names_in(name)]) or self._names.has_capital_of(name)
        ):
            missing = []
        if not is_stored:
            references = [range(*match.span()) for match in _REFERENCE.finditer(name)]
            around = self._passages.context(is_of_page=True)
            missing += self._missing_values(name, around, references)
        return next(iter(missing), UNREAD)

    def _missing_values(
        self, text: str, around: Sequence[Reading], references: Sequence[range]
    ) -> Iterator[Outcome]:
        """`references` are the places of what names something, and is no figure."""
        dates = find_moments(text, self._passages.readings[0].language, None)
        there = [each for reading in around for each in reading.quantities]
        for moment in dates:
            # A year may be a number.
            is_number = moment.first.month is None and any(
                moment.first.year in each.values for each in there
            )
            if not is_number and not self._dates.has_date(moment, around):
                written = text[moment.start : moment.end]
                yield left_out(f"the date {written!r} is not in the cited sentences")
        taken = [*references, *(range(each.start, each.end) for each in dates)]
        for readings in self._figures_of(text, taken):
            written = text[readings[0].start : readings[0].end].strip()
            number = re.sub(r"[^\d.,]", "", written).strip(".,")
            # It may be a part of a name, such as that of a road.
            before = text[: readings[0].start].split()[-1:]
            is_in_name = bool(before) and contains(
                f"{before[0]} {number}", self._passages.page_texts
            )
            if not is_in_name and not _has_figure(readings, number, around, there):
                yield left_out(f"{written!r} is not in the cited sentences")

    def _figures_of(self, text: str, taken: Sequence[range]) -> Iterator[Sequence[Quantity]]:
        signs = (*(each.cited.page.decimal_sign for each in self._passages.readings), ".")
        languages = (self._passages.readings[0].language, find_language(text) or "en")
        figures: dict[int, list[Quantity]] = {}
        for sign, language in product(dict.fromkeys(signs), dict.fromkeys(languages)):
            for each in find_quantities(text, language, sign):
                is_figure = not each.is_written_out and not each.is_label
                if is_figure and not any(each.start in place for place in taken):
                    figures.setdefault(each.start, []).append(each)
        yield from figures.values()

    def _missing_names(self, text: str) -> Iterator[Outcome]:
        for name, is_there in self._names_in(text):
            if not is_there:
                yield left_out(f"{name!r} is not named on the page")

    def _names_in(self, text: str) -> Iterator[tuple[str, bool]]:
        language = self._passages.readings[0].language
        if language == "de" or not self._passages.has_pages:
            return  # In German, all nouns have a capital.
        sites = [page.site for page in self._passages.pages]
        known = [each for names in self._passages.known if text not in names for each in names]
        for name in find_names(text, language):
            # The first word of a text has a capital anyway.
            is_first_word = not name.start and " " not in name.text
            if not name.is_certain or is_first_word or is_place_name(name.text, "en"):
                continue
            shorter = name.text.partition(" ")[2] if not name.start else ""
            forms = [each for each in (name.text, without_office(name.text), shorter) if each]
            is_there = any(
                self._names.has_words(each, known)
                or self._passages.has(each)
                or self._passages.may_have(each)
                or is_name_of_site(each, sites)
                for each in forms
            )
            yield name.text, is_there


def _has_figure(
    readings: Sequence[Quantity], number: str, around: Sequence[Reading], there: Sequence[Quantity]
) -> bool:
    """Whether one of the readings of a figure is `there`, or the number alone."""
    if any(is_same(one, each) for one in readings for each in there):
        return True
    if all(each.unit.startswith("duration") for each in readings):
        # "36 hours" may be a day and a half.
        return any(each.unit.startswith("duration") for each in there)
    is_bare = not any(each.unit for each in readings)
    return is_bare and contains(number, [reading.text for reading in around])
