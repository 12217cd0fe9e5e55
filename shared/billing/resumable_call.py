"""A call in flight: where the other side has a name for it, whoever resumes the step waits for that and sends nothing."""

import asyncio
from collections.abc import Awaitable, Callable
from contextlib import AbstractAsyncContextManager, suppress
from dataclasses import dataclass
from typing import TypeVar

from shared.errors import TransientError
from shared.failpoints import CrashPoint, reach

T = TypeVar("T")

FIRST_LOOK_SECONDS = 0.5
LONGEST_LOOK_SECONDS = 5.0
"""The wait before the first look, doubled before each further one up to this."""
MAX_FAILED_LOOKS = 10
"""In a row, at what is under way: it is paid for, so a failed look is no reason to order it again."""
STAY_SECONDS = 3.0
"""How long one who is told to stop stays to learn the reference of what it has just ordered."""


class CallLostError(TransientError):
    """The other side knows no call of that reference any more, or gave it up: it must be sent again."""


@dataclass(frozen=True)
class InFlight:
    """What a call needs to know of its record in the ledger to be sent, or found again, after a crash."""

    key: str
    """The same for every sending of the call, for servers that charge a key once."""
    reference: str | None
    """What the other side called it when it was sent before."""
    keep: Callable[[str], Awaitable[None]]
    """Commits such a reference; raises LeaseLostError."""
    sending: Callable[[], AbstractAsyncContextManager[None]]
    """Surrounds every sending that may be billed, each time: reserves what it can cost, or refuses it.

    Raises BudgetUsedUpError. An error that leaves it and is not `unbilled` may have cost what the call can cost.
    """
    progressed: Callable[[int], Awaitable[None]] | None = None
    """Is told how many characters of a streamed answer have come, every few seconds while it grows."""

    async def found_or_ordered(
        self, order: Callable[[str], Awaitable[str]], collect: Callable[[str], Awaitable[T]]
    ) -> T:
        """The result of a call that is ordered under a key, gets a reference, and is collected by it.

        What is lost between the order's arrival and the commit of its reference is ordered twice, unless the other side
        heeds the key. `collect` raises CallLostError where there is nothing to collect.
        """
        key = self.key
        if self.reference is not None:
            try:
                return await collect(self.reference)
            except CallLostError:
                # Under the old key a server that heeds it would only name the lost one again.
                key = f"{self.key}-after-{self.reference}"
        return await collect(await self._ordered(order, key))

    async def _ordered(self, order: Callable[[str], Awaitable[str]], key: str) -> str:
        async def order_and_keep() -> str:
            reference = await order(key)
            reach(CrashPoint.CALL_ACCEPTED)
            await self.keep(reference)
            reach(CrashPoint.CALL_REFERRED)
            return reference

        ordering = asyncio.ensure_future(order_and_keep())
        try:
            return await asyncio.shield(ordering)
        except asyncio.CancelledError:
            with suppress(TimeoutError):
                async with asyncio.timeout(STAY_SECONDS):
                    await asyncio.gather(ordering, return_exceptions=True)
            raise


async def looked_for(look: Callable[[], Awaitable[T | None]]) -> T:
    """What `look` finds, asked ever more rarely until it is not None. Whoever waits sets the end, by cancelling.

    Raises what `look` does, but a TransientError only after too many in a row.
    """
    wait_seconds, failed_looks = FIRST_LOOK_SECONDS, 0
    while True:
        await asyncio.sleep(wait_seconds)
        wait_seconds = min(wait_seconds * 2, LONGEST_LOOK_SECONDS)
        try:
            found = await look()
        except CallLostError:
            raise
        except TransientError as error:
            failed_looks += 1
            if failed_looks > MAX_FAILED_LOOKS:
                raise
            wait_seconds = max(wait_seconds, error.retry_in_seconds or 0.0)
            continue
        if found is not None:
            return found
        failed_looks = 0
