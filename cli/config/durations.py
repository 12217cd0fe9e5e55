"""Dates and durations as people write them: `2026-01-31`, `7d`, `90s`."""

import re
from contextlib import suppress
from datetime import UTC, date, datetime, timedelta
from typing import Final

from cli.errors import BadInputError

_SECONDS: Final = {"s": 1, "m": 60, "h": 3_600, "d": 86_400}
_WRITTEN: Final = re.compile(r"([0-9]{1,12})\s*([smhd]?)")
LONGEST_SECONDS: Final = 100 * 366 * _SECONDS["d"]


def seconds_of(written: str) -> int:
    """A number without a unit is seconds. Raises BadInputError, also for more than a hundred years."""
    match = _WRITTEN.fullmatch(written.strip().lower())
    if match is None:
        raise BadInputError(f"{written[:40]!r} is no duration: write 30s, 5m, 2h or 1d")
    seconds = int(match[1]) * _SECONDS[match[2] or "s"]
    if seconds > LONGEST_SECONDS:
        raise BadInputError(f"{written!r} is longer than a hundred years")
    return seconds


def day_of(written: str, now: datetime | None = None) -> date:
    """In UTC, in which days are counted. Raises BadInputError."""
    with suppress(ValueError):
        return date.fromisoformat(written.strip())
    try:
        ago = timedelta(seconds=seconds_of(written))
        return ((now or datetime.now(UTC)) - ago).date()
    except (BadInputError, OverflowError):
        raise BadInputError(f"{written!r} is no day: write 2026-01-31, or 7d") from None
