"""The reconciler: finds steps and iterations whose events were missed, and republishes them."""

from collections.abc import Awaitable, Callable, Collection, Sequence
from dataclasses import dataclass
from datetime import timedelta
from functools import cached_property
from uuid import UUID

from sqlalchemy import CTE, ColumnElement, Select, Update, and_, exists, func, or_, select, update
from sqlalchemy.ext.asyncio import AsyncSession
from sqlalchemy.orm import InstrumentedAttribute, aliased

from shared import derived_events
from shared.database.engine import Database
from shared.database.tables import Iteration, Step
from shared.enums import IterationStatus, StepStatus
from shared.events.envelope import Event
from shared.workflow import iterations, steps
from shared.workflow.leases import is_retry_requested

ROWS_PER_QUERY = 200
MAX_DOUBLINGS = 5
"""How often the delay between two republications doubles: a step in a long queue is slow, not lost."""
LEASE_GRACE = timedelta(seconds=0.5)
"""How long a lease must have been expired before its step is offered to other workers."""


def unclaimed(resend_after: timedelta) -> Select[Step]:
    """Steps whose request no worker received, or whose worker died. A renewed lease means the worker is alive."""
    return _steps(_is_in_running_iteration(), _is_overdue(resend_after))


def unclaimed_without_iteration(resend_after: timedelta) -> Select[Step]:
    """The same for steps without iteration."""
    return _steps(Step.iteration_id.is_(None), _is_overdue(resend_after))


def unretried(resend_after: timedelta) -> Select[Step]:
    """Steps that are retried after their iteration has ended: not claimed yet, or missed."""
    requested_at = func.greatest(Step.requested_at, Step.retry_requested_at)
    delay = _delay(resend_after, Step.republish_count)
    is_missed = and_(is_retry_requested(), requested_at < func.statement_timestamp() - delay)
    return _steps(Step.retry_requested_at.is_not(None), or_(is_missed, _is_overdue(resend_after)))


def _is_overdue(resend_after: timedelta) -> ColumnElement[bool]:
    now = func.statement_timestamp()
    waiting_since = func.greatest(Step.requested_at, Step.retry_at)
    forgotten = and_(
        Step.status == StepStatus.PENDING,
        waiting_since < now - _delay(resend_after, Step.republish_count),
    )
    orphaned = and_(
        Step.status == StepStatus.RUNNING,
        Step.lease_until < now - LEASE_GRACE,
        # The last republication must have had time to arrive.
        Step.requested_at < now - resend_after / 3,
    )
    return or_(forgotten, orphaned)


def unjoined(resend_after: timedelta) -> Select[Step]:
    """The last ended steps of iterations without open steps: the aggregator missed the event of their end."""
    now = func.statement_timestamp()
    later = aliased(Step)
    last = and_(
        Step.iteration_id.in_(select(_iterations_without_open_steps().c.id)),
        Step.ended_at < now - resend_after,
        func.coalesce(Step.requested_at, Step.ended_at)
        < now - _delay(resend_after, Step.republish_count),
        ~exists().where(later.iteration_id == Step.iteration_id, later.ended_at > Step.ended_at),
    )
    return _steps(_is_in_running_iteration(), last)


def unannounced_ends(resend_after: timedelta) -> Select[Iteration]:
    """Ended iterations whose end event was not received: the aggregator may have died before publishing it."""
    last_published_at = func.coalesce(Iteration.end_republished_at, Iteration.ended_at)
    delay = _delay(resend_after, Iteration.end_republish_count)
    return (
        select(Iteration)
        .where(
            Iteration.ended_at.is_not(None),
            Iteration.end_published_at.is_(None),
            last_published_at < func.statement_timestamp() - delay,
        )
        .order_by(Iteration.ended_at)
        .limit(ROWS_PER_QUERY)
    )


def _steps(*conditions: ColumnElement[bool]) -> Select[Step]:
    return select(Step).where(*conditions).order_by(Step.requested_at).limit(ROWS_PER_QUERY)


def _is_in_running_iteration() -> ColumnElement[bool]:
    running = select(Iteration.id).where(Iteration.status == IterationStatus.RUNNING)
    return Step.iteration_id.in_(running)


def _delay(
    resend_after: timedelta, republish_count: InstrumentedAttribute[int]
) -> ColumnElement[timedelta]:
    return func.power(2, func.least(republish_count, MAX_DOUBLINGS)) * resend_after


