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
    """Whether it may be another day of the same year or month: "5/3/2024", "10-12 May 2024"."""

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


def _date(
    match: re.Match[str],
    year: str | int | None,
    month: str | int | None = None,
    day: str | int | None = None,
    quarter: str | int | None = None,
    *,
    is_ambiguous: bool = False,
) -> Date:
    """The date of these parts, some of which the match does not have."""

    def number(part: str | int | None) -> int | None:
        return int(part) if part else None

    parts = number(year), number(month), number(day), number(quarter)
    return Date(*parts, *match.span(), is_ambiguous)


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
            is_ambiguous = _is_range_of_days(folded, match)
            yield _date(match, year, month, day, is_ambiguous=is_ambiguous)
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
        if first > 12 >= second:
            yield _date(match, year, second, first)
        elif first <= 12 and (second > 12 or first == second):
            yield _date(match, year, first, second)
        else:
            yield _date(match, year, is_ambiguous=True)
    elif 1 <= second <= 12 and 1 <= first <= 31:
        yield _date(match, year, second, first)


_DAY_BEFORE: Final = re.compile(
    r"(?<![\w.,])\d{1,2}\.?(?:st|nd|rd|th)?\s*(?:-|to|and|bis|und|au|et|al|y|e|tot|t/m)\s*$"
)
_DAY_AFTER: Final = re.compile(r"\s*(?:-|to|and)\s*\d{1,2}(?!\d)")


def _is_range_of_days(folded: str, match: re.Match[str]) -> bool:
    before = folded[max(0, match.start() - 12) : match.start()].replace("–", "-")
    after = folded[match.end() : match.end() + 8].replace("–", "-")
    return bool(_DAY_BEFORE.search(before) or _DAY_AFTER.match(after))


@cache
def _written_pattern(language: str) -> re.Pattern[str]:
    """A month as a word, with a day, a year or both."""
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
    is_completed: bool = False
    """Whether a part of it is not written there, and follows from the date of the page."""
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
        return [_bare(parsed, 0, len(text))]
    text = bound_blanks(text)
    dates = find_dates(text, language)
    found = [
        _complete(each, text, language, published)
        for each in _with_years(dates, fold_in_place(text))
    ]
    taken = [range(each.start, each.end) for each in dates]
    days = [each.start for each in dates if each.day]
    for moment in (*_words(text, language, published), *_months(text, language, published)):
        is_weekday_of = any(
            moment.weekday is not None and _JOINT.fullmatch(text, moment.end, start)
            for start in days
            if start >= moment.end
        )
        if not is_weekday_of and not any(moment.start in each for each in taken):
            found.append(moment)
    return _joined(sorted(found, key=lambda each: each.start), text)


def has_vague_time(folded: str, *, is_day: bool) -> bool:
    """Whether a folded text says when in a way that `find_moments` does not read, such as "two days ago".

    `is_day` asks for what can be a certain day: "in autumn" is none.
    """
    return bool(_vague_day().search(folded)) or (
        not is_day and bool(word_pattern("vague_times").search(folded))
    )


@cache
def _vague_day() -> re.Pattern[str]:
    return re.compile(rf"(?<!\w)(?:{table('vague_days')['all']})(?!\w)")


def _bare(day: Date, start: int, end: int, **more: bool) -> Moment:
    plain = Date(day.year, day.month, day.day, day.quarter)
    return Moment(plain, plain, start, end, **more)


_JOINT: Final = re.compile(r",?\s(?:the |den |dem |le |el |il |dia )?")
"""Between a day of the week and its date."""
_BETWEEN: Final = re.compile(
    r"\s*(?:-|–|to|and|until|bis|und|au|et|al|y|e|a|ao)\s+(?:the |le |el |il |o |zum )?"
)


def _with_years(dates: Sequence[Date], folded: str) -> Iterator[Date]:
    """The dates; the first of two that are joined has the year of the second, as in "between 1 March and 30 June 2025"."""
    for number, each in enumerate(dates):
        following = dates[number + 1] if number + 1 < len(dates) else None
        if (
            each.year is None
            and following is not None
            and following.year is not None
            and _BETWEEN.fullmatch(folded[each.end : following.start])
        ):
            is_later = (each.month or 0, each.day or 0) > (following.month or 0, following.day or 0)
            each = each._replace(year=following.year - is_later)
        yield each


