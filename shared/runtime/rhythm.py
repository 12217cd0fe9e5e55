"""A piece of work that is done again and again, and must go on whatever befalls it."""

from collections.abc import Awaitable, Callable

from shared.errors import TransientError
from shared.runtime.ending import heed_cancellation
from shared.runtime.logs import logger

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
