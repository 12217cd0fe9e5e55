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
from shared.graph.grounding.words import fold, table, word_set

LIMITED_BY: Final = re.compile(
    r"(?<!\w)(?:before|prior to|until|up to|through|since|than|vor|bis|ab|seit|als|avant"
    r"|jusqu'a|depuis|que|antes de|hasta|desde|prima della?|fino alla?|ate)\s(?:the |der |la |a )?$"
)
_OF_NEWS: Final = timedelta(days=7)
"""Between an event and the page that reports it."""
_MAX_CLAUSE_CHARS: Final = 400
"""Before and after what is in the clause."""
_THAT: Final = re.compile(r"(?<!\w)(?:that|dass|que|qu'|che)(?!\w)")
_EARLIER: Final = re.compile(
    r"(?<!\w)(?:(?:year|quarter|month)s? (?:earlier|ago|before)|(?:previous|prior|preceding) (?:year|quarter|month)|vorjahr"
    r"|(?:an|trimestre|mois) (?:plus tot|auparavant|avant)|(?:annee|trimestre) precedente?"
    r"|(?:ano|trimestre|mes) (?:anterior|antes)|(?:anno|trimestre|mese) (?:prima|precedente))"
)
"""Means a period before one that the sentence has."""
_DAY_OF_YEAR: Final = re.compile(r"(?:--)?((?:0[1-9]|1[0-2])-(?:[0-2]\d|3[01]))")
_ENDS: Final = frozenset(("start", "from", "end", "until"))
_CLAUSE: Final = re.compile(r"[,;:.]\s|\s(?:but|aber|mais|pero|ma|mas|while|wahrend)\s")


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
            if self._may_mean(claimed.first) or self._is_said_around(claimed):
                return UNREAD
            return left_out(f"the date {text} is not in the cited sentences{self._instead()}")
        if claimed.is_open:
            return self._completed_date(name, found)
        first = found[0][1]
        is_end = first.is_range and self._is_end(name, first, claimed)
        if first.is_range and not is_end:
            is_other_end = bool(_ENDS & {*name_parts(name)}) and len(found) == len(self.moments)
            return left_out("it is the other end of the range") if is_other_end else UNREAD
        is_general = _is_general_date(name)
        is_limited = any(
            LIMITED_BY.search(reading.folded[max(0, each.start - 14) : each.start])
            for reading, each in found
        )
        has_others = len(found) < len(self.moments)
        is_clear = (
            (is_end or (is_general and not has_others) or self._fits_date(name, found))
            and not all(self._passages.is_of_other(reading) for reading, _ in found)
            and (not is_limited or bool({*_ENDS, "since"} & {*name_parts(name)}))
            and (is_general or not any(_says_before("negations", *each) for each in found))
            and not any(_says_before("conditions", *each) for each in found)
        )
        return MATCHED if is_clear else UNREAD

    def _instead(self) -> str:
        return instead(str(each.first) for _, each in self.moments if each.first.year)

    def _may_mean(self, day: Date) -> bool:
        """Whether the sentences may mean the date without saying it."""
        return any(each.is_open for _, each in self.moments) or any(
            has_vague_time(reading.folded, is_day=day.day is not None)
            for reading in self._passages.readings
        )

    def _is_said_around(self, claimed: Moment) -> bool:
        """Whether the page has the date in its title, or as its own, and no sentence says another that can be meant."""
        alike = [
            each
            for _, each in self.moments
            if each.first.year and bool(each.first.day) == bool(claimed.first.day)
        ]
        if self._is_of_page(claimed):
            return not any(_may_be_reported(each.first, claimed.first) for each in alike)
        readings = self._passages.readings
        around = self._passages.context()[len(readings) :]
        return not alike and any(
            each.states(claimed.first) for reading in around for each in reading.moments
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

    def _completed_date(self, name: str, found: Sequence[tuple[Reading, Moment]]) -> Outcome:
        moment = found[0][1]
        if len({each.ends for _, each in found}) > 1 or not moment.first.year:
            return UNREAD
        role = set(date_role(name))
        is_end = moment.is_range and bool({"start", "end"} & role)
        if not (is_end or _is_general_date(name) or self._fits_date(name, found)):
            return UNREAD
        return _completed(str(moment.last if "end" in role else moment.first))

    def _is_end(self, name: str, moment: Moment, claimed: Moment) -> bool:
        """Whether the name of the property says which end of the range it is."""
        role = date_role(name)
        if "end" in role:
            return claimed.first.follows_from(moment.last)
        return "start" in role and claimed.first.follows_from(moment.first)

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
            and not all(
                self._passages.is_of_other(reading)
                or self._passages.is_nearer_to_other(reading, each.start)
                for reading, each in found
            )
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
            or self._is_of_page(moment)
            # "July 2026" of "last month".
            or self._may_mean(first)
            or (
                first.day is None
                and any(_EARLIER.search(reading.folded) for reading in self._passages.readings)
            )
        )

    def _is_of_page(self, moment: Moment) -> bool:
        """Whether a page was published on that day, or in that month, quarter or year."""
        return any(
            moment.first.follows_from(Date(day.year, day.month, day.day))
            for page in self._passages.pages
            if (day := page.published) is not None
        )


def _completed(value: str) -> Outcome:
    return Outcome(Level.COMPLETED, "completed from the date of the page", value)


def _may_be_reported(day: Date, published: Date) -> bool:
    """Whether a date can be that of the event that a page of `published` reports. Months and years always can."""
    if not (day.year and day.month and day.day):
        return True
    if not (published.year and published.month and published.day):
        return True
    days = date(published.year, published.month, published.day) - date(day.year, day.month, day.day)
    return timedelta(0) <= days <= _OF_NEWS


def _says_before(table_name: str, reading: Reading, moment: Moment) -> bool:
    """Whether the sentence has a word of the table, apart from reported speech after the date."""
    that = _THAT.search(reading.folded, moment.end)
    before = reading.folded[: that.start()] if that else reading.folded
    return bool(word_set(table_name).intersection(token.word for token in tokenize(before)))


def name_parts(name: str) -> list[str]:
    """The words of a property's name."""
    split = re.sub(r"(?<=[a-z])(?=[A-Z])", "_", name)
    return [part for part in re.split(r"[^a-z0-9]+", fold(split)) if part]


def _is_general_date(name: str) -> bool:
    words = set(re.split(r"[^a-z]+", fold(name))) - {""}
    return words <= word_set("general_dates")


def date_role(name: str) -> tuple[str, ...]:
    """Words that a sentence has if its date is that of the property."""
    words = [part for part in name_parts(name) if part.isalpha()]
    found: list[str] = []
    for listed_words in table("date_roles").values():
        known = listed_words.split()
        if set(words) & set(known):
            found += known
    found += [
        word[:6]
        for word in words
        if len(word) > 3 and word not in ("date", "year", "month", "last")
    ]
    return tuple(found)


def clause_around(folded: str, start: int, end: int) -> tuple[int, int]:
    """The clause with the characters from `start` to `end`."""
    first, last = max(0, start - _MAX_CLAUSE_CHARS), min(len(folded), end + _MAX_CLAUSE_CHARS)
    ends = [match.end() for match in _CLAUSE.finditer(folded, first, start)]
    after = _CLAUSE.search(folded, end, last)
    return (ends[-1] if ends else first), (after.start() if after else last)
