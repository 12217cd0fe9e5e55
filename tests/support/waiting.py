"""Waiting for a state, with a deadline; never for a time."""

import asyncio
import time
from collections.abc import Awaitable, Callable
from typing import TypeVar

T = TypeVar("T")

LOOK_AGAIN_SECONDS = 0.02
DEADLINE_SECONDS = 30.0


async def until(
    look: Callable[[], Awaitable[T]], *, what: str, seconds: float = DEADLINE_SECONDS
) -> T:
    """What `look` returns once that is true-ish. Fails the test, saying what it waited for, at the deadline."""
    deadline = time.monotonic() + seconds
    while True:
        found = await look()
        if found:
            return found
        if time.monotonic() > deadline:
            raise AssertionError(f"waited {seconds:.0f} s in vain for {what}; last seen: {found!r}")
        await asyncio.sleep(LOOK_AGAIN_SECONDS)


def waited_for(look: Callable[[], T | None], what: str, seconds: float = 2 * DEADLINE_SECONDS) -> T:
    """The same for tests that wait for processes: what `look` finds, once it finds something."""
    deadline = time.monotonic() + seconds
    while (found := look()) is None:
        assert time.monotonic() < deadline, f"waited {seconds:.0f} s in vain for {what}"
        time.sleep(LOOK_AGAIN_SECONDS)
    return found
