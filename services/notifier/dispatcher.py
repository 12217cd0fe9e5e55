"""The notifier's loop: claims due deliveries and runs up to `concurrency` at a time."""

import asyncio
import time
from collections import Counter
from collections.abc import Sequence
from functools import partial
from typing import Final

from services.notifier.delivery import Deliver
from shared.database.engine import Database
from shared.events.envelope import Event
from shared.failpoints import Failpoint, failpoint
from shared.notifications import deliveries
from shared.notifications.deliveries import DeliveryLease
from shared.runtime.background import log_and_continue
from shared.runtime.logging import logger

POLL_SECONDS: Final = 2.0
CONCURRENCY: Final = 64
"""Maximum number of concurrent deliveries."""
SLOTS_PER_DESTINATION: Final = 2
"""Maximum per destination, so that a slow receiver delays only its own deliveries."""
ITEMS_PER_BATCH: Final = 200
RETRY_MESSAGE: Final = "will retry in the next round"

log = logger(__name__)


class DeliveryLoop:
    def __init__(
        self,
        database: Database,
        deliver: Deliver,
        *,
        worker: str,
        concurrency: int,
        drain_seconds: float,
    ) -> None:
        self._database = database
        self._deliver = deliver
        self._worker = worker
        self._concurrency = concurrency
        self._drain_seconds = drain_seconds
        self._wake_event = asyncio.Event()
        self._running: dict[asyncio.Task[None], DeliveryLease] = {}

    async def wake(self, _: Event) -> Sequence[Event]:
        """Starts the next round at once."""
        self._wake_event.set()
        return []

    async def run_forever(self) -> None:
        """Runs until cancelled; then waits for running deliveries for a while, and hands the rest over."""
        try:
            while True:
                self._wake_event.clear()
                await log_and_continue(self._look, RETRY_MESSAGE)
                await self._wait()
        finally:
            await asyncio.shield(self._drain())

    async def _look(self) -> None:
        if await self._database.run(deliveries.needs_work()):
            await log_and_continue(self._dispatch, RETRY_MESSAGE)
            await log_and_continue(self._claim, RETRY_MESSAGE)

    async def _wait(self) -> None:
        try:
            async with asyncio.timeout(POLL_SECONDS):
                await self._wake_event.wait()
        except TimeoutError:
            return

    async def _dispatch(self) -> None:
        items = ITEMS_PER_BATCH
        while items == ITEMS_PER_BATCH:
            async with self._database.transaction() as transaction:
                await deliveries.reset_retried(transaction)
                items = await deliveries.dispatch(transaction, ITEMS_PER_BATCH)
                if items:
                    failpoint(Failpoint.STATE_WRITTEN)
            if items:
                log.info("dispatched", items=items)
                failpoint(Failpoint.STATE_COMMITTED)

    async def _claim(self) -> None:
        """Claims until the slots are full or nothing is due: the backlog of one destination must not hide others."""
        while (free := self._concurrency - len(self._running)) > 0:
            claimed_at = time.monotonic()
            async with self._database.transaction() as transaction:
                leases = await deliveries.claim(
                    transaction,
                    self._worker,
                    seconds=self._deliver.lease_seconds,
                    limit=free,
                    per_destination=SLOTS_PER_DESTINATION,
                    running_by_destination=Counter(
                        lease.destination_id for lease in self._running.values()
                    ),
                )
            if not leases:
                return
            failpoint(Failpoint.LEASE_TAKEN)
            for lease in leases:
                self._start(lease, claimed_at)

    def _start(self, lease: DeliveryLease, claimed_at: float) -> None:
        task = asyncio.create_task(
            log_and_continue(partial(self._deliver_one, lease, claimed_at), RETRY_MESSAGE)
        )
        self._running[task] = lease
        task.add_done_callback(self._finished)

    async def _deliver_one(self, lease: DeliveryLease, claimed_at: float) -> None:
        try:
            await self._deliver(lease, claimed_at)
        except asyncio.CancelledError:
            await asyncio.shield(log_and_continue(partial(self._release, lease), RETRY_MESSAGE))
            raise

    async def _release(self, lease: DeliveryLease) -> None:
        async with self._database.transaction() as transaction:
            if not await deliveries.release(transaction, lease):
                log.info(
                    "the delivery was recorded before the notifier stopped",
                    delivery=str(lease.delivery_id),
                )

    def _finished(self, task: asyncio.Task[None]) -> None:
        """Its slot is free: another delivery may wait for it."""
        del self._running[task]
        self._wake_event.set()

    async def _drain(self) -> None:
        """Waits before cancelling: an interrupted attempt may have arrived, and would be repeated."""
        failpoint(Failpoint.DRAINING)
        if self._running:
            await asyncio.wait(set(self._running), timeout=self._drain_seconds)
        unfinished = set(self._running)
        for task in unfinished:
            task.cancel()
        if unfinished:
            log.info("released unfinished work", deliveries=len(unfinished))
            await asyncio.wait(unfinished)
