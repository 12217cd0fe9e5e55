"""The outcome of each value that a write claims: whether the cited sentences have it, by rules alone. Pure.

A value is closed if it is a number, an amount, a date, a name or an identifier. It is matched if the cited sentences have
one candidate of its kind, in a plain sentence whose words or unit fit the name of the property. A date or name that is
written in part is completed. Everything that takes reading is unread. Decision 0067 has the figures.
"""

import re
from collections.abc import Mapping, Sequence
from decimal import Decimal
from typing import Any, Final

from shared.graph.grounding.date_rules import DateRules
from shared.graph.grounding.figure_rules import FigureRules
from shared.graph.grounding.free_text import FreeTextRules
from shared.graph.grounding.moments import has_vague_time
from shared.graph.grounding.name_rules import (
    IDENTIFIER,
    MAX_NAME_WORDS,
    SCORE,
    SENTENCE_ENDS,
    NameRules,
)
from shared.graph.grounding.names import find_names
from shared.graph.grounding.outcomes import (
    MATCHED,
    Level,
    Outcome,
    left_out,
    to_decimal,
    unread,
    worst,
)
from shared.graph.grounding.passages import (
    Cited,
    Passages,
    Write,
    WrittenNode,
    is_any_mentioned,
)
from shared.graph.grounding.units import hint_of
from shared.graph.grounding.words import fold

RULES: Final = 6
"""Version of the rules of this package. Evidence is stored with the version that accepted it."""
_MAX_DEPTH: Final = 20
_TIME: Final = re.compile(r"(?:[01]?\d|2[0-3])[:.h][0-5]\d(?::[0-5]\d)?")
_ROUGH: Final = re.compile(
    r"(?<!\w)(?:mid|early|late|middle of|anfang|mitte|ende|debut|mi|fin|mediados|meta|inizio|fine|meados)[\s-]"
    r"(?:of |de |del )?\w"
)


