"""Background tasks that run at intervals and stop promptly.

Before Python 3.12 `asyncio.wait_for` may swallow a cancellation that comes in the instant in which what it waits for is
there, and the clients of NATS wait by it.
"""

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any, Final

from shared.errors import TransientError
from shared.runtime.logging import logger

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


log = logger(__name__)


async def whatever_happens(work: Callable[[], Awaitable[None]], again: str) -> None:
    """Does `work`; its failure is logged and goes no further. A rhythm that stops helps nobody.

    For work alone that finds in the state, at its next beat, what could not be done now. `again` says so in the log.
    """
    try:
        await work()
    except TransientError as error:
        log.warning(again, error=str(error))
    except Exception:
        log.exception("unexpected error")
    heed_cancellation()
