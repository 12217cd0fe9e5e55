"""The notifier's rhythm: looks for what is to be delivered, and has as much under way as there are slots."""

import asyncio
import time
from collections import Counter
from collections.abc import Sequence
from functools import partial
from typing import Final
from uuid import UUID

from services.notifier.delivery import Deliver
from shared.database.engine import Database
from shared.events.envelope import Event
from shared.failpoints import CrashPoint, reach
from shared.notifications import deliveries
from shared.notifications.deliveries import DeliveryLease
from shared.runtime.background import whatever_happens
from shared.runtime.logging import logger

LOOK_SECONDS: Final = 2.0
SLOTS: Final = 64
"""Attempts at the same time."""
SLOTS_OF_ONE: Final = 2
"""Of them to one destination, so that one that is slow holds up itself alone."""
ITEMS_PER_LOOK: Final = 200
AGAIN: Final = "will look again"

log = logger(__name__)


class Rounds:
    def __init__(
        self, database: Database, deliver: Deliver, *, worker: str, slots: int, drain_seconds: float
    ) -> None:
        self._database = database
        self._deliver = deliver
        self._worker = worker
        self._slots = slots
        self._drain_seconds = drain_seconds
        self._woken = asyncio.Event()
        self._under_way: dict[asyncio.Task[None], DeliveryLease] = {}

    async def wake(self, _: Event) -> Sequence[Event]:
        """There may be something new."""
        self._woken.set()
        return []

    async def go_for_ever(self) -> None:
        """Cancelled, it lets what is under way end for a while, and hands the rest over."""
        try:
            while True:
                self._woken.clear()
                await whatever_happens(self._dispatch, AGAIN)
                await whatever_happens(self._claim, AGAIN)
                await self._rest()
        finally:
            await asyncio.shield(self._drain())

    async def _rest(self) -> None:
        try:
            async with asyncio.timeout(LOOK_SECONDS):
                await self._woken.wait()
        except TimeoutError:
            return

    async def _dispatch(self) -> None:
        items = ITEMS_PER_LOOK
        while items == ITEMS_PER_LOOK:
            async with self._database.transaction() as session:
                await deliveries.take_up_retries(session)
                items = await deliveries.dispatch(session, ITEMS_PER_LOOK)
                if items:
                    reach(CrashPoint.STATE_WRITTEN)
            if items:
                log.info("dispatched", items=items)
                reach(CrashPoint.STATE_COMMITTED)

    async def _claim(self) -> None:
        """Until the slots are full, or nothing more is due: one destination's backlog hides no other's."""
        while (free := self._slots - len(self._under_way)) > 0:
            claimed_at = time.monotonic()
            async with self._database.transaction() as session:
                leases = await deliveries.claim(
                    session,
                    self._worker,
                    seconds=self._deliver.lease_seconds,
                    limit=free,
                    of_one=SLOTS_OF_ONE,
                    held=self._held(),
                )
            if not leases:
                return
            reach(CrashPoint.LEASE_TAKEN)
            for lease in leases:
                self._begin(lease, claimed_at)

    def _held(self) -> Counter[UUID]:
        return Counter(lease.destination_id for lease in self._under_way.values())

    def _begin(self, lease: DeliveryLease, claimed_at: float) -> None:
        task = asyncio.create_task(
            whatever_happens(partial(self._deliver_one, lease, claimed_at), AGAIN)
        )
        self._under_way[task] = lease
        task.add_done_callback(self._ended)

    async def _deliver_one(self, lease: DeliveryLease, claimed_at: float) -> None:
        try:
            await self._deliver(lease, claimed_at)
        except asyncio.CancelledError:
            await asyncio.shield(whatever_happens(partial(self._give_back, lease), AGAIN))
            raise

    async def _give_back(self, lease: DeliveryLease) -> None:
        async with self._database.transaction() as session:
            if not await deliveries.give_back(session, lease):
                log.info("recorded before it could be handed over", delivery=str(lease.delivery_id))

    def _ended(self, task: asyncio.Task[None]) -> None:
        """Its slot is free: there may be something that waited for it."""
        del self._under_way[task]
        self._woken.set()

    async def _drain(self) -> None:
        """An attempt that is broken off may have arrived, and be made once more: better to wait for its end."""
        reach(CrashPoint.DRAINING)
        if self._under_way:
            await asyncio.wait(set(self._under_way), timeout=self._drain_seconds)
        left = set(self._under_way)
        for task in left:
            task.cancel()
        if left:
            log.info("handed over unfinished work", deliveries=len(left))
            await asyncio.wait(left)