class WriteCheck:
    """Checks the values of one node or edge against the sentences that it cites."""

    def __init__(self, cited: Sequence[Cited], known: Sequence[Sequence[str]] = ()) -> None:
        """`known` are the names of each node that the graph has."""
        self._write = Write(Passages(cited, known), known)
        self._dates = DateRules(self._write)
        self._figures = FigureRules(self._write, self._dates)
        self._names = NameRules(self._write)
        self._free_text = FreeTextRules(self._write, self._dates, self._names)
        self._is_unnamed = False

    def of_sentences(self, cited: Sequence[Cited]) -> "WriteCheck":
        """A check of other sentences, for the element that this one has checked."""
        check = WriteCheck(cited, self._write.known)
        check._write.own, check._write.label = self._write.own, self._write.label
        check._is_unnamed = self._is_unnamed
        return check

    def node(self, node: WrittenNode) -> Outcome:
        """The outcome of the node itself. A label is free text: its figures, dates and proper names must be there."""
        names = node.names
        if node.is_label:
            self._write.label = names[0]
            return self._free_text.label(names[0], is_stored=node.is_stored)
        self._write.own = names
        named = self._write.passages.is_named(names)
        if named or self._names.has_with_version(names[0]):
            return MATCHED
        self._is_unnamed = True
        may_be_meant = (
            named is None
            or self._names.may_be_meant(names)
            or self._names.has_words_apart(names[0])
            or not self._names.can_miss_names
            or (node.is_stored and self._names.has_unnamed_holder)
        )
        if may_be_meant:
            return unread(f"the sentences may mean {names[0]!r}")
        if self._names.is_description(names[0]):
            return self._free_text.label(names[0], is_stored=node.is_stored)
        return left_out(f"no cited sentence names {names[0]!r}")

    def edge(self, ends: Sequence[WrittenNode]) -> Outcome:
        """The outcome of the edge between these nodes. What connects them is always unread."""
        self._write.own = [name for end in ends for name in end.names]
        for names in (end.names for end in ends if not end.is_label):
            named = self._write.passages.is_named(names)
            if named:
                continue
            self._is_unnamed = True
            may_be_meant = (
                named is None
                or self._names.refers
                or self._names.is_meant_by_noun(names)
                or self._write.passages.is_in_title(names)
                or not self._names.can_miss_names
                or self._is_described(names[0])
            )
            if not may_be_meant:
                return left_out(f"no cited sentence names {names[0]!r}")
        return unread("rules cannot check how two things are connected")

    def _is_described(self, name: str) -> bool:
        """Whether a name is a description, and a cited sentence has a proper name of it, or its page has all."""
        if not self._names.is_description(name):
            return False
        passages = self._write.passages
        parts = [each.text for each in find_names(name, passages.readings[0].language)]
        if is_any_mentioned(parts, passages.sentences):
            return True
        return self._free_text.label(name, is_stored=True).level is not Level.LEFT_OUT

    def text_of_page(self, text: str) -> Outcome:
        """The outcome of a text that a write must have: its figures, dates and names can be anywhere on the page."""
        if not self._write.passages.has_pages:
            return unread("the text of the page is not there")
        return self._free_text.text(text, is_of_page=True)

    def value(self, name: str, value: Any) -> Outcome:
        """The outcome of a property, after that of its node or edge."""
        outcome = self._value(name, value, 0)
        if self._is_unnamed and outcome.level < Level.UNREAD:
            return unread("no cited sentence names all that it is about")
        return outcome

    def _value(self, name: str, value: Any, depth: int) -> Outcome:
        if value is None:
            return MATCHED
        if isinstance(value, bool):
            return unread("rules cannot check yes-or-no values")
        if isinstance(value, int | float | Decimal):
            number = to_decimal(value)
            return (
                unread("this is not a number")
                if number is None
                else self._figures.number(name, number)
            )
        if isinstance(value, str):
            return self._text(name, value.strip())
        if depth >= _MAX_DEPTH or not isinstance(value, Mapping | Sequence):
            return unread("rules cannot check values of this kind")
        parts = (
            [self._value(f"{name}_{key}", each, depth + 1) for key, each in value.items()]
            if isinstance(value, Mapping)
            else [self._value(name, each, depth + 1) for each in value]
        )
        outcome = worst(parts)
        return (
            unread("a part of it is written in part")
            if outcome.level is Level.COMPLETED
            else outcome
        )

    def _text(self, name: str, text: str) -> Outcome:
        if not self._write.passages.is_readable:
            return unread("rules do not know the language of the page")
        if text.endswith(SENTENCE_ENDS) and len(text.split()) > MAX_NAME_WORDS:
            return MATCHED if self._is_whole_sentence(text) else self._free_text.text(text)
        if (moment := self._dates.read_date(text)) is not None:
            return self._dates.date(name, moment, text)
        if _TIME.fullmatch(text) or _ROUGH.search(fold(text)):
            return unread("rules cannot check when that is")
        if "=" in text and (computed := self._figures.computation(name, text)) is not None:
            return computed
        is_short = len(text.split()) <= MAX_NAME_WORDS
        is_vague = is_short and has_vague_time(fold(text), is_day=False)
        if is_vague and any(each.isdigit() for each in text):
            return unread("rules cannot read when that is")
        if (currency := self._figures.currency(text)) is not None:
            return currency
        if (amount := self._figures.read_amount(text)) is not None:
            return self._figures.amount(name, amount, text)
        if not is_short and self._is_whole_sentence(text):
            return MATCHED
        if IDENTIFIER.fullmatch(text) or SCORE.fullmatch(text):
            return self._names.identifier(name, text)
        if hint_of(name).is_kind and not any(each.isdigit() for each in text):
            return unread("rules cannot check of what kind something is")
        if self._names.is_name(text) and not is_vague:
            return self._names.name(name, text)
        return self._free_text.text(text)

    def _is_whole_sentence(self, text: str) -> bool:
        for sentence in self._write.passages.sentences:
            start = sentence.find(text)
            if start < 0:
                continue
            before = sentence[:start].rstrip(" \"'“”«»([-•")
            after = sentence[start + len(text) :].lstrip(" \"'“”«»)]")
            is_end = text.endswith(SENTENCE_ENDS) or not after or after[0] in ".!?\n"
            if is_end and (not before or before[-1] in ".!?\n"):
                return True
        return False
