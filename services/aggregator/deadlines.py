"""The deadline timer: fails iterations without progress."""

import asyncio
from dataclasses import dataclass
from functools import partial
from uuid import UUID

from services.aggregator.handler import Aggregate
from shared.database.engine import Database
from shared.failpoints import Failpoint, failpoint
from shared.runtime.background import log_and_continue
from shared.runtime.bus import Bus
from shared.runtime.logging import logger
from shared.workflow import iterations

CHECK_SECONDS = 5.0
WAITING_CHECK_SECONDS = 60.0
"""Until the next check of an iteration with a step that waits for a provider."""
RETRY_MESSAGE = "will check deadlines again"

log = logger(__name__)


@dataclass(frozen=True)
class Deadlines:
    """Ends iterations without progress. Safe to run in any number of replicas."""

    database: Database
    bus: Bus
    aggregate: Aggregate
    patience_seconds: float
    """How long there may be no progress; the total duration has no limit."""

    async def watch(self) -> None:
        while True:
            await asyncio.sleep(CHECK_SECONDS)
            await log_and_continue(self.end_stalled, RETRY_MESSAGE)

    async def end_stalled(self) -> None:
        """Ends each stalled iteration separately, so that an error in one does not affect the others."""
        stalled = await self.database.run(
            iterations.list_stalled(self.patience_seconds, look_again_seconds=WAITING_CHECK_SECONDS)
        )
        for iteration_id in stalled:
            log.warning(
                "ending an iteration that makes no progress",
                iteration_id=str(iteration_id),
                for_seconds=self.patience_seconds,
                setting="VIGIL_ITERATION_DEADLINE_SECONDS",
            )
            await log_and_continue(partial(self._pass_deadline, iteration_id), RETRY_MESSAGE)

    async def _pass_deadline(self, iteration_id: UUID) -> None:
        """If publishing fails, the reconciler republishes the events."""
        events = await self.aggregate.pass_deadline(iteration_id, self.patience_seconds)
        failpoint(Failpoint.STATE_COMMITTED)
        await self.bus.publish_all(events)
        failpoint(Failpoint.EVENTS_PUBLISHED)
