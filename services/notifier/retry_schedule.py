"""When a failed delivery is tried again. Pure."""

from typing import Final

RESTS_SECONDS: Final = (5, 30, 120, 600, 1800, 3600, 7200, 14_400, 28_800)
"""After the first failure, the second, …; after the last of these it stays as long."""


JITTER: Final = 0.25
"""So much of the rest is added at most, so that what failed together does not come back together."""


def rest_seconds(failures: int, *, asked_seconds: float | None, luck: float) -> float:
    """After so many failures in a row, this one counted. `luck` is 0 to 1; never earlier than the receiver asked for."""
    usual = RESTS_SECONDS[min(failures, len(RESTS_SECONDS)) - 1]
    return max(usual, asked_seconds or 0.0) * (1 + JITTER * luck)
