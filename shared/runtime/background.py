"""Background loops: run at intervals, survive errors, and stop promptly.

Before Python 3.12 `asyncio.wait_for` may swallow a cancellation that arrives at the instant when its result does, and
the NATS client uses it.
"""

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any, Final

from shared.errors import TransientError
from shared.runtime.logging import logger

CANCEL_RETRY_SECONDS: Final = 1.0


def raise_if_cancelled() -> None:
    """Raises CancelledError if the current task was cancelled and something swallowed that."""
    task = asyncio.current_task()
    if task is not None and task.cancelling():
        raise asyncio.CancelledError


async def cancel_and_wait(task: asyncio.Task[Any]) -> None:
    """Cancels `task` until it has ended; for tasks without cleanup. Raises the error that ended it."""
    while not task.done():
        task.cancel()
        await asyncio.wait({task}, timeout=CANCEL_RETRY_SECONDS)
    if not task.cancelled():
        task.result()


log = logger(__name__)


async def log_and_continue(work: Callable[[], Awaitable[None]], retry_message: str) -> None:
    """Runs `work`, and logs an error instead of raising it, so that a background loop continues.

    Only for work that finds in the database, at its next run, what could not be done now. `retry_message` is the log message
    for a TransientError.
    """
    try:
        await work()
    except TransientError as error:
        log.warning(retry_message, error=str(error))
    except Exception:
        log.exception("unexpected error")
    raise_if_cancelled()
