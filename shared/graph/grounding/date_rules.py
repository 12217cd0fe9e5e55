"""The outcomes of dates that a write claims, by what the cited sentences say. Pure."""

import re
from collections.abc import Sequence
from datetime import date, timedelta
from typing import Final

from shared.graph.grounding.dates import Date, Moment, find_moments, has_vague_time
from shared.graph.grounding.names import tokenize
from shared.graph.grounding.passages import (
    MATCHED,
    UNREAD,
    Level,
    Outcome,
    Passages,
    Reading,
    instead,
    left_out,
)
from shared.graph.grounding.words import fold, name_parts, pattern_of, table, word_set

_OF_NEWS: Final = timedelta(days=7)
_MAX_CLAUSE_CHARS: Final = 400
"""Before and after what is in the clause."""
_DAY_OF_YEAR: Final = re.compile(r"(?:--)?((?:0[1-9]|1[0-2])-(?:[0-2]\d|3[01]))")
_LIMITS: Final = frozenset(("start", "from", "end", "until", "since"))


class DateRules:
    """Checks dates and years."""

    def __init__(self, passages: Passages) -> None:
        self._passages = passages

    @property
    def moments(self) -> list[tuple[Reading, Moment]]:
        readings = self._passages.readings
        return [(reading, each) for reading in readings for each in reading.moments]

    def read_date(self, text: str) -> Moment | None:
        """The date that the whole text is."""
        languages = [each.language for each in self._passages.readings]
        for language in dict.fromkeys([*languages, "en"]):
            # "05-11" is the day of a date without its year.
            if match := _DAY_OF_YEAR.fullmatch(text):
                [day] = find_moments(f"2000-{match[1]}", language, None)
                bare = day.first._replace(year=None)
                return Moment(bare, bare, 0, len(text), is_open=True)
            found = find_moments(text, language, None)
            if len(found) == 1:
                rest = fold(text[: found[0].start] + text[found[0].end :].strip(" ."))
                if word_set("before_dates").issuperset(rest.split()):
                    return found[0]
        return None

    def date(self, name: str, claimed: Moment, text: str) -> Outcome:
        if claimed.is_range:
            return self._range(claimed, text)
        found = [
            (reading, each)
            for reading, each in self.moments
            if (
                self._writes(reading, each, claimed, text)
                if claimed.is_open
                else each.states(claimed.first)
            )
        ]
        if not found:
            if self._may_mean(claimed.first) or self._may_be_published(claimed.first):
                return UNREAD
            return left_out(f"the date {text} is not in the cited sentences{self._instead()}")
        role, moment = date_role(name), found[0][1]
        end = moment.last if "end" in role else moment.first if "start" in role else None
        is_general = _is_general_date(name)
        fits = bool(moment.is_range and end) or self._fits_date(name, found)
        if claimed.is_open:
            is_sure = len({each.ends for _, each in found}) == 1 and moment.first.year
            is_sure = is_sure and (fits or is_general)
            return _completed(str(end or moment.first)) if is_sure else UNREAD
        has_others = len(found) < len(self.moments)
        if moment.is_range and not (end and claimed.first.follows_from(end)):
            is_other_end = end is not None and not has_others
            return left_out("it is the other end of the range") if is_other_end else UNREAD
        is_limited = any(reading.says_before("limited_by", each.start) for reading, each in found)
        is_clear = (
            (fits or (is_general and not has_others))
            and (not is_limited or bool(_LIMITS & {*name_parts(name)}))
            and (is_general or not any(_says_before("negations", *each) for each in found))
            and not any(_says_before("conditions", *each) for each in found)
        )
        return MATCHED if is_clear else UNREAD

    def _instead(self) -> str:
        return instead(str(each.first) for _, each in self.moments if each.first.year)

    def _may_mean(self, day: Date) -> bool:
        return any(each.is_open for _, each in self.moments) or any(
            has_vague_time(reading.folded, is_day=day.day is not None)
            for reading in self._passages.readings
        )

    @property
    def _news(self) -> list[tuple[Date, Date]]:
        """For each page the days of which it reports, the last of which is its own."""
        return [
            (_date_of(page.published - _OF_NEWS), _date_of(page.published))
            for page in self._passages.pages
            if page.published
        ]

    def _may_be_published(self, day: Date) -> bool:
        """Whether it is the date of a page, and no sentence has another that can be that of an event of the page."""
        alike = [
            each.first
            for _, each in self.moments
            if each.first.year and bool(each.first.day) == bool(day.day)
        ]
        return any(
            day.follows_from(last)
            and not any(not day.day or first[:3] <= each[:3] <= last[:3] for each in alike)
            for first, last in self._news
        )

    def _range(self, claimed: Moment, text: str) -> Outcome:
        for _, each in self.moments:
            if not (each.is_range and each.first.year and each.last.year):
                continue
            if claimed.ends == each.ends:
                return MATCHED if len(self.moments) == 1 else UNREAD
            if all(
                (one.month, one.day) == (other.month, other.day) and one.year in (None, other.year)
                for one, other in zip(claimed.ends, each.ends, strict=True)
            ):
                return _completed(f"{each.first}/{each.last}")
        if any(each.first.day == claimed.first.day for _, each in self.moments):
            return UNREAD
        return left_out(f"the dates {text} are not in the cited sentences{self._instead()}")

    def _writes(self, reading: Reading, moment: Moment, claimed: Moment, text: str) -> bool:
        if claimed.weekday is not None or claimed.first.month:
            return moment.is_written_as(claimed)
        # "yesterday": the same word stands there.
        return fold(reading.text[moment.start : moment.end]) in fold(text)

    def _fits_date(self, name: str, found: Sequence[tuple[Reading, Moment]]) -> bool:
        """Whether words near one of the dates say what the name of the property says."""
        pattern = re.compile(rf"(?<!\w)(?:{'|'.join(map(re.escape, date_role(name))) or '(?!)'})")
        return any(
            pattern.search(reading.folded, *clause_around(reading.folded, each.start, each.end))
            for reading, each in found
        )

    def year(self, name: str, year: int, found: Sequence[tuple[Reading, Moment]]) -> Outcome:
        years = {each.year for _, moment in self.moments for each in moment.ends if each.year}
        is_clear = (
            years == {year}
            and not all(self._passages.is_of_other(reading, each.start) for reading, each in found)
            and (_is_general_date(name) or self._fits_date(name, found))
            and all(reading.is_plain for reading, _ in found)
        )
        return MATCHED if is_clear else UNREAD

    def has_date(self, moment: Moment, around: Sequence[Reading]) -> bool:
        """Whether a date may be that of the page or of one of `around`, which are the cited sentences and others."""
        first = moment.first
        stated = (each for reading in around for each in reading.moments)
        return (
            any(each.states(first) or each.is_written_as(moment) for each in stated)
            or any(first.follows_from(last) for _, last in self._news)
            # "July 2026" of "last month".
            or self._may_mean(first)
            or (
                first.day is None
                and any(pattern_of("earlier").search(r.folded) for r in self._passages.readings)
            )
        )


