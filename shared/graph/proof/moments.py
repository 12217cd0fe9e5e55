"""Dates as pages, searches and models write them, as moments in UTC."""

import re
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from email.utils import parsedate_to_datetime
from typing import Final

from shared.events.envelope import in_utc

_WRITTEN_OUT: Final = ("%Y/%m/%d", "%B %d, %Y", "%b %d, %Y", "%d %B %Y", "%d %b %Y", "%B %Y")
_PART_OF_A_DATE: Final = re.compile(r"(?P<year>\d{4})(?:-(?P<month>\d{2})(?:-(?P<day>\d{2}))?)?")
_MONTHS: Final = 12


def published(text: str | None) -> datetime | None:
    """When a page says it was published: ISO 8601, RFC 2822 or a date written out; None where it is none of them.

    A day is its beginning, and what names no zone is UTC.
    """
    told = (text or "").strip()
    for read in (_iso, parsedate_to_datetime, *(_form(each) for each in _WRITTEN_OUT)):
        try:
            return _utc(read(told))
        except (ValueError, OverflowError):
            continue
    return None


def beginning(text: str) -> datetime:
    """The moment when the year, month, day or time begins that `text` names. Raises ValueError where it names none."""
    return _utc(_iso(text.strip()))


def end(text: str) -> datetime:
    """The first moment after the year, month or day that `text` names; a time is itself. Raises ValueError."""
    told = text.strip()
    named = _PART_OF_A_DATE.fullmatch(told)
    if named is None:
        return _utc(_iso(told))
    first = _utc(_iso(told))
    if named["day"]:
        try:
            return first + timedelta(days=1)
        except OverflowError as error:
            raise ValueError(f"{told} is the last day that there is") from error
    year, month = int(named["year"]), int(named["month"] or _MONTHS)
    return datetime(year + month // _MONTHS, month % _MONTHS + 1, 1, tzinfo=UTC)


def _iso(text: str) -> datetime:
    named = _PART_OF_A_DATE.fullmatch(text)
    if named is None:
        return datetime.fromisoformat(text)
    return datetime(
        int(named["year"]), int(named["month"] or 1), int(named["day"] or 1), tzinfo=UTC
    )


def _form(form: str) -> Callable[[str], datetime]:
    return lambda text: datetime.strptime(text, form).replace(tzinfo=UTC)


def _utc(moment: datetime) -> datetime:
    return in_utc(moment if moment.tzinfo else moment.replace(tzinfo=UTC))
