"""Starts iterations that are due, and runs the scheduler's background loops."""

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import partial
from uuid import UUID

from services.scheduler.dead_letter_retries import Retrier
from services.scheduler.reconciler import MissedEvent, Reconciler
from shared import derived_events
from shared.agents import agents
from shared.database.engine import Database
from shared.errors import TransientError
from shared.events.envelope import Event
from shared.events.models import IterationEvent
from shared.failpoints import Failpoint, failpoint
from shared.runtime.background import log_and_continue
from shared.runtime.bus import Bus
from shared.runtime.logging import logger
from shared.telemetry import tracing
from shared.workflow import iterations

AGENTS_PER_TICK = 50


@dataclass(frozen=True)
class Ticker:
    database: Database
    deadline_seconds: float

    async def tick(self) -> Sequence[Event]:
        """Starts one iteration for each agent that is due or whose run was requested; returns the events to publish.

        Uses the database's clock, so that schedulers whose clocks differ agree on what is due.
        """
        due = await self.database.run(agents.list_due(AGENTS_PER_TICK))
        if not due:
            return []
        failpoint(Failpoint.STATE_WRITTEN)
        starts = await self.database.run(
            iterations.start_iterations(due, deadline_seconds=self.deadline_seconds)
        )
        return [derived_events.iteration_step_event(*start) for start in starts]


RECONCILE_SECONDS = 2.0
RETRY_MESSAGE = "will retry at the next run"

log = logger(__name__)


@dataclass(frozen=True)
class Clock:
    ticker: Ticker
    reconciler: Reconciler
    retrier: Retrier
    bus: Bus
    tick_seconds: float
    wake_event: asyncio.Event = field(default_factory=asyncio.Event)
    received_ends: set[UUID] = field(default_factory=set)
    """Iterations whose end event was received, until that is recorded."""

    async def wake(self, event: Event) -> Sequence[Event]:
        """Handles an iteration's end, and an agent's readiness: its next run may be due already.

        Received ends are recorded in batches by the next reconciliation; after a crash before that, the end is
        published once more.
        """
        self.wake_event.set()
        if isinstance(event, IterationEvent):
            self.received_ends.add(event.iteration_id)
        return []

    async def run_ticks(self) -> None:
        while True:
            self.wake_event.clear()
            await log_and_continue(self._tick, RETRY_MESSAGE)
            try:
                async with asyncio.timeout(self.tick_seconds):
                    await self.wake_event.wait()
            except TimeoutError:
                continue

    async def run_reconciler(self) -> None:
        while True:
            await asyncio.sleep(RECONCILE_SECONDS)
            if self.bus.is_connected:  # otherwise it would count events that cannot be sent
                await log_and_continue(self._reconcile, RETRY_MESSAGE)
                await log_and_continue(self._retry, RETRY_MESSAGE)

    async def _tick(self) -> None:
        for event in await self.ticker.tick():
            with tracing.under_root(event.correlation_id, "start iteration", "producer"):
                log.info("iteration started", iteration_id=str(event.correlation_id))
                failpoint(Failpoint.STATE_COMMITTED)
                await self.bus.publish(event)
                failpoint(Failpoint.EVENTS_PUBLISHED)

    async def _reconcile(self) -> None:
        received = frozenset(self.received_ends)
        missed = await self.reconciler.find_missed(received)
        self.received_ends.difference_update(received)
        for missed_event in missed:
            await self._republish(missed_event)

    async def _republish(self, missed_event: MissedEvent) -> None:
        """Raises TransientError if NATS or PostgreSQL is unavailable: the rest is left for the next run."""
        fields = {"row_id": str(missed_event.row_id), "number": missed_event.number}
        if missed_event.iteration_id is not None:
            fields["iteration_id"] = str(missed_event.iteration_id)
        try:
            for event in await self.reconciler.events(missed_event):
                log.warning("republishing an event", about=event.subject, **fields)
                await self.bus.publish(event, resend=missed_event.number)
        except TransientError:
            raise
        except Exception:
            # Only this row is affected. It is counted all the same, so that it is logged ever more rarely and
            # does not take the place of other rows.
            log.exception("cannot republish an event", **fields)
        await self.reconciler.count(missed_event)

    async def _retry(self) -> None:
        for letter_id in await self.retrier.list_requests():
            if self.bus.is_connected:
                # One that cannot be published must not block the others.
                await log_and_continue(partial(self.retrier.publish, letter_id), RETRY_MESSAGE)