def _complete(day: Date, text: str, language: str | None, published: date | None) -> Moment:
    if day.year is not None:
        return _bare(day, day.start, day.end, is_open=day.is_ambiguous)
    if published is None:
        return _bare(day, day.start, day.end, is_open=True)
    tense = _tense(text, day.start, language)
    month = day.month or (day.quarter or 1) * 3
    years = [
        year
        for year in (published.year - 1, published.year, published.year + 1)
        if not day.day or day.day <= monthrange(year, month)[1]
    ]
    if not years:
        return _bare(day, day.start, day.end, is_open=True)
    # A month or quarter is compared by its own kind: this month is neither past nor coming.
    now = published if day.day else published.replace(day=1)
    at = {year: date(year, month, day.day or 1) for year in years}
    if tense < 0:
        # "Was closed until 20 August", on 19 August.
        chosen = max((year for year in years if at[year] <= now + _SOON), default=years[0])
    elif tense > 0:
        chosen = min((year for year in years if at[year] >= now), default=years[-1])
    else:
        chosen = min(years, key=lambda year: abs(at[year] - now))
    return _bare(day._replace(year=chosen), day.start, day.end, is_completed=True)


_SOON: Final = timedelta(days=30)
_NEAR_CHARS: Final = 240
"""Before and after a date, in which a verb tells its tense."""
_FAR: Final = 10_000


def _tense(text: str, place: int, language: str | None) -> int:
    """-1 if the words around a date say that it is past, 1 if it is still to come, 0 if they do not tell."""
    past, future, _ = _tense_patterns(language)
    is_ahead = _is_ahead(text, place, language)
    first = max(0, place - _NEAR_CHARS)
    lowered, place = text[first : place + _NEAR_CHARS].lower(), place - first
    best, sign = _FAR, 0
    for direction, pattern in ((1, future), (-1, past)):
        for match in pattern.finditer(lowered):
            # A verb after the date tells less than one before it.
            distance = (
                place - match.end() if match.end() <= place else 1_000 + match.start() - place
            )
            if distance < best:
                best, sign = distance, direction
    return sign + 1 if is_ahead and sign < 1 else sign


def _is_ahead(text: str, place: int, language: str | None) -> bool:
    """Whether a word such as "until" stands before the place."""
    return bool(_tense_patterns(language)[2].search(text[max(0, place - 24) : place].lower()))


@cache
def _tense_patterns(
    language: str | None,
) -> tuple[re.Pattern[str], re.Pattern[str], re.Pattern[str]]:
    """Words of the past, of the future, and those such as "until" before a date."""

    def words(name: str) -> str:
        known = language if language in LANGUAGES else "en"
        return rf"(?<![\w'’])(?:{table(name).get(known, '(?!)')})(?!\w)"

    return (
        re.compile(words("past")),
        re.compile(words("future")),
        re.compile(rf"{words('ahead_of')}\s+(?:the |le |el |il |den |dem |\w{{0,3}}\s)?$"),
    )


def _words(text: str, language: str | None, published: date | None) -> Iterator[Moment]:
    """Days such as "yesterday" and "Tuesday"."""
    known = language if language in LANGUAGES else "en"
    folded = fold_in_place(text)
    pattern, offsets, weekdays = _day_words(known)
    for match in pattern.finditer(folded):
        word, start, end = match["word"], *match.span("word")
        is_noun = known == "de" and word == "morgen" and text[start].isupper()
        if is_noun or ((match["before"] or "") in word_set("not_relative") and word in offsets):
            continue
        if word in offsets:
            day = published and published + timedelta(days=offsets[word])
            yield _day(day, start, end)
            continue
        weekday = weekdays[word]
        if published is None:
            yield replace(_day(None, start, end), weekday=weekday)
            continue
        back = (published.weekday() - weekday) % 7
        if _LAST_WEEK.match(folded, end):
            back = published.weekday() - weekday + 7
        tense = _tense(text, start, language)
        around = f"{match['before'] or ''} {folded[end : end + 12]}"
        if _COMING.search(around):
            tense = 1
        elif _is_ahead(text, start, language) and tense <= 0:
            # "Sank until Tuesday" is past, "was closed until Tuesday" may not be.
            yield replace(_day(None, start, end), weekday=weekday)
            continue
        forward = (weekday - published.weekday()) % 7
        if tense > 0:
            day = published + timedelta(days=forward or 7 * bool(_COMING.search(around)))
        else:
            day = published - timedelta(days=back)
        yield replace(_day(day, start, end), weekday=weekday)