def _iterations_without_open_steps() -> CTE:
    """Running iterations without open steps.

    Materialized first and from partial indexes: a plan that starts with the ended steps would read the whole history.
    """
    is_open = Step.status.in_((StepStatus.PENDING, StepStatus.RUNNING))
    nothing_open = ~exists().where(Step.iteration_id == Iteration.id, is_open)
    running = select(Iteration.id).where(Iteration.status == IterationStatus.RUNNING, nothing_open)
    return running.cte().prefix_with("materialized")


StepEvents = Callable[[AsyncSession, Step], Awaitable[Sequence[Event]]]


@dataclass(frozen=True)
class MissedEvent:
    """An event that seems to be missed, derived from one row."""

    row_id: UUID
    iteration_id: UUID | None
    number: int
    """Number of this republication, which makes its message ids unique."""
    load_events: Callable[[AsyncSession], Awaitable[Sequence[Event]]]
    count_update: Update


@dataclass(frozen=True)
class Reconciler:
    """Call `find_missed`, then for each result `events`, publish these, and `count`, row by row.

    After a crash or error before `count`, the next run finds the row again with the same number: NATS drops what it has
    stored already, and the delay has not grown for what was never sent. Safe to run concurrently.
    """

    database: Database
    resend_after_seconds: float

    async def find_missed(self, received_ends: Collection[UUID] = ()) -> Sequence[MissedEvent]:
        """Finds missed events. First records the iterations `received_ends`, whose end events were received."""
        missed: list[MissedEvent] = []
        async with self.database.transaction() as session:
            if received_ends:
                await iterations.note_ends_received(session, received_ends)
            for statement, load_events in self._missed_steps:
                missed += [
                    _missed_step(step, load_events) for step in await session.scalars(statement)
                ]
            ended_iterations = await session.scalars(self._missed_ends)
            missed += [_missed_end(iteration) for iteration in ended_iterations]
        return missed

    async def events(self, missed: MissedEvent) -> Sequence[Event]:
        """The events to republish. Raises any error that a broken row causes."""
        async with self.database.transaction() as session:
            return await missed.load_events(session)

    async def count(self, missed: MissedEvent) -> None:
        """Records that it was republished or cannot be: the delay before the next time grows."""
        async with self.database.transaction() as session:
            await session.execute(missed.count_update)

    @cached_property
    def _missed_steps(self) -> Sequence[tuple[Select[Step], StepEvents]]:
        """Cached: building a statement takes several times as long as running it."""
        return [
            (unclaimed(self._resend_after), _request_events),
            (unclaimed_without_iteration(self._resend_after), _request_events),
            (unretried(self._resend_after), _request_events),
            (unjoined(self._resend_after), derived_events.events_after_step),
        ]

    @cached_property
    def _missed_ends(self) -> Select[Iteration]:
        return unannounced_ends(self._resend_after)

    @property
    def _resend_after(self) -> timedelta:
        return timedelta(seconds=self.resend_after_seconds)


def _missed_step(step: Step, load_events: StepEvents) -> MissedEvent:
    number = step.republish_count + 1
    count_update = (
        update(Step)
        .where(Step.id == step.id, Step.republish_count == step.republish_count)
        .values(republish_count=number, requested_at=func.clock_timestamp())
    )
    return MissedEvent(
        step.id, step.iteration_id, number, lambda session: load_events(session, step), count_update
    )


def _missed_end(iteration: Iteration) -> MissedEvent:
    number = iteration.end_republish_count + 1
    count_update = (
        update(Iteration)
        .where(
            Iteration.id == iteration.id,
            Iteration.end_republish_count == iteration.end_republish_count,
        )
        .values(end_republish_count=number, end_republished_at=func.clock_timestamp())
    )
    return MissedEvent(
        iteration.id,
        iteration.id,
        number,
        lambda session: _end_events(session, iteration),
        count_update,
    )


async def _request_events(session: AsyncSession, step: Step) -> Sequence[Event]:
    return [await derived_events.step_requested_event(session, step)]


async def _end_events(session: AsyncSession, iteration: Iteration) -> Sequence[Event]:
    its_steps = await steps.list_steps(session, iteration.id)
    return [await derived_events.iteration_ended_event(session, iteration, its_steps)]
