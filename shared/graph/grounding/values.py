"""The outcome of each value that a write claims: whether the cited sentences have it, by rules alone. Pure.

A value is closed if it is a number, an amount, a date, a name or an identifier. It is matched if the cited sentences have
one candidate of its kind, in a plain sentence whose words or unit fit the name of the property. A date or name that is
written in part is completed. Everything that takes reading is unread. Decision 0067 has the figures.
"""

import re
from collections.abc import Iterator, Mapping, Sequence
from decimal import Decimal
from typing import Any, Final

from shared.graph.grounding.date_rules import DateRules
from shared.graph.grounding.figure_rules import FigureRules
from shared.graph.grounding.moments import find_moments, has_vague_time
from shared.graph.grounding.name_rules import (
    IDENTIFIER,
    MAX_NAME_WORDS,
    SCORE,
    SENTENCE_ENDS,
    NameRules,
)
from shared.graph.grounding.names import (
    contains,
    find_names,
    is_mentioned,
    is_place_name,
)
from shared.graph.grounding.outcomes import (
    MATCHED,
    Level,
    Outcome,
    is_same,
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
    without_office,
)
from shared.graph.grounding.quantities import Quantity, find_quantities
from shared.graph.grounding.units import hint_of
from shared.graph.grounding.words import find_language, fold

RULES: Final = 5
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
        self._is_unnamed = False

    def of_sentences(self, cited: Sequence[Cited]) -> "WriteCheck":
        """A check of other sentences, for the element that this one has checked."""
        check = WriteCheck(cited, self._write.known)
        check._write.own, check._is_unnamed = self._write.own, self._is_unnamed
        return check

    def node(self, node: WrittenNode) -> Outcome:
        """The outcome of the node itself. A label is free text: its figures, dates and proper names must be there."""
        names = node.names
        if node.is_label:
            outcome = self._free_text(names[0], is_label=True)
            return outcome if outcome.level is Level.LEFT_OUT else unread("a label is free text")
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
        return left_out(f"no cited sentence names {names[0]!r}")

    def edge(self, ends: Sequence[WrittenNode]) -> Outcome:
        """The outcome of the edge between these nodes. What connects them is always unread."""
        self._write.own = [name for end in ends for name in end.names]
        for names in (end.names for end in ends if not end.is_label):
            named = self._write.passages.is_named(names)
            if named:
                continue
            self._is_unnamed = True
            may_be_meant = named is None or self._names.refers or not self._names.can_miss_names
            if not may_be_meant:
                return left_out(f"no cited sentence names {names[0]!r}")
        return unread("rules cannot check how two things are connected")

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
        if (moment := self._dates.read_date(text)) is not None:
            return self._dates.date(name, moment, text)
        if _TIME.fullmatch(text) or _ROUGH.search(fold(text)):
            return unread("rules cannot check when that is")
        if "=" in text and (computed := self._figures.computation(name, text)) is not None:
            return computed
        if has_vague_time(fold(text), is_day=False) and any(each.isdigit() for each in text):
            return unread("rules cannot read when that is")
        if (currency := self._figures.currency(text)) is not None:
            return currency
        if (amount := self._figures.read_amount(text)) is not None:
            return self._figures.amount(name, amount, text)
        if len(text.split()) > MAX_NAME_WORDS and self._is_whole_sentence(text):
            return MATCHED
        if IDENTIFIER.fullmatch(text) or SCORE.fullmatch(text):
            return self._names.identifier(name, text)
        if hint_of(name).is_kind and not any(each.isdigit() for each in text):
            return unread("rules cannot check of what kind something is")
        if self._names.is_name(text) and not has_vague_time(fold(text), is_day=False):
            return self._names.name(name, text)
        outcome = self._free_text(text)
        return outcome if outcome.level is Level.LEFT_OUT else unread("this takes reading")

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

    def _free_text(self, text: str, *, is_label: bool = False) -> Outcome:
        """Left out if a figure, date or proper name of the text is not there; otherwise unread."""
        passages = self._write.passages
        if not passages.is_readable:
            return unread("rules do not know the language of the page")
        return worst([unread("this takes reading"), *self._missing_parts(text, is_label=is_label)])

    def _missing_parts(self, text: str, *, is_label: bool) -> Iterator[Outcome]:
        passages = self._write.passages
        language = passages.readings[0].language
        dates = find_moments(text, language, None)
        for moment in dates:
            written = text[moment.start : moment.end]
            before = text[: moment.start].split()[-1:]
            if before and contains(f"{before[0]} {written}", passages.page_texts):
                continue  # It is a part of a name.
            year = moment.first.year
            if moment.first.month is None and any(
                year in each.values for r in passages.readings for each in r.quantities
            ):
                continue  # It is a number.
            if not self._dates.has_date(moment, written):
                yield left_out(f"the date {written!r} is not in the cited sentences")
        quoted = [each for reading in passages.readings for each in reading.quantities]
        signs = dict.fromkeys(reading.cited.page.decimal_sign for reading in passages.readings)
        readings: dict[int, list[Quantity]] = {}
        read = (
            each
            for sign in dict.fromkeys((*signs, "."))
            for own_language in dict.fromkeys((language, find_language(text) or "en"))
            for each in find_quantities(text, own_language, sign)
        )
        for each in read:
            is_in_date = any(day.start <= each.start < day.end for day in dates)
            if each.end and not each.is_written_out and not each.is_label and not is_in_date:
                readings.setdefault(each.start, []).append(each)
        for alternatives in readings.values():
            written = text[alternatives[0].start : alternatives[0].end].strip()
            number = re.sub(r"[^\d.,]", "", written).strip(".,")
            if any(is_same(one, each) for one in alternatives for each in quoted):
                continue
            is_unit_missing = any(
                not each.unit and set(each.values) & set(one.values)
                for each in quoted
                for one in alternatives
            )
            if contains(number, passages.sentences) and (
                is_unit_missing or not any(each.unit for each in alternatives)
            ):
                continue
            if all(each.unit.startswith("duration") for each in alternatives) and any(
                each.unit.startswith("duration") for each in quoted
            ):
                continue
            before = text[: alternatives[0].start].split()[-1:]
            if before and contains(f"{before[0]} {number}", passages.page_texts):
                continue  # It names something, such as a road.
            yield left_out(f"{written!r} is not in the cited sentences")
        own = [name for names in self._write.known for name in names]
        for name in find_names(text, language) if passages.has_pages else ():
            if language == "de" and not (is_place_name(name.text, "de") or name.text.isupper()):
                continue  # All nouns have a capital.
            if not name.is_certain or (
                is_label and not name.start and " " not in name.text and not name.text.isupper()
            ):
                continue
            shorter = name.text.partition(" ")[2] if not name.start else ""
            forms = [each for each in (name.text, without_office(name.text), shorter) if each]
            if any(
                is_mentioned(each, [*passages.page_texts, *own]) or self._names.has_words(each)
                for each in forms
            ):
                continue
            if any(passages.has(each) or passages.may_have(each) for each in forms) or (
                is_place_name(name.text, "en") and name.start
            ):
                continue
            yield left_out(f"{name.text!r} is not named on the page")
