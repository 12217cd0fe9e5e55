"""Whether cited sentences name the time in which evidence is said to hold. Pure."""

import re
from calendar import monthrange
from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from functools import lru_cache
from typing import Final

from shared.graph.grounding.dates import Date, find_dates
from shared.graph.grounding.passages import MATCHED, Cited, Outcome, instead, left_out
from shared.graph.grounding.values import Quoted

_FIRST_MOMENT: Final = datetime.min.replace(tzinfo=UTC)


def check_period(quote: Quoted, quotes: Sequence[Quoted]) -> Outcome:
    """Whether the years from which and until which a quote is said to hold are in one of `quotes`, or those of its page.

    Only of the years: "spring" and "the third quarter" say months and days in too many ways.
    """
    said = {year for each in quotes for year in _years_in(each.cited)}
    ends = (("validFrom", quote.valid_from), ("validTo", last_moment(quote.valid_to)))
    for name, moment in ends:
        if moment is not None and moment.year not in said:
            return left_out(
                f"{name}: the cited sentences do not have {moment.year}{instead(sorted(said))}"
            )
    return MATCHED


def states_start(moment: datetime, quotes: Sequence[Quoted]) -> bool:
    """Whether one of the quotes, or what surrounds it, names the day of `moment`, or a period that it begins or ends."""
    year, month, day = moment.year, moment.month, moment.day
    is_first, is_last = day == 1, day == monthrange(year, month)[1]
    periods = [Date(year, month, day)]
    if is_first or is_last:
        periods.append(Date(year, month))
    if (is_first and month % 3 == 1) or (is_last and month % 3 == 0):
        periods.append(Date(year, quarter=(month + 2) // 3))
    if (month, day) in ((1, 1), (12, 31)):
        periods.append(Date(year))
    return any(
        period.follows_from(date)
        for quote in quotes
        for date in _dates(quote.cited)
        for period in periods
    )


_YEAR: Final = re.compile(r"(?<!\d)[12]\d{3}(?!\d)")
_SHORT_RANGE: Final = re.compile(r"(?<!\d)([12]\d)(\d\d)\s?[-–—/]\s?(\d\d)(?!\d)")
"""Such as "2015–17"."""
_DECADE: Final = re.compile(r"(?<!\d)([12]\d\d0)(?:['’]?s|er)\b")
_YEARS_IN_DECADE: Final = 10


def _years_in(cited: Cited) -> set[int]:
    """The years that a sentence or what surrounds it has, and those that its page means without saying so."""
    page = cited.page
    written = page.published.year if page.published else page.read_in
    # "This year", "last year" and "now".
    of_page = {written - 1, written, page.read_in or written} if written else set[int]()
    return of_page | {date.year for date in _dates(cited) if date.year}


@lru_cache(maxsize=256)
def _dates(cited: Cited) -> Sequence[Date]:
    """The dates and years that a sentence or what surrounds it has; dates without a year are of the page's year."""
    year = cited.page.published.year if cited.page.published else None
    dates: list[Date] = []
    for written in (cited.sentence, cited.page.title, cited.heading):
        # Digits of other scripts too.
        text = re.sub(r"\d", lambda digit: str(int(digit[0])), written)
        found = find_dates(text, cited.page.language)
        dates += [date._replace(year=date.year or year) for date in found]
        years = [*map(int, _YEAR.findall(text))]
        for decade in map(int, _DECADE.findall(text)):
            years += range(decade, decade + _YEARS_IN_DECADE)
        for century, first, last in _SHORT_RANGE.findall(text):
            years += [int(century + last)] if last > first else []
        dates += map(Date, years)
    return dates


def last_moment(valid_to: datetime | None) -> datetime | None:
    """The last moment of validity. The first one of the calendar, which some models write for "none", has none before it."""
    if valid_to is None or valid_to == _FIRST_MOMENT:
        return valid_to
    return valid_to - timedelta(microseconds=1)
