"""Durations as people write and read them: `90 s`, `5 min`, `1 h 30 min`, `1 d`."""

import re
from typing import Final

_SECONDS: Final = {"s": 1, "min": 60, "h": 3_600, "d": 86_400}
_UNITS: Final = {
    **dict.fromkeys(("", "s", "sec", "secs", "second", "seconds"), "s"),
    **dict.fromkeys(("m", "min", "mins", "minute", "minutes"), "min"),
    **dict.fromkeys(("h", "hr", "hrs", "hour", "hours"), "h"),
    **dict.fromkeys(("d", "day", "days"), "d"),
}
_MAX_CHARS: Final = 100
_PART: Final = re.compile(r"([0-9]{1,12})\s*([a-z]*)\s*")
_SHOWN_CHARS: Final = 40
EXAMPLES: Final = "30 s, 5 min, 2 h or 1 d"
LEASE_SECONDS: Final = 10.0
"""Default duration of a step's lease: how long the step of a killed worker stays blocked."""
MAX_SECONDS: Final = 100 * 366 * _SECONDS["d"]


def parse_duration(text: str, *, examples: str = EXAMPLES) -> int:
    """The duration in seconds, which are also the unit of a number alone.

    Raises ValueError where the text is not a duration, or one above a hundred years. `examples` are for its message.
    """
    written = text.strip().lower()
    parts = list(_PART.finditer(written[:_MAX_CHARS]))
    is_whole = "".join(part[0] for part in parts) == written
    if not parts or not is_whole or any(part[2] not in _UNITS for part in parts):
        raise ValueError(f"{text[:_SHOWN_CHARS]!r} is not a duration: write {examples}")
    units = [_UNITS[part[2]] for part in parts]
    if len(parts) > 1 and (len(set(units)) < len(units) or any(not part[2] for part in parts)):
        raise ValueError(
            f"{text[:_SHOWN_CHARS]!r} is ambiguous: write each unit once, as in 1 h 30 min"
        )
    seconds = sum(int(part[1]) * _SECONDS[unit] for part, unit in zip(parts, units, strict=True))
    if seconds > MAX_SECONDS:
        raise ValueError(f"{text[:_SHOWN_CHARS]!r} is longer than a hundred years")
    return seconds


def format_duration(seconds: int) -> str:
    """Writes the duration exactly, as `parse_duration` reads it."""
    parts: list[str] = []
    for unit, size in sorted(_SECONDS.items(), key=lambda item: -item[1]):
        number, seconds = divmod(seconds, size)
        if number:
            parts.append(f"{number} {unit}")
    return " ".join(parts) or "0 s"
