"""The outcomes of dates that a write claims, by what the cited sentences say. Pure."""

import re
from collections.abc import Sequence
from datetime import date, timedelta
from typing import Final

from shared.graph.grounding.dates import Date
from shared.graph.grounding.moments import Moment, find_moments, has_vague_time, iso
from shared.graph.grounding.names import (
    contains,
    tokenize,
)
from shared.graph.grounding.outcomes import (
    MATCHED,
    Level,
    Outcome,
    instead,
    left_out,
    listed,
    unread,
)
from shared.graph.grounding.passages import (
    IN_PLACE,
    Reading,
    Write,
)
from shared.graph.grounding.words import (
    fold,
    table,
    word_set,
)

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
_CLAUSE: Final = re.compile(r"[,;:.]\s|\s(?:but|aber|mais|pero|ma|mas|while|wahrend)\s")


class DateRules:
    """Checks dates and years."""

    def __init__(self, write: Write) -> None:
        self._write = write

    def read_date(self, text: str) -> Moment | None:
        """The date that the whole text is."""
        for language in dict.fromkeys(
            [*(each.language for each in self._write.passages.readings), "en"]
        ):
            found = find_moments(text, language, None)
            if (
                len(found) == 1
                and not text[: found[0].start].strip()
                and not text[found[0].end :].strip(" .")
            ):
                return found[0]
            # "05-11" is the day of a date without its year.
            if match := re.fullmatch(r"(?:--)?(0[1-9]|1[0-2])-([0-2]\d|3[01])", text):
                [day] = find_moments(f"2000-{match[0].lstrip('-')}", language, None)
                bare = day.first._replace(year=None)
                return Moment(bare, bare, 0, len(text), is_open=True)
            if len(found) == 1 and all(
                word in word_set("before_dates")
                for word in fold(text[: found[0].start] + text[found[0].end :]).split()
            ):
                return found[0]
            if fold(text) in table("relative_days").get(language or "", {}):
                return found[0] if found else None
        return None

    @property
    def moments(self) -> list[tuple[Reading, Moment]]:
        return [
            (reading, each) for reading in self._write.passages.readings for each in reading.moments
        ]

    def _is_said_around(self, claimed: Moment) -> bool:
        """Whether the page has the date in its title, or as its own, and no sentence says another that can be meant."""
        alike = [
            each
            for _, each in self.moments
            if each.first.year and bool(each.first.day) == bool(claimed.first.day)
        ]
        if self._is_of_page(claimed):
            return not any(_may_be_reported(each.first, claimed.first) for each in alike)
        readings = self._write.passages.readings
        around = self._write.passages.context()[len(readings) :]
        return not alike and any(
            each.states(claimed.first) for reading in around for each in reading.moments
        )

    def date(self, name: str, claimed: Moment, text: str) -> Outcome:
        if not self._write.passages.is_readable:
            return unread("rules do not know the language of the page")
        everything = self.moments
        is_part = claimed.is_open
        if claimed.is_range:
            return self._range(claimed, text)
        if is_part:
            found = [
                (reading, each)
                for reading, each in everything
                if self._writes(reading, each, claimed, text)
            ]
        else:
            found = [(reading, each) for reading, each in everything if each.states(claimed.first)]
        if not found:
            if any(each.is_open for _, each in everything) or any(
                has_vague_time(reading.folded, is_day=claimed.first.day is not None)
                for reading in self._write.passages.readings
            ):
                return unread("rules cannot read when that is")
            if self._is_said_around(claimed):
                return unread("only the title or the date of the page has it")
            stands = instead(iso(each.first) for _, each in everything if each.first.year)
            return left_out(f"the date {text} is not in the cited sentences{stands}")
        if is_part:
            return self._completed_date(name, found, everything, text)
        others = [each for _, each in everything if all(each is not one for _, one in found)]
        is_end = found[0][1].is_range and self._is_end(name, found[0][1], claimed)
        if others and not is_end and not self._fits_date(name, found):
            return unread(
                f"the sentences have other dates: {listed(iso(each.first) for each in others)}"
            )
        if found[0][1].is_range and not is_end:
            is_other = (
                len(found) == 1
                and date_role(name)
                and claimed.first in found[0][1].ends
                and self._is_other_end(name)
            )
            return (
                left_out("it is the other end of the range")
                if is_other
                else unread("it is one end of a range")
            )
        if not is_end and not _is_general_date(name) and not self._fits_date(name, found):
            return unread(f"the sentences have no word for {name}")
        if all(self.is_of_other(reading) for reading, _ in found):
            return unread("the sentence names others")
        if any(
            LIMITED_BY.search(reading.folded[max(0, each.start - 14) : each.start])
            for reading, each in found
        ) and not ({"end", "until", "start", "since", "from"} & {*name_parts(name)}):
            return unread("the sentence gives a limit")
        if not _is_general_date(name) and any(
            _is_negated(reading, each) for reading, each in found
        ):
            return unread("the sentence has a negation")
        if any(_is_conditional(reading, each) for reading, each in found):
            return unread("the sentence is no plain statement")
        return MATCHED

    def _range(self, claimed: Moment, text: str) -> Outcome:
        for _, each in self.moments:
            if each.is_range and each.first.year and each.last.year:
                if claimed.first.year and (claimed.first, claimed.last) == (each.first, each.last):
                    return (
                        MATCHED
                        if len(self.moments) == 1
                        else unread("the sentences have other dates")
                    )
                pairs = ((claimed.first, each.first), (claimed.last, each.last))
                if all(
                    (one.month, one.day) == (other.month, other.day)
                    and one.year in (None, other.year)
                    for one, other in pairs
                ):
                    return Outcome(
                        Level.COMPLETED,
                        "completed from the date of the page",
                        f"{iso(each.first)}/{iso(each.last)}",
                    )
        stands = instead(iso(each.first) for _, each in self.moments if each.first.year)
        if any(each.first.day == claimed.first.day for _, each in self.moments):
            return unread(f"rules cannot read {text!r} there")
        return left_out(f"the dates {text} are not in the cited sentences{stands}")

    def _writes(self, reading: Reading, moment: Moment, claimed: Moment, text: str) -> bool:
        if claimed.weekday is not None or claimed.first.month:
            return moment.is_written_as(claimed)
        # "yesterday": the same word stands there.
        return fold(reading.text[moment.start : moment.end]) in fold(text)

    def _completed_date(
        self,
        name: str,
        found: Sequence[tuple[Reading, Moment]],
        everything: Sequence[tuple[Reading, Moment]],
        text: str,
    ) -> Outcome:
        [*days] = dict.fromkeys((each.first, each.last) for _, each in found)
        if len(days) > 1 or found[0][1].is_open or not found[0][1].first.year:
            return unread(f"{text} can be more than one date")
        moment = found[0][1]
        is_end = moment.is_range and bool({"start", "end"} & set(date_role(name)))
        if not is_end and not _is_general_date(name) and not self._fits_date(name, found):
            return unread(f"the sentences have no word for {name}")
        day = moment.last if moment.is_range and "end" in date_role(name) else moment.first
        return Outcome(Level.COMPLETED, "completed from the date of the page", iso(day))

    def _is_end(self, name: str, moment: Moment, claimed: Moment) -> bool:
        """Whether the name of the property says which end of the range it is."""
        role = date_role(name)
        if "end" in role:
            return claimed.first.follows_from(moment.last)
        return "start" in role and claimed.first.follows_from(moment.first)

    def _fits_date(self, name: str, found: Sequence[tuple[Reading, Moment]]) -> bool:
        """Whether words near one of the dates say what the name of the property says."""
        words = date_role(name)
        for reading, moment in found:
            start, end = clause_around(reading.folded, moment.start, moment.end)
            near = reading.folded[start:end]
            if any(re.search(rf"(?<!\w){re.escape(word)}", near) for word in words):
                return True
        return False

    def is_nearer_to_other(self, reading: Reading, start: int) -> bool:
        """Whether the name before a place in the sentence is that of something else."""
        if not self._write.own:
            return False
        before = [
            name
            for name in reading.names
            if name.end <= start and self._write.passages.is_sure(name, reading.language)
        ]
        if not before:
            return False
        last = before[-1]
        is_place = IN_PLACE.search(reading.text[max(0, last.start - 8) : last.start])
        return not is_place and not self._write.passages.is_short_for(last.text, self._write.own)

    def is_of_other(self, reading: Reading) -> bool:
        """Whether the sentence names others, and not the element."""
        if not self._write.own or self._write.passages.has_in(reading, self._write.own):
            return False
        return any(
            self._write.passages.is_sure(name, reading.language)
            and name.is_certain
            and not self._write.passages.is_short_for(name.text, self._write.own)
            and name.text[:1].isupper()
            for name in reading.names
        )

    def _is_other_end(self, name: str) -> bool:
        parts = set(name_parts(name))
        return bool(parts & {"start", "from", "end", "until"})

    def year(self, name: str, year: int, found: Sequence[tuple[Reading, Moment]]) -> Outcome:
        years = {each.year for _, moment in self.moments for each in moment.ends if each.year}
        if all(self.is_of_other(r) or self.is_nearer_to_other(r, each.start) for r, each in found):
            return unread("the sentence names others")
        if years != {year} or not (_is_general_date(name) or self._fits_date(name, found)):
            return unread(f"the sentences may say {year} of something else")
        return (
            MATCHED
            if all(r.is_plain for r, _ in found)
            else unread("the sentence is no plain statement")
        )

    def has_date(self, moment: Moment, written: str, around: Sequence[Reading]) -> bool:
        """Whether a date may be that of the page or of one of `around`, which are the cited sentences and others."""
        first = moment.first
        if first.year is None and first.month is None:
            return True
        stated = (each for reading in around for each in reading.moments)
        if any(each.states(first) or each.is_written_as(moment) for each in stated) or contains(
            written, [reading.text for reading in around]
        ):
            return True
        # "July 2026" of "last month".
        return (
            self._is_of_page(moment)
            or any(each.is_open for _, each in self.moments)
            or any(
                has_vague_time(reading.folded, is_day=first.day is not None)
                or (first.day is None and _EARLIER.search(reading.folded))
                for reading in self._write.passages.readings
            )
        )

    def _is_of_page(self, moment: Moment) -> bool:
        """Whether a page was published on that day, or in that month, quarter or year."""
        dates = [page.published for page in self._write.passages.pages]
        return any(
            moment.first.follows_from(Date(each.year, each.month, each.day))
            for each in dates
            if each is not None
        )


