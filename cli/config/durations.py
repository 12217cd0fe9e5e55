"""Parses dates and durations as users write them: `2026-01-31`, `7d`, `90s`."""

from contextlib import suppress
from datetime import UTC, date, datetime, timedelta

from cli.errors import BadInputError
from shared.durations import parse_duration


def parse_seconds(text: str) -> int:
    """The duration in seconds, which are also the default unit. Raises BadInputError, also above a hundred years."""
    try:
        return parse_duration(text, examples="30s, 5m, 2h or 1d")
    except ValueError as error:
        raise BadInputError(str(error)) from None


def parse_day(text: str, now: datetime | None = None) -> date:
    """A date in UTC, also given as how long ago it is. Raises BadInputError."""
    with suppress(ValueError):
        return date.fromisoformat(text.strip())
    try:
        ago = timedelta(seconds=parse_seconds(text))
        return ((now or datetime.now(UTC)) - ago).date()
    except (BadInputError, OverflowError):
        raise BadInputError(
            f"{text!r} is not a date: enter one such as 2026-01-31, or 7d for seven days ago"
        ) from None
