"""How long a process that died waits before it is started again."""

from typing import Final

FIRST_SECONDS: Final = 0.2
LONGEST_SECONDS: Final = 10.0
HEALTHY_SECONDS: Final = 60.0
"""Whoever has lived that long starts anew with the shortest delay."""


class RestartDelay:
    """Doubles with each death, 0.2 s to 10 s: what cannot live must not eat the machine."""

    def __init__(self) -> None:
        self._next = FIRST_SECONDS

    def after(self, uptime_seconds: float) -> float:
        """The seconds to wait after a life of that length."""
        if uptime_seconds >= HEALTHY_SECONDS:
            self._next = FIRST_SECONDS
        delay = self._next
        self._next = min(delay * 2, LONGEST_SECONDS)
        return delay