def _may_be_reported(day: Date, published: Date) -> bool:
    """Whether a date can be that of the event that a page of `published` reports. Months and years always can."""
    if not (day.year and day.month and day.day and published.day):
        return True
    assert published.year
    assert published.month
    days = date(published.year, published.month, published.day) - date(day.year, day.month, day.day)
    return timedelta(0) <= days <= _OF_NEWS


def name_parts(name: str) -> list[str]:
    """The words of a property's name."""
    split = re.sub(r"(?<=[a-z])(?=[A-Z])", "_", name)
    return [part for part in re.split(r"[^a-z0-9]+", fold(split)) if part]


def _is_general_date(name: str) -> bool:
    words = set(re.split(r"[^a-z]+", fold(name))) - {""}
    return words <= word_set("general_dates")


def _is_conditional(reading: Reading, moment: Moment) -> bool:
    """Whether the clause of a date has a condition: apart from reported speech after it."""
    that = _THAT.search(reading.folded, moment.end)
    before = reading.folded[: that.start()] if that else reading.folded
    return bool(word_set("conditions").intersection(token.word for token in tokenize(before)))


def _is_negated(reading: Reading, moment: Moment) -> bool:
    """Whether the sentence has a negation, other than in reported speech."""
    that = _THAT.search(reading.folded, moment.end)
    before = reading.folded[: that.start()] if that else reading.folded
    return bool(word_set("negations").intersection(token.word for token in tokenize(before)))


def date_role(name: str) -> tuple[str, ...]:
    """Words that a sentence has if its date is that of the property."""
    words = [
        word
        for word in re.split(r"[^a-z]+", fold(re.sub(r"(?<=[a-z])(?=[A-Z])", "_", name)))
        if word
    ]
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
