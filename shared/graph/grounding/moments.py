"""Dates of a sentence as days: those that it leaves out in part are completed from the date of its page. Pure."""

import re
from calendar import monthrange
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from datetime import date, timedelta
from functools import cache
from typing import Final

from shared.graph.grounding.dates import Date, find_dates, parse_date
from shared.graph.grounding.words import (
    LANGUAGES,
    alternatives,
    bound_blanks,
    fold_in_place,
    lexicon,
    table,
    word_pattern,
    word_set,
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


def iso(day: Date) -> str:
    """The date as ISO 8601 writes it: a year, month or day; quarters as "2026-Q2"."""
    if day.quarter:
        return f"{day.year}-Q{day.quarter}"
    return "-".join(f"{part:02}" for part in (day.year, day.month, day.day) if part)


def find_moments(text: str, language: str | None, published: date | None) -> list[Moment]:
    """The dates that `text` names, in their order. `published` is the day of its page."""
    text = bound_blanks(text)
    if parsed := parse_date(text):
        return [_bare(parsed, 0, len(text))]
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
            is_before = (each.month or 0, each.day or 0) <= (
                following.month or 0,
                following.day or 0,
            )
            each = each._replace(year=following.year if is_before else following.year - 1)
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
    nearest = min(years, key=lambda year: abs(at[year] - now))
    if tense < 0 and now < at[nearest] <= now + _SOON:
        chosen = nearest  # "was closed until 20 August", on 19 August
    elif tense < 0:
        chosen = max((year for year in years if at[year] <= now), default=years[0])
    elif tense > 0:
        chosen = min((year for year in years if at[year] >= now), default=years[-1])
    else:
        chosen = nearest
    return _bare(day._replace(year=chosen), day.start, day.end, is_completed=True)


_SOON: Final = timedelta(days=30)
_NEAR_CHARS: Final = 240
"""Before and after a date, in which a verb tells its tense."""
_FAR: Final = 10_000


def _tense(text: str, place: int, language: str | None) -> int:
    """-1 if the words around a date say that it is past, 1 if it is still to come, 0 if they do not tell."""
    patterns = _tense_patterns(language if language in LANGUAGES else "en")
    first = max(0, place - _NEAR_CHARS)
    lowered, place = text[first : place + _NEAR_CHARS].lower(), place - first
    ahead = patterns[2].search(lowered[max(0, place - 24) : place])
    best, sign = _FAR, 0
    for direction, pattern in ((1, patterns[1]), (-1, patterns[0])):
        for match in pattern.finditer(lowered):
            if match.start() < place <= match.end():
                continue
            # A verb after the date tells less than one before it.
            distance = (
                place - match.end() if match.end() <= place else 1_000 + match.start() - place
            )
            if distance < best:
                best, sign = distance, direction
    if ahead:
        return 0 if sign < 0 else 1
    return sign


def _is_ahead(text: str, place: int, language: str | None) -> bool:
    """Whether a word such as "until" stands before the place."""
    pattern = _tense_patterns(language if language in LANGUAGES else "en")[2]
    return bool(pattern.search(text[max(0, place - 24) : place].lower()))


@cache
def _tense_patterns(language: str) -> tuple[re.Pattern[str], re.Pattern[str], re.Pattern[str]]:
    def words(name: str) -> str:
        return rf"(?<![\w'’])(?:{table(name).get(language, '(?!)')})(?!\w)"

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
            and _is_range_word(folded, previous.start, moment.start)
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


def _is_range_word(folded: str, start: int, end: int) -> bool:
    """Whether "from" or "between" stands before two dates, or a dash between them."""
    return bool(_FROM.search(folded[max(0, start - 14) : start])) or "-" in folded[start:end]
