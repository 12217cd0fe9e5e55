"""Resumable calls: if the provider has a reference for a sent call, a resumed step polls it instead of sending again."""

import asyncio
from collections.abc import Awaitable, Callable
from contextlib import AbstractAsyncContextManager, AbstractContextManager, nullcontext, suppress
from dataclasses import dataclass
from typing import TypeVar

from shared.errors import TransientError
from shared.failpoints import Failpoint, failpoint

T = TypeVar("T")

FIRST_POLL_SECONDS = 0.5
MAX_POLL_SECONDS = 5.0
"""The wait before the first poll. It doubles before each further poll up to this limit."""
MAX_FAILED_POLLS = 10
"""Consecutive failed polls. The call is paid for, so a single failed poll is no reason to send it again."""
CANCELLED_WAIT_SECONDS = 3.0
"""How long a cancelled worker waits for the reference of a call that it has just sent."""


class CallLostError(TransientError):
    """The provider no longer has a call with this reference, or gave it up. The call must be sent again."""


@dataclass(frozen=True)
class ResumableCall:
    """The ledger record of a call, as far as it is needed to send the call or to resume it after a crash."""

    key: str
    """Idempotency key, for servers that charge a key once. It is the same for all attempts until one has an answer."""
    reference: str | None
    """The provider's reference from an earlier attempt, if any."""
    store_reference: Callable[[str], Awaitable[None]]
    """Stores the provider's reference and commits it. Raises LeaseLostError."""
    attempt: Callable[[], AbstractAsyncContextManager[None]]
    """Context of each attempt that may be billed. It reserves the maximum cost, or raises BudgetUsedUpError.

    An error that is not `is_unbilled` may have cost up to the maximum.
    """
    report_progress: Callable[[int], Awaitable[None]] | None = None
    """Called every few seconds with the number of characters of a streamed answer received so far."""
    waited_seconds: float = 0.0
    """How long the step that makes the call has waited for a provider."""
    waiting: Callable[[], AbstractContextManager[None]] = nullcontext
    """Context in which an attempt waits for its turn. The time limit of the phase stands still there, and an attempt that
    ends there costs nothing.
    """

    async def resume_or_start(
        self, order: Callable[[str], Awaitable[str]], collect: Callable[[str], Awaitable[T]]
    ) -> T:
        """Starts the call with `order(key)`, or resumes it by its stored reference, and returns `collect(reference)`.

        If a crash happens between the start of the call and the commit of its reference, the call is started twice, unless
        the provider supports idempotency keys. `collect` raises CallLostError if it cannot find the result.
        """
        key = self.key
        if self.reference is not None:
            try:
                return await collect(self.reference)
            except CallLostError:
                # A server that supports the old key would only return the lost reference again.
                key = f"{self.key}-after-{self.reference}"
        return await collect(await self._start(order, key))

    async def _start(self, order: Callable[[str], Awaitable[str]], key: str) -> str:
        async def start_and_record() -> str:
            reference = await order(key)
            failpoint(Failpoint.CALL_ACCEPTED)
            await self.store_reference(reference)
            failpoint(Failpoint.CALL_REFERRED)
            return reference

        start_task = asyncio.ensure_future(start_and_record())
        try:
            return await asyncio.shield(start_task)
        except asyncio.CancelledError:
            with suppress(TimeoutError):
                async with asyncio.timeout(CANCELLED_WAIT_SECONDS):
                    await asyncio.gather(start_task, return_exceptions=True)
            raise


async def poll_until_done(fetch: Callable[[], Awaitable[T | None]]) -> T:
    """Calls `fetch` with increasing intervals until it returns a result. Has no time limit: the caller cancels it.

    Raises what `fetch` raises, but a TransientError only after MAX_FAILED_POLLS consecutive ones.
    """
    wait_seconds, failed_polls = FIRST_POLL_SECONDS, 0
    while True:
        await asyncio.sleep(wait_seconds)
        wait_seconds = min(wait_seconds * 2, MAX_POLL_SECONDS)
        try:
            result = await fetch()
        except CallLostError:
            raise
        except TransientError as error:
            failed_polls += 1
            if failed_polls > MAX_FAILED_POLLS:
                raise
            wait_seconds = max(wait_seconds, error.retry_in_seconds or 0.0)
            continue
        if result is not None:
            return result
        failed_polls = 0
