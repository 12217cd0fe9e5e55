"""Dates in a text. Pure."""

import re
from collections.abc import Iterator
from functools import cache
from typing import Final, NamedTuple

from shared.graph.grounding.words import Lexicon, alternatives, bound_blanks, fold_in_place, lexicon

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
        _all(bound_blanks(text), lexicon(language)), key=lambda date: (date.start, -date.end)
    )
    dates: list[Date] = []
    for date in found:
        if not dates or date.start >= dates[-1].end:
            dates.append(date)
    return dates


def parse_date(text: str) -> Date | None:
    """The date that an ISO 8601 text is: a day, month or quarter; also its day if it has a time. None if it is none."""
    match = _ISO.fullmatch(text.strip())
    return _from_iso(match) if match else None


def _all(text: str, words: Lexicon) -> Iterator[Date]:
    if not _DIGIT.search(text) and (
        text.isascii() or not any(character.isdigit() for character in text)
    ):
        return
    has_year = _ANY_YEAR.search(text) is not None
    if has_year:
        for match in _ISO.finditer(text):
            yield _from_iso(match)
    for match in _NUMERIC.finditer(text):
        yield from _from_numbers(match, words)
    folded = fold_in_place(text)
    written = _written_pattern(words.language)
    for match in written.finditer(folded):
        groups = match.groupdict()
        month = words.months[groups["month"] or groups["month_first"]]
        day = groups["day"] or groups["day_after"]
        year = groups["year"] or groups["year_after"]
        if day or year:
            yield Date(
                int(year) if year else None,
                month,
                int(day) if day else None,
                None,
                *match.span(),
                is_ambiguous=_is_range_of_days(folded, match),
            )
    for match in _FISCAL_YEAR.finditer(text):
        year = int(match["year"])
        quarter = match["quarter"] or match["before"]
        yield Date(
            year if year > 99 else 2000 + year,
            quarter=int(quarter) if quarter else None,
            start=match.start(),
            end=match.end(),
        )
    for match in _QUARTER_CODE.finditer(text) if has_year else ():
        yield Date(
            int(match["year"]),
            quarter=int(match["quarter"] or match["before"]),
            start=match.start(),
            end=match.end(),
        )
    has_quarter = any(word in folded for word in _QUARTER_WORDS)
    for match in _quarter_pattern(words.language).finditer(folded) if has_quarter else ():
        word = match["word"]
        quarter = next(
            (words.quarters[key] for key in words.quarters if word.startswith(key)), None
        )
        if quarter is None and word[0] in "1234":
            quarter = int(word[0])
        if quarter is not None:
            yield Date(
                int(match["year"]) if match["year"] else None,
                quarter=quarter,
                start=match.start(),
                end=match.end(),
            )
    if not has_year:
        return
    for match in _YEAR_RANGE.finditer(text):
        last = match["last"]
        first = int(match["year"])
        yield Date(first, start=match.start(), end=match.start() + 4)
        if len(last) == 4:
            yield Date(int(last), start=match.end() - 4, end=match.end())
        elif int(last) == (first + 1) % 100:
            yield Date(first + 1, start=match.end() - 2, end=match.end())
    for match in _YEAR_ALONE.finditer(text):
        yield Date(int(match["year"]), start=match.start(), end=match.end())


def _from_iso(match: re.Match[str]) -> Date:
    month, day, quarter = match["month"], match["day"], match["quarter"]
    return Date(
        int(match["year"]),
        int(month) if month else None,
        int(day) if day else None,
        int(quarter) if quarter else None,
        *match.span(),
    )


def _from_numbers(match: re.Match[str], words: Lexicon) -> Iterator[Date]:
    first, second = int(match["first"]), int(match["second"])
    year = int(match["year"])
    if len(match["year"]) == 2:
        year += 2000 if year < 70 else 1900
    # 5/3/2024 is in May in the United States, and in March elsewhere; only one that can be read in one way is a date.
    if words.language == "en" and match["sign"] == "/":
        if first > 12 >= second:
            yield Date(year, second, first, None, *match.span())
        elif first <= 12 and (second > 12 or first == second):
            yield Date(year, first, second, None, *match.span())
        else:
            yield Date(year, None, None, None, *match.span(), is_ambiguous=True)
    elif 1 <= second <= 12 and 1 <= first <= 31:
        yield Date(year, second, first, None, *match.span())


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
