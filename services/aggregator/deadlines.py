"""The tick that the aggregator gives itself: time."""

import asyncio
from dataclasses import dataclass

from services.aggregator.aggregate import Aggregate
from shared.errors import TransientError
from shared.runtime.bus import Bus
from shared.runtime.logs import logger
from shared.store import iterations
from shared.store.database import Database

LOOK_SECONDS = 5.0

log = logger(__name__)


@dataclass(frozen=True)
class Deadlines:
    """Ends what is overdue. Any number of replicas may look at the same time."""

    database: Database
    bus: Bus
    aggregate: Aggregate

    async def watch(self) -> None:
        while True:
            await asyncio.sleep(LOOK_SECONDS)
            try:
                await self.look()
            except TransientError as error:
                log.warning("could not look for deadlines", error=str(error))
            except Exception:
                log.exception("unexpected error")

    async def look(self) -> None:
        async with self.database.transaction() as session:
            overdue = await iterations.overdue(session)
        for iteration_id in overdue:
            log.warning("deadline passed", iteration_id=str(iteration_id))
            await self.bus.publish_all(await self.aggregate.pass_deadline(iteration_id))
