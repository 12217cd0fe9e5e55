"""Parses the HTTP header Retry-After (RFC 9110, section 10.2.3) of untrusted servers."""

import math
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime


def retry_after_seconds(
    header: str | None, *, at_most: float, now: datetime | None = None, date: str | None = None
) -> float | None:
    """Returns the wait that a server asks for, limited to 0 to `at_most` seconds.

    `header` is a number of seconds, or a date, which is counted from `now`: by default the server's time in its header
    `date`, because the clock of this machine may be wrong. Returns None if `header` is absent or invalid.
    """
    if header is None:
        return None
    seconds = _number(header)
    if seconds is None:
        seconds = _seconds_until(header, now or _parse_date(date or "") or datetime.now(UTC))
    if seconds is None or math.isnan(seconds):
        return None
    return min(max(seconds, 0.0), at_most)


def _number(header: str) -> float | None:
    try:
        return float(header)
    except ValueError:
        return None


def _seconds_until(header: str, now: datetime) -> float | None:
    moment = _parse_date(header)
    return None if moment is None else (moment - now).total_seconds()


def _parse_date(header: str) -> datetime | None:
    try:
        moment = parsedate_to_datetime(header)
        if moment.tzinfo is None:
            moment = moment.replace(tzinfo=UTC)
        return moment
    except (
        ValueError,
        TypeError,
        IndexError,
        OverflowError,
    ):  # OverflowError: a time zone or a year out of range
        return None
