"""Days as people write them: `2026-01-31`, or how long ago they are: `7d`."""

from contextlib import suppress
from datetime import UTC, date, datetime, timedelta

from cli.durations import seconds_of
from cli.errors import BadInputError


def day_of(written: str, now: datetime | None = None) -> date:
    """In UTC, in which days are counted. Raises BadInputError."""
    with suppress(ValueError):
        return date.fromisoformat(written.strip())
    try:
        ago = timedelta(seconds=seconds_of(written))
        return ((now or datetime.now(UTC)) - ago).date()
    except (BadInputError, OverflowError):
        raise BadInputError(f"{written!r} is no day: write 2026-01-31, or 7d") from None
