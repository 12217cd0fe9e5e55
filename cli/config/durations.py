"""Parses dates and durations as users write them: `2026-01-31`, `7d`, `90s`."""

import re
from contextlib import suppress
from datetime import UTC, date, datetime, timedelta
from typing import Final

from cli.errors import BadInputError

_SECONDS: Final = {"s": 1, "m": 60, "h": 3_600, "d": 86_400}
_PATTERN: Final = re.compile(r"([0-9]{1,12})\s*([smhd]?)")
MAX_SECONDS: Final = 100 * 366 * _SECONDS["d"]


def parse_seconds(text: str) -> int:
    """The duration in seconds, which are also the default unit. Raises BadInputError, also above a hundred years."""
    match = _PATTERN.fullmatch(text.strip().lower())
    if match is None:
        raise BadInputError(f"{text[:40]!r} is not a duration: write 30s, 5m, 2h or 1d")
    seconds = int(match[1]) * _SECONDS[match[2] or "s"]
    if seconds > MAX_SECONDS:
        raise BadInputError(f"{text!r} is longer than a hundred years")
    return seconds


def parse_day(text: str, now: datetime | None = None) -> date:
    """A date in UTC, also given as how long ago it is. Raises BadInputError."""
    with suppress(ValueError):
        return date.fromisoformat(text.strip())
    try:
        ago = timedelta(seconds=parse_seconds(text))
        return ((now or datetime.now(UTC)) - ago).date()
    except (BadInputError, OverflowError):
        raise BadInputError(f"{text!r} is not a day: write 2026-01-31, or 7d") from None
