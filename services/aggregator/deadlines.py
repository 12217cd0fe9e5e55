"""The tick that the aggregator gives itself: time."""

import asyncio
from dataclasses import dataclass
from functools import partial
from uuid import UUID

from services.aggregator.handler import Aggregate
from shared.database.engine import Database
from shared.failpoints import CrashPoint, reach
from shared.runtime.background import whatever_happens
from shared.runtime.bus import Bus
from shared.runtime.logging import logger
from shared.workflow import iterations

LOOK_SECONDS = 5.0
WAITING_LOOK_SECONDS = 60.0
"""Until the next look at an iteration with a step that waits for a provider."""
AGAIN = "will look for deadlines again"

log = logger(__name__)


@dataclass(frozen=True)
class Deadlines:
    """Ends iterations in which nothing progresses. Any number of replicas may look at the same time."""

    database: Database
    bus: Bus
    aggregate: Aggregate
    patience_seconds: float
    """How long nothing may progress: not how long an iteration may take."""

    async def watch(self) -> None:
        while True:
            await asyncio.sleep(LOOK_SECONDS)
            await whatever_happens(self.look, AGAIN)

    async def look(self) -> None:
        """Each by itself: one that cannot be ended, or told, keeps no other waiting."""
        async with self.database.transaction() as session:
            stalled = await iterations.stalled(
                session, self.patience_seconds, look_again_seconds=WAITING_LOOK_SECONDS
            )
        for iteration_id in stalled:
            log.warning(
                "no progress, so the iteration is ended",
                iteration_id=str(iteration_id),
                for_seconds=self.patience_seconds,
                setting="VIGIL_ITERATION_DEADLINE_SECONDS",
            )
            await whatever_happens(partial(self._pass, iteration_id), AGAIN)

    async def _pass(self, iteration_id: UUID) -> None:
        """Where the word of the end does not reach the bus, the reconciler tells it."""
        following = await self.aggregate.pass_deadline(iteration_id, self.patience_seconds)
        reach(CrashPoint.STATE_COMMITTED)
        await self.bus.publish_all(following)
        reach(CrashPoint.EVENTS_PUBLISHED)
