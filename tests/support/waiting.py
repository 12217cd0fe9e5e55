"""Waiting for a condition with a deadline, never for a fixed time."""

import asyncio
import time
from collections.abc import Awaitable, Callable
from typing import TypeVar

T = TypeVar("T")

LOOK_AGAIN_SECONDS = 0.02
DEADLINE_SECONDS = 30.0


async def wait_until(
    look: Callable[[], Awaitable[T]], *, what: str, seconds: float = DEADLINE_SECONDS
) -> T:
    """Poll `look` until its result is truthy; return it. At the deadline fail with `what`."""
    deadline = time.monotonic() + seconds
    while True:
        result = await look()
        if result:
            return result
        if time.monotonic() > deadline:
            raise AssertionError(
                f"waited {seconds:.0f} s in vain for {what}; last seen: {result!r}"
            )
        await asyncio.sleep(LOOK_AGAIN_SECONDS)


def wait_for(look: Callable[[], T | None], what: str, seconds: float = 2 * DEADLINE_SECONDS) -> T:
    """The same without asyncio: poll `look` until its result is not None; return it."""
    deadline = time.monotonic() + seconds
    while (result := look()) is None:
        assert time.monotonic() < deadline, f"waited {seconds:.0f} s in vain for {what}"
        time.sleep(LOOK_AGAIN_SECONDS)
    return result
