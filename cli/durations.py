"""Durations as people write them: `30s`, `5m`, `2h`, `1d`."""

import re
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
