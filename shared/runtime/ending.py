"""Tasks that end when they are told to, whatever they were just waiting for.

Before Python 3.12 `asyncio.wait_for` may swallow a cancellation that comes in the instant in which what it waits for is
there, and the clients of NATS wait by it.
"""

import asyncio
from typing import Any, Final

AGAIN_SECONDS: Final = 1.0


def heed_cancellation() -> None:
    """Raises CancelledError where the present task was cancelled, and something swallowed that."""
    task = asyncio.current_task()
    if task is not None and task.cancelling():
        raise asyncio.CancelledError


async def end(task: asyncio.Task[Any]) -> None:
    """Cancels `task` until it has ended; for one that has nothing to do at its end. Raises what broke it."""
    while not task.done():
        task.cancel()
        await asyncio.wait({task}, timeout=AGAIN_SECONDS)
    if not task.cancelled():
        task.result()
