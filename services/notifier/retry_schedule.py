"""The backoff of failed deliveries. Pure."""

from typing import Final

BACKOFF_SECONDS: Final = (5, 30, 120, 600, 1800, 3600, 7200, 14_400, 28_800)
"""After the first failure, the second, …; the last value repeats."""


JITTER: Final = 0.25
"""Maximum fraction that is added, so that deliveries that failed together are not retried together."""


def delay_seconds(failures: int, *, min_delay_seconds: float | None, jitter: float) -> float:
    """Delay after `failures` failures in a row. `jitter` is 0 to 1; never shorter than the receiver asked for."""
    backoff_seconds = BACKOFF_SECONDS[min(failures, len(BACKOFF_SECONDS)) - 1]
    return max(backoff_seconds, min_delay_seconds or 0.0) * (1 + JITTER * jitter)
