"""The outcome of free text that a write claims: a summary, a description, the label of a node. Pure.

Its words are not compared. Its figures, dates and proper names must be in the cited sentences, or in what is read with
them: title, heading, site and date of the page. Those of a label can be anywhere on the page.
"""

import re
from collections.abc import Iterator, Sequence
from typing import Final

from shared.graph.grounding.date_rules import DateRules
from shared.graph.grounding.moments import Moment, find_moments
from shared.graph.grounding.name_rules import NameRules, is_name_of_site
from shared.graph.grounding.names import contains, find_names, is_mentioned, is_place_name
from shared.graph.grounding.outcomes import Outcome, is_same, left_out, unread, worst
from shared.graph.grounding.passages import Reading, Write, without_office
from shared.graph.grounding.quantities import Quantity, find_quantities
from shared.graph.grounding.words import find_language

_REFERENCE: Final = re.compile(r"\d+/\d+")
"""The number of a case or tender, as "2026/11"."""


class FreeTextRules:
    """Checks texts by their figures, dates and names."""

    def __init__(self, write: Write, dates: DateRules, names: NameRules) -> None:
        self._write = write
        self._dates = dates
        self._names = names

    def text(self, text: str, *, is_of_page: bool = False) -> Outcome:
        """Left out if a figure, date or proper name is not there; otherwise unread. `is_of_page` allows the whole page."""
        if not self._write.passages.is_readable:
            return unread("rules do not know the language of the page")
        around = self._write.passages.context(is_of_page=is_of_page)
        missing = (*self._missing_values(text, around, ()), *self._missing_names(text))
        return worst([unread("this takes reading"), *missing])

    def label(self, name: str, *, is_stored: bool = False) -> Outcome:
        """The outcome of a label; of a stored one, dates and figures can be of another page."""
        if not self._write.passages.is_readable:
            return unread("rules do not know the language of the page")
        missing = [*self._missing_names(name, is_label=True)]
        if not is_stored:
            references = [range(*match.span()) for match in _REFERENCE.finditer(name)]
            around = self._write.passages.context(is_of_page=True)
            missing += self._missing_values(name, around, references)
        return worst([unread("a label is free text"), *missing])

    def _missing_values(
        self, text: str, around: Sequence[Reading], references: Sequence[range]
    ) -> Iterator[Outcome]:
        """`references` are the places of what names something, and is no figure."""
        language = self._write.passages.readings[0].language
        dates = find_moments(text, language, None)
        for moment in dates:
            written = text[moment.start : moment.end]
            if not self._is_in_name(text, moment.start, written) and not self._has_date(
                moment, written, around
            ):
                yield left_out(f"the date {written!r} is not in the cited sentences")
        taken = [*references, *(range(each.start, each.end) for each in dates)]
        for alternatives in self._figures(text, taken):
            written = text[alternatives[0].start : alternatives[0].end].strip()
            number = re.sub(r"[^\d.,]", "", written).strip(".,")
            if not self._is_in_name(text, alternatives[0].start, number) and not _has_figure(
                alternatives, number, around
            ):
                yield left_out(f"{written!r} is not in the cited sentences")

    def _is_in_name(self, text: str, start: int, written: str) -> bool:
        """Whether a date or number is a part of a name that the pages have, such as that of a road."""
        before = text[:start].split()[-1:]
        return bool(before) and contains(f"{before[0]} {written}", self._write.passages.page_texts)

    def _has_date(self, moment: Moment, written: str, around: Sequence[Reading]) -> bool:
        is_number = moment.first.month is None and any(
            moment.first.year in each.values for reading in around for each in reading.quantities
        )
        return is_number or self._dates.has_date(moment, written, around)

    def _figures(self, text: str, taken: Sequence[range]) -> Iterator[Sequence[Quantity]]:
        """The figures of a text, each with all ways to read it."""
        passages = self._write.passages
        signs = (*(each.cited.page.decimal_sign for each in passages.readings), ".")
        languages = (passages.readings[0].language, find_language(text) or "en")
        figures: dict[int, list[Quantity]] = {}
        for sign in dict.fromkeys(signs):
            for language in dict.fromkeys(languages):
                for each in find_quantities(text, language, sign):
                    is_figure = each.end and not each.is_written_out and not each.is_label
                    if is_figure and not any(each.start in place for place in taken):
                        figures.setdefault(each.start, []).append(each)
        yield from figures.values()

    def _missing_names(self, text: str, *, is_label: bool = False) -> Iterator[Outcome]:
        passages = self._write.passages
        language = passages.readings[0].language
        sites = [page.site for page in passages.pages]
        known = [each for names in self._write.known if text not in names for each in names]
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
                is_mentioned(each, [*passages.page_texts, *known])
                or self._names.has_words(each, known)
                or passages.has(each)
                or passages.may_have(each)
                or is_name_of_site(each, sites)
                for each in forms
            ):
                continue
            if not (is_place_name(name.text, "en") and name.start):
                yield left_out(f"{name.text!r} is not named on the page")


def _has_figure(alternatives: Sequence[Quantity], number: str, around: Sequence[Reading]) -> bool:
    """Whether one of the readings of a figure is there."""
    there = [each for reading in around for each in reading.quantities]
    if any(is_same(one, each) for one in alternatives for each in there):
        return True
    is_unit_missing = any(
        not each.unit and set(each.values) & set(one.values)
        for each in there
        for one in alternatives
    )
    if (is_unit_missing or not any(each.unit for each in alternatives)) and contains(
        number, [reading.text for reading in around]
    ):
        return True
    return all(each.unit.startswith("duration") for each in alternatives) and any(
        each.unit.startswith("duration") for each in there
    )
