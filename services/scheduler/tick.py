"""Starting what is due."""

from collections.abc import Sequence
from dataclasses import dataclass

from shared.crash_points import CrashPoint, reach
from shared.events.envelope import Event
from shared.store import agents, iterations, telling
from shared.store.database import Database

AGENTS_PER_TICK = 50


@dataclass(frozen=True)
class Ticker:
    database: Database
    deadline_seconds: float

    async def tick(self) -> Sequence[Event]:
        """Starts one iteration for each agent that is due or was asked to run; returns what to tell the bus.

        Due is what the database's clock says, so that schedulers whose clocks differ agree.
        """
        async with self.database.transaction() as session:
            told = []
            for agent in await agents.due(session, AGENTS_PER_TICK):
                why = "due" if agent.run_requested_at is None else "run_now"
                started = await iterations.start(
                    session, agent, why=why, deadline_seconds=self.deadline_seconds
                )
                await agents.reschedule(session, agent)
                told.append(telling.request(started.iteration, started.observe))
                reach(CrashPoint.STATE_WRITTEN)
        return told
