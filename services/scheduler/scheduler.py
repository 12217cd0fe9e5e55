"""The scheduler: starts iterations that are due."""

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import partial
from uuid import UUID

from services.scheduler.dead_letter_retries import Retrier
from services.scheduler.reconciler import Lost, Reconciler
from shared import derived_events
from shared.agents import agents
from shared.database.engine import Database
from shared.errors import TransientError
from shared.events.envelope import Event
from shared.events.models import IterationEvent
from shared.failpoints import CrashPoint, reach
from shared.runtime.background import whatever_happens
from shared.runtime.bus import Bus
from shared.runtime.logging import logger
from shared.workflow import iterations

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
                told.append(derived_events.request(started.iteration, started.observe))
                reach(CrashPoint.STATE_WRITTEN)
        return told


RECONCILE_SECONDS = 2.0
AGAIN = "will look again"

log = logger(__name__)


@dataclass(frozen=True)
class Clock:
    ticker: Ticker
    reconciler: Reconciler
    retrier: Retrier
    bus: Bus
    tick_seconds: float
    woken: asyncio.Event = field(default_factory=asyncio.Event)
    heard: set[UUID] = field(default_factory=set)
    """Iterations of whose end the bus has brought the word, until that is noted."""

    async def wake(self, event: Event) -> Sequence[Event]:
        """Handles an iteration's end, and an agent's readiness: it may be due already.

        That an end was heard is noted at the next look, with all others since the last: who dies before has it told once
        more.
        """
        self.woken.set()
        if isinstance(event, IterationEvent):
            self.heard.add(event.iteration_id)
        return []

    async def tick_for_ever(self) -> None:
        while True:
            self.woken.clear()
            await whatever_happens(self._tick, AGAIN)
            try:
                async with asyncio.timeout(self.tick_seconds):
                    await self.woken.wait()
            except TimeoutError:
                continue

    async def reconcile_for_ever(self) -> None:
        while True:
            await asyncio.sleep(RECONCILE_SECONDS)
            if self.bus.is_connected:  # else it would count resends that nobody can hear
                await whatever_happens(self._reconcile, AGAIN)
                await whatever_happens(self._retry, AGAIN)

    async def _tick(self) -> None:
        for event in await self.ticker.tick():
            log.info("iteration started", iteration_id=str(event.correlation_id))
            reach(CrashPoint.STATE_COMMITTED)
            await self.bus.publish(event)
            reach(CrashPoint.EVENTS_PUBLISHED)

    async def _reconcile(self) -> None:
        heard = frozenset(self.heard)
        found = await self.reconciler.look(heard)
        self.heard.difference_update(heard)
        for lost in found:
            await self._say_again(lost)

    async def _say_again(self, lost: Lost) -> None:
        """Raises TransientError where the bus or Postgres is away: the rest is then for the next look."""
        who = {"row_id": str(lost.row_id), "number": lost.number}
        if lost.iteration_id is not None:
            who["iteration_id"] = str(lost.iteration_id)
        try:
            for event in await self.reconciler.events(lost):
                log.warning("asking again", about=event.subject, **who)
                await self.bus.publish(event, resend=lost.number)
        except TransientError:
            raise
        except Exception:
            # This row's own trouble. Counted all the same, so that it is complained of ever more rarely, and leaves
            # the looks to the others.
            log.exception("cannot be told again", **who)
        await self.reconciler.count(lost)

    async def _retry(self) -> None:
        for letter_id in await self.retrier.wanted():
            if self.bus.is_connected:
                # One that cannot be published hinders no other.
                await whatever_happens(partial(self.retrier.publish, letter_id), AGAIN)