_LAST_WEEK: Final = re.compile(
    r" (?:of )?(?:last week|letzte[rn]? woche|vergangene[rn]? woche|de la semaine derniere"
    r"|la semaine derniere|de la semana pasada|la semana pasada|della settimana scorsa|da semana passada)(?!\w)"
)
_COMING: Final = re.compile(
    r"(?<!\w)(?:next|coming|nachste\w*|kommende\w*|prochain\w*|proxim\w+|prossim\w+)(?!\w)"
)


def _day(day: date | None, start: int, end: int) -> Moment:
    if day is None:
        return _bare(Date(None), start, end, is_open=True)
    return _bare(Date(day.year, day.month, day.day), start, end, is_completed=True)


@cache
def _day_words(language: str) -> tuple[re.Pattern[str], dict[str, int], dict[str, int]]:
    offsets: dict[str, int] = dict(table("relative_days").get(language, {}))
    weekdays = dict(lexicon(language).weekdays)
    words = alternatives(frozenset((*offsets, *weekdays)))
    return (
        re.compile(rf"(?:(?<!\w)(?P<before>\w+)\s+)?(?<![\w'-])(?P<word>{words})(?!\w)"),
        offsets,
        weekdays,
    )


def _months(text: str, language: str | None, published: date | None) -> Iterator[Moment]:
    """Months without a day or year, such as "in July"."""
    words, folded = lexicon(language), fold_in_place(text)
    for match in _month_pattern(words.language).finditer(folded):
        word = match[0]
        if word in word_set("ambiguous_months") and not text[match.start()].isupper():
            continue
        if words.language == "en" and not text[match.start()].isupper():
            continue
        yield _complete(
            Date(None, words.months[word], None, None, *match.span()), text, language, published
        )


@cache
def _month_pattern(language: str) -> re.Pattern[str]:
    names = frozenset(
        word for word in lexicon(language).months if len(word) > 3 or word in ("may", "mai")
    )
    return re.compile(rf"(?<![\w.])(?:{alternatives(names)})(?![\w])")


_DAY_ONLY: Final = re.compile(
    r"(?<![\w.,])(?P<day>[12]?\d|3[01])(?:\.|st|nd|rd|th|er|º|°)?\s*(?:-|–|to|and|bis|und|au|et|al|y|e|a|ao)\s*"
    r"(?:zum |the |il |el |le |den |dem )?$"
)


def _joined(moments: list[Moment], text: str) -> list[Moment]:
    """The moments; two that are the ends of a range are one, and "3 to 14 August" has its first day too."""
    joined: list[Moment] = []
    folded = fold_in_place(text)
    for moment in moments:
        before = folded[max(0, moment.start - 16) : moment.start].replace("–", "-")
        previous = joined[-1] if joined else None
        last = moment.first
        if (
            previous is not None
            and previous.first.day
            and last.day
            and _BETWEEN.fullmatch(folded[previous.end : moment.start])
            and _FROM.search(folded[max(0, previous.start - 14) : previous.start])
        ):
            joined[-1] = replace(
                moment,
                first=previous.first,
                start=previous.start,
                is_completed=previous.is_completed or moment.is_completed,
            )
            continue
        match = _DAY_ONLY.search(before)
        if match and last.day and last.month and int(match["day"]) < last.day:
            moment = replace(
                moment,
                first=last._replace(day=int(match["day"])),
                start=moment.start - (len(before) - match.start()),
            )
        joined.append(moment)
    return joined


_FROM: Final = re.compile(
    r"(?<!\w)(?:from|between|vom|von|zwischen|du|entre|del|de|dal|tra|fra)\s+(?:the |el |le |il )?$"
)