def _date_of(day: date) -> Date:
    return Date(day.year, day.month, day.day)


def _completed(value: str) -> Outcome:
    return Outcome(Level.COMPLETED, "completed from the date of the page", value)


def _says_before(table_name: str, reading: Reading, moment: Moment) -> bool:
    """Whether the sentence has a word of the table, apart from reported speech after the date."""
    that = pattern_of("that").search(reading.folded, moment.end)
    before = reading.folded[: that.start()] if that else reading.folded
    return bool(word_set(table_name).intersection(token.word for token in tokenize(before)))


def _is_general_date(name: str) -> bool:
    return word_set("general_dates").issuperset(name_parts(name))


def date_role(name: str) -> tuple[str, ...]:
    """Words that a sentence has if its date is that of the property."""
    words = [part for part in name_parts(name) if part.isalpha()]
    roles = (listed.split() for listed in table("date_roles").values())
    return (
        *(word for role in roles if {*role}.intersection(words) for word in role),
        *(
            word[:6]
            for word in words
            if len(word) > 3 and word not in ("date", "year", "month", "last")
        ),
    )


def clause_around(folded: str, start: int, end: int) -> tuple[int, int]:
    first, last = max(0, start - _MAX_CLAUSE_CHARS), min(len(folded), end + _MAX_CLAUSE_CHARS)
    ends = [match.end() for match in pattern_of("clause_ends").finditer(folded, first, start)]
    after = pattern_of("clause_ends").search(folded, end, last)
    return (ends[-1] if ends else first), (after.start() if after else last)
