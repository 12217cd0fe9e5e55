"""Dates in a text, and the days that a sentence means by them. Pure."""

import re
from calendar import monthrange
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from datetime import date, timedelta
from functools import cache
from typing import Final, NamedTuple

from shared.graph.grounding.words import (
    LANGUAGES,
    Lexicon,
    alternatives,
    bound_blanks,
    fold_in_place,
    lexicon,
    pattern_of,
    table,
    word_pattern,
    word_set,
)

_MONTHS_IN_QUARTER: Final = 3


class Date(NamedTuple):
    """A day, a month, a quarter or a year; `year` is None where the text leaves it out."""

    year: int | None
    month: int | None = None
    day: int | None = None
    quarter: int | None = None
    start: int = 0
    end: int = 0
    is_ambiguous: bool = False
    """Whether it may be another day of the same year or month: "5/3/2024"."""

    def __str__(self) -> str:
        if self.quarter:
            return f"{self.year or ''}-Q{self.quarter}".lstrip("-")
        return "-".join(f"{part:02}" for part in (self.year, self.month, self.day) if part)

    def follows_from(self, other: "Date") -> bool:
        """Whether `other` says at least as much."""
        if self.year is not None and other.year != self.year:
            return False
        if self.quarter is not None:
            return self.quarter == (
                other.quarter or (other.month and (other.month - 1) // _MONTHS_IN_QUARTER + 1)
            )
        if self.month is not None and other.month != self.month:
            return False
        return self.day is None or other.day == self.day


_DIGIT: Final = re.compile(r"\d")
_ANY_YEAR: Final = re.compile(r"[12]\d{3}")
_YEAR: Final = r"(?P<year>[12]\d{3})"
_ISO: Final = re.compile(
    rf"(?<![\w.]){_YEAR}-(?:(?P<month>0[1-9]|1[0-2])(?:-(?P<day>[0-2]\d|3[01]))?|[QT](?P<quarter>[1-4]))"
    r"(?:[T ]\d\d:\d\d(?::\d\d)?(?:\.\d+)?(?:Z|[+-]\d\d:?\d\d)?)?(?![\w-])"
)
_NUMERIC: Final = re.compile(
    r"(?<![\w./-])(?P<first>\d{1,2})(?P<sign>[./-])\s?(?P<second>\d{1,2})(?P=sign)\s?(?P<year>[12]\d{3}|\d\d)(?![\w/-]|\.\d)"
)
_YEAR_ALONE: Final = re.compile(r"(?<![\w.,'’/-])(?P<year>[12]\d{3})(?![\w’]|[.,]\d|['-]\d)")
_YEAR_RANGE: Final = re.compile(
    r"(?<![\w.,])(?P<year>[12]\d{3})\s?[-–/]\s?(?P<last>[12]\d{3}|\d\d)(?![\w]|[.,]\d)"
)
_QUARTER_CODE: Final = re.compile(
    r"(?<!\w)(?:[QT](?P<quarter>[1-4])|(?P<before>[1-4])[QT])[\s/-]*(?P<year>[12]\d{3})(?!\w)"
)
_FISCAL_YEAR: Final = re.compile(
    r"(?<!\w)(?:(?:[QT](?P<quarter>[1-4])\s)?FY[\s'’]?|(?P<before>[1-4])[QT])(?P<year>20\d\d|\d\d)(?!\w)"
)
"""Such as "FY24", "Q3 FY2024" and "3Q24"."""
_QUARTER_WORDS: Final = ("quarter", "quartal", "trimestre", "kwartaal")
_QUARTER_WORD: Final = rf"(?:{'|'.join(_QUARTER_WORDS)})"
_OF: Final = r"(?:\s+(?:of the year|of|des jahres|del|de|di|do)\b)?"


def find_dates(text: str, language: str | None) -> list[Date]:
    """The dates in `text`, in their order. Of dates that overlap, the longest."""
    found = sorted(
        _all(bound_blanks(text), lexicon(language)), key=lambda each: (each.start, -each.end)
    )
    dates: list[Date] = []
    for each in found:
        if not dates or each.start >= dates[-1].end:
            dates.append(each)
    return dates


def parse_date(text: str) -> Date | None:
    """The date that an ISO 8601 text is: a day, month or quarter; also its day if it has a time. None if it is none."""
    match = _ISO.fullmatch(text.strip())
    return _date(match, *match.group("year", "month", "day", "quarter")) if match else None


_Part = str | int | None


def _date(
    match: re.Match[str], year: _Part, month: _Part = None, day: _Part = None, quarter: _Part = None
) -> Date:
    def number(part: _Part) -> int | None:
        return int(part) if part else None

    return Date(number(year), number(month), number(day), number(quarter), *match.span())


def _all(text: str, words: Lexicon) -> Iterator[Date]:
    if not _DIGIT.search(text):
        return
    has_year = _ANY_YEAR.search(text) is not None
    folded = fold_in_place(text)
    for match in _ISO.finditer(text) if has_year else ():
        yield _date(match, *match.group("year", "month", "day", "quarter"))
    for match in _NUMERIC.finditer(text):
        yield from _from_numbers(match, words)
    for match in _written_pattern(words.language).finditer(folded):
        month = words.months[match["month"] or match["month_first"]]
        day, year = match["day"] or match["day_after"], match["year"] or match["year_after"]
        if day or year:
            yield _date(match, year, month, day)
    codes = _QUARTER_CODE.finditer(text) if has_year else ()
    for match in (*_FISCAL_YEAR.finditer(text), *codes):
        year = match["year"] if len(match["year"]) == 4 else f"20{match['year']}"
        yield _date(match, year, quarter=match["quarter"] or match["before"])
    has_quarter = any(word in folded for word in _QUARTER_WORDS)
    for match in _quarter_pattern(words.language).finditer(folded) if has_quarter else ():
        word = match["word"]
        found = (words.quarters[key] for key in words.quarters if word.startswith(key))
        if quarter := next(found, None) or (word[0] if word[0] in "1234" else None):
            yield _date(match, match["year"], quarter=quarter)
    if not has_year:
        return
    for match in _YEAR_RANGE.finditer(text):
        first, last = int(match["year"]), match["last"]
        yield Date(first, start=match.start(), end=match.start() + 4)
        if len(last) == 4 or int(last) == (first + 1) % 100:
            second = int(last) if len(last) == 4 else first + 1
            yield Date(second, start=match.end() - len(last), end=match.end())
    for match in _YEAR_ALONE.finditer(text):
        yield _date(match, match["year"])


def _from_numbers(match: re.Match[str], words: Lexicon) -> Iterator[Date]:
    first, second, year = int(match["first"]), int(match["second"]), int(match["year"])
    if len(match["year"]) == 2:
        year += 2000 if year < 70 else 1900
    # 5/3/2024 is in May in the United States, and in March elsewhere; only one that can be read in one way is a date.
    if words.language == "en" and match["sign"] == "/":
        if first != second and max(first, second) <= 12:
            yield _date(match, year)._replace(is_ambiguous=True)
            return
        first, second = max(first, second), min(first, second)
    if 1 <= second <= 12 and 1 <= first <= 31:
        yield _date(match, year, second, first)


@cache
def _written_pattern(language: str) -> re.Pattern[str]:
    months = alternatives(lexicon(language).months)
    day = r"(?:[1-9]|0[1-9]|[12]\d|3[01])"
    ordinal = r"(?:st|nd|rd|th|er|\.|º|°|o)?"
    of_year = r"(?:[\s,]*(?:de|del|di|of)?[\s,]+(?P<{name}>[12]\d{{3}})(?!\w))?"
    return re.compile(
        rf"(?<![\w.,])(?:(?P<day>{day}){ordinal}\s*(?:of |de |di )?\s*(?P<month>{months})\b\.?"
        + of_year.format(name="year")
        + rf"|(?P<month_first>{months})\b\.?(?:\s+(?P<day_after>{day})(?:st|nd|rd|th)?(?!\w|[.,]\d))?"
        + of_year.format(name="year_after")
        + ")"
    )


@cache
def _quarter_pattern(language: str) -> re.Pattern[str]:
    ordinals = alternatives(lexicon(language).quarters)
    return re.compile(
        rf"(?<!\w)(?P<word>(?:{ordinals})\w{{0,2}}|[1-4](?:\.|st|nd|rd|th|er|e|[º°ª]|o)?)\s+{_QUARTER_WORD}s?{_OF}"
        r"(?:[\s,]+(?P<year>[12]\d{3})(?!\w))?"
    )


@dataclass(frozen=True)
class Moment:
    """A day, month, quarter or year that a sentence names, or the range from `first` to `last`."""

    first: Date
    last: Date
    start: int
    end: int
    is_open: bool = False
    """Whether a part of it is unknown, because the page has no date."""
    weekday: int | None = None
    """0 for Monday, if it is written as a day of the week."""

    @property
    def is_range(self) -> bool:
        return self.first != self.last

    @property
    def ends(self) -> tuple[Date, ...]:
        return (self.first, self.last) if self.is_range else (self.first,)

    def states(self, day: Date) -> bool:
        """Whether one of its ends is `day`, or lies in it."""
        return any(day.follows_from(each) for each in self.ends)

    def is_written_as(self, other: "Moment") -> bool:
        """Whether `other`, from a text without a date of its own, writes the same day in part."""
        if other.weekday is not None or self.weekday is not None:
            return other.weekday == self.weekday
        wanted = other.first
        return any(
            (wanted.year in (None, each.year))
            and wanted.month == each.month
            and wanted.quarter == each.quarter
            and (wanted.day is None or wanted.day == each.day)
            for each in self.ends
        )


def find_moments(text: str, language: str | None, published: date | None) -> list[Moment]:
    """The dates that `text` names, in their order. `published` is the day of its page."""
    if parsed := parse_date(text):
        return [_moment(parsed)]
    text = bound_blanks(text)
    folded = fold_in_place(text)
    dates = [*_with_years(find_dates(text, language), folded)]
    taken = {place for each in dates for place in range(each.start, each.end)}
    months = [each for each in _months(text, folded, language) if each.start not in taken]
    found = [_complete(each, text, language, published) for each in (*dates, *months)]
    found += _period_ends(text, folded, language, published)
    starts = [each.start for each in dates if each.day]
    for moment in _words(text, folded, language, published):
        is_weekday_of = any(
            moment.weekday is not None
            and pattern_of("before_date").fullmatch(text, moment.end, start)
            for start in starts
        )
        if not is_weekday_of and moment.start not in taken:
            found.append(moment)
    return _joined(sorted(found, key=lambda each: each.start), folded)


def has_vague_time(folded: str, *, is_day: bool) -> bool:
    """Whether a folded text says when in a way that is not read, such as "two days ago"; "in autumn" is no day."""
    return bool(pattern_of("vague_days").search(folded)) or (
        not is_day and bool(word_pattern("vague_times").search(folded))
    )


def _moment(day: Date, *, is_open: bool = False) -> Moment:
    plain = Date(day.year, day.month, day.day, day.quarter)
    return Moment(plain, plain, day.start, day.end, is_open)


def _with_years(dates: Sequence[Date], folded: str) -> Iterator[Date]:
    """The dates; the first of two that are joined has the year of the second, as in "between 1 March and 30 June 2025"."""
    for number, each in enumerate(dates):
        following = dates[number + 1] if number + 1 < len(dates) else None
        if (
            each.year is None
            and following is not None
            and following.year is not None
            and pattern_of("range_of_dates").fullmatch(folded[each.end : following.start])
        ):
            is_later = (each.month or 0, each.day or 0) > (following.month or 0, following.day or 0)
            each = each._replace(year=following.year - is_later)
        yield each


def _complete(day: Date, text: str, language: str | None, published: date | None) -> Moment:
    if day.year is not None:
        return _moment(day, is_open=day.is_ambiguous)
    month = day.month or (day.quarter or 1) * 3
    years = range(published.year - 1, published.year + 2) if published else ()
    at = {
        year: date(year, month, day.day or 1)
        for year in years
        if not day.day or day.day <= monthrange(year, month)[1]
    }
    if not at or not published:
        return _moment(day, is_open=True)
    tense = _tense(text, day.start, language)
    # A month or quarter is compared by its own kind: this month is neither past nor coming.
    now = published if day.day else published.replace(day=1)
    if tense < 0:
        # "Was closed until 20 August", on 19 August.
        chosen = max((year for year in at if at[year] <= now + _SOON), default=min(at))
    elif tense > 0:
        chosen = min((year for year in at if at[year] >= now), default=max(at))
    else:
        chosen = min(at, key=lambda year: abs(at[year] - now))
    return _moment(day._replace(year=chosen))


_SOON: Final = timedelta(days=30)
_NEAR_CHARS: Final = 240
"""Before and after a date, in which a verb tells its tense."""


def _tense(text: str, place: int, language: str | None) -> int:
    """-1 if the words around a date say that it is past, 1 if it is still to come, 0 if they do not tell."""
    first = max(0, place - _NEAR_CHARS)
    near, offset = text[first : place + _NEAR_CHARS].lower(), place - first

    def distance(verb: re.Match[str]) -> int:
        # A verb after the date tells less than one before it.
        return offset - verb.end() if verb.end() <= offset else 1_000 + verb.start() - offset

    verbs = [
        (distance(verb), sign)
        for name, sign in (("future", 1), ("past", -1))
        for verb in _tense_pattern(name, language).finditer(near)
    ]
    sign = min(verbs, key=lambda verb: verb[0], default=(0, 0))[1]
    return sign + 1 if sign < 1 and _is_ahead(text, place, language) else sign


def _is_ahead(text: str, place: int, language: str | None) -> bool:
    return bool(
        _tense_pattern("ahead_of", language).search(text[max(0, place - 24) : place].lower())
    )


@cache
def _tense_pattern(name: str, language: str | None) -> re.Pattern[str]:
    words = table(name).get(language if language in LANGUAGES else "en", "(?!)")
    end = r"\s+(?:the |le |el |il |den |dem |\w{0,3}\s)?$" if name == "ahead_of" else ""
    return re.compile(rf"(?<![\w'’])(?:{words})(?!\w){end}")


def _period_ends(
    text: str, folded: str, language: str | None, published: date | None
) -> Iterator[Moment]:
    for match in pattern_of("end_of_period").finditer(folded):
        day = Date(None, start=match.start(), end=match.end())
        if published and match.lastgroup and _tense(text, match.start(), language) >= 0:
            months = int(match.lastgroup.removeprefix("months_"))
            month = -(-published.month // months) * months
            last = monthrange(published.year, month)[1]
            day = day._replace(year=published.year, month=month, day=last)
        yield _moment(day, is_open=day.year is None)


def _words(
    text: str, folded: str, language: str | None, published: date | None
) -> Iterator[Moment]:
    words = lexicon(language)
    for match in _day_pattern(words.language).finditer(folded):
        word, start, end = match["word"], *match.span("word")
        day = None
        if (weekday := words.weekdays.get(word)) is None:
            is_noun = words.language == "de" and word == "morgen" and text[start].isupper()
            if is_noun or match["before"] in word_set("not_relative"):
                continue
            if published:
                day = published + timedelta(days=table("relative_days")[words.language][word])
        elif published:
            around = f"{match['before'] or ''} {folded[end : end + 12]}"
            is_coming = bool(pattern_of("coming").search(around))
            tense = 1 if is_coming else _tense(text, start, language)
            days = (weekday - published.weekday()) % 7
            if tense > 0:
                day = published + timedelta(days=days or 7 * is_coming)
            # "Sank until Tuesday" is past, "was closed until Tuesday" may not be.
            elif not _is_ahead(text, start, language):
                is_last_week = pattern_of("last_week").match(folded, end)
                back = published.weekday() - weekday + 7 if is_last_week else -days % 7
                day = published - timedelta(days=back)
        found = Date(day.year, day.month, day.day) if day else Date(None)
        yield Moment(found, found, start, end, is_open=day is None, weekday=weekday)


@cache
def _day_pattern(language: str) -> re.Pattern[str]:
    listed = (*table("relative_days").get(language, {}), *lexicon(language).weekdays)
    words = alternatives(frozenset(listed))
    return re.compile(rf"(?:(?<!\w)(?P<before>\w+)\s+)?(?<![\w'-])(?P<word>{words})(?!\w)")


def _months(text: str, folded: str, language: str | None) -> Iterator[Date]:
    words = lexicon(language)
    for match in _month_pattern(words.language).finditer(folded):
        needs_capital = words.language == "en" or match[0] in word_set("ambiguous_months")
        if text[match.start()].isupper() or not needs_capital:
            yield Date(None, words.months[match[0]], None, None, *match.span())


@cache
def _month_pattern(language: str) -> re.Pattern[str]:
    names = frozenset(
        word for word in lexicon(language).months if len(word) > 3 or word in ("may", "mai")
    )
    return re.compile(rf"(?<![\w.])(?:{alternatives(names)})(?![\w])")


def _joined(moments: list[Moment], folded: str) -> list[Moment]:
    """The moments; two that are the ends of a range are one, and "3 to 14 August" has its first day too."""
    joined: list[Moment] = []
    for moment in moments:
        before, last = folded[max(0, moment.start - 16) : moment.start], moment.first
        if joined and last.day and _is_start_of(joined[-1], moment, folded):
            start = joined.pop()
            moment = replace(moment, first=start.first, start=start.start)
        elif (match := pattern_of("first_day").search(before)) and last.day and last.month:
            day, start_of_range = int(match["day"]), moment.start - len(before) + match.start()
            if day < last.day:
                moment = replace(moment, first=last._replace(day=day), start=start_of_range)
        joined.append(moment)
    return joined


def _is_start_of(previous: Moment, moment: Moment, folded: str) -> bool:
    return bool(
        previous.first.day
        and pattern_of("range_of_dates").fullmatch(folded, previous.end, moment.start)
        and pattern_of("range_start").search(folded, max(0, previous.start - 14), previous.start)
    )
