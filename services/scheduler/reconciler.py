"""The reconciler: finds steps and iterations whose events were lost, and publishes them again."""

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
from shared.workflow import iterations
from shared.workflow.leases import to_be_retried

ROWS_PER_LOOK = 200
DOUBLINGS = 5
"""The wait before each further resend doubles so often: what waits in a long queue is slow, not lost."""
LAPSED = timedelta(seconds=0.5)
"""How long a lease must have lapsed before its step is offered to others."""


def unclaimed(resend_after: timedelta) -> Select[Step]:
    """Steps whose request nobody took, or whose worker died. Where the lease is renewed, the worker is alive."""
    return _steps(_of_running_iterations(), _waits(resend_after))


def unclaimed_order(resend_after: timedelta) -> Select[Step]:
    """The same of steps that are no iteration's: nobody took what a person ordered, or its worker died."""
    return _steps(Step.iteration_id.is_(None), _waits(resend_after))


def unretried(resend_after: timedelta) -> Select[Step]:
    """Steps that are tried again after their iteration has ended: not taken up yet, or forgotten since."""
    asked = func.greatest(Step.requested_at, Step.retry_requested_at)
    patience = _patience(resend_after, Step.resends)
    unheard = and_(to_be_retried(), asked < func.statement_timestamp() - patience)
    return _steps(Step.retry_requested_at.is_not(None), or_(unheard, _waits(resend_after)))


def _waits(resend_after: timedelta) -> ColumnElement[bool]:
    now = func.statement_timestamp()
    waiting_since = func.greatest(Step.requested_at, Step.retry_at)
    forgotten = and_(
        Step.status == StepStatus.PENDING,
        waiting_since < now - _patience(resend_after, Step.resends),
    )
    orphaned = and_(
        Step.status == StepStatus.RUNNING,
        Step.lease_until < now - LAPSED,
        # Its last resend gets the chance to be heard before the next.
        Step.requested_at < now - resend_after / 3,
    )
    return or_(forgotten, orphaned)


def unjoined(resend_after: timedelta) -> Select[Step]:
    """The last steps of iterations that wait for nothing: the word of their end did not reach the join."""
    now = func.statement_timestamp()
    later = aliased(Step)
    last = and_(
        Step.iteration_id.in_(select(_waiting_for_nothing().c.id)),
        Step.ended_at < now - resend_after,
        func.coalesce(Step.requested_at, Step.ended_at)
        < now - _patience(resend_after, Step.resends),
        ~exists().where(later.iteration_id == Step.iteration_id, later.ended_at > Step.ended_at),
    )
    return _steps(_of_running_iterations(), last)


def untold(resend_after: timedelta) -> Select[Iteration]:
    """Iterations that have ended, and the bus has not brought the word of it: whoever ended them died, perhaps."""
    last_told_at = func.coalesce(Iteration.end_resent_at, Iteration.ended_at)
    patience = _patience(resend_after, Iteration.end_resends)
    return (
        select(Iteration)
        .where(
            Iteration.ended_at.is_not(None),
            Iteration.end_told_at.is_(None),
            last_told_at < func.statement_timestamp() - patience,
        )
        .order_by(Iteration.ended_at)
        .limit(ROWS_PER_LOOK)
    )


def _steps(*wanted: ColumnElement[bool]) -> Select[Step]:
    return select(Step).where(*wanted).order_by(Step.requested_at).limit(ROWS_PER_LOOK)


def _of_running_iterations() -> ColumnElement[bool]:
    running = select(Iteration.id).where(Iteration.status == IterationStatus.RUNNING)
    return Step.iteration_id.in_(running)


def _patience(
    resend_after: timedelta, resends: InstrumentedAttribute[int]
) -> ColumnElement[timedelta]:
    return func.power(2, func.least(resends, DOUBLINGS)) * resend_after


def _waiting_for_nothing() -> CTE:
    """Running iterations none of whose steps is open.

    Found first and from partial indexes alone: a plan that begins with the ended steps reads the whole history.
    """
    is_open = Step.status.in_((StepStatus.PENDING, StepStatus.RUNNING))
    nothing_open = ~exists().where(Step.iteration_id == Iteration.id, is_open)
    running = select(Iteration.id).where(Iteration.status == IterationStatus.RUNNING, nothing_open)
    return running.cte().prefix_with("materialized")


TellOfStep = Callable[[AsyncSession, Step], Awaitable[Sequence[Event]]]


@dataclass(frozen=True)
class Lost:
    """Something that the bus seems to have lost, of one row."""

    row_id: UUID
    iteration_id: UUID | None
    number: int
    """How often it will have been said again, which makes its ids on the bus new ones."""
    tell: Callable[[AsyncSession], Awaitable[Sequence[Event]]]
    counted: Update


@dataclass(frozen=True)
class Reconciler:
    """`look`, then for each that was found `events`, publish them, and `count` it: in that order, row by row.

    What dies or fails before the count is found again by the next look, under the same number: the bus knows what it
    has stored already, and nobody's patience has grown for what was never said. Any number may look at the same time.
    """

    database: Database
    resend_after_seconds: float

    async def look(self, heard: Collection[UUID] = ()) -> Sequence[Lost]:
        """What the bus seems to have lost. `heard` are iterations of whose end it has brought the word: that is noted."""
        found: list[Lost] = []
        async with self.database.transaction() as session:
            if heard:
                await iterations.ends_were_heard(session, heard)
            for statement, tell in self._lost_steps:
                found += [_of_step(step, tell) for step in await session.scalars(statement)]
            ended = await session.scalars(self._lost_ends)
            found += [_of_iteration(iteration) for iteration in ended]
        return found

    async def events(self, one: Lost) -> Sequence[Event]:
        """What to say of it. Raises whatever a row leads to that cannot be read."""
        async with self.database.transaction() as session:
            return await one.tell(session)

    async def count(self, one: Lost) -> None:
        """Notes that it was said, or cannot be: the patience before the next time grows."""
        async with self.database.transaction() as session:
            await session.execute(one.counted)

    @cached_property
    def _lost_steps(self) -> Sequence[tuple[Select[Step], TellOfStep]]:
        """Made once: to make a statement takes several times as long as to ask it."""
        return [
            (unclaimed(self._resend_after), _request),
            (unclaimed_order(self._resend_after), _request),
            (unretried(self._resend_after), _request),
            (unjoined(self._resend_after), derived_events.ended),
        ]

    @cached_property
    def _lost_ends(self) -> Select[Iteration]:
        return untold(self._resend_after)

    @property
    def _resend_after(self) -> timedelta:
        return timedelta(seconds=self.resend_after_seconds)


def _of_step(step: Step, tell: TellOfStep) -> Lost:
    number = step.resends + 1
    counted = (
        update(Step)
        .where(Step.id == step.id, Step.resends == step.resends)
        .values(resends=number, requested_at=func.clock_timestamp())
    )
    return Lost(step.id, step.iteration_id, number, lambda session: tell(session, step), counted)


def _of_iteration(iteration: Iteration) -> Lost:
    number = iteration.end_resends + 1
    counted = (
        update(Iteration)
        .where(Iteration.id == iteration.id, Iteration.end_resends == iteration.end_resends)
        .values(end_resends=number, end_resent_at=func.clock_timestamp())
    )
    return Lost(
        iteration.id,
        iteration.id,
        number,
        lambda session: _end_of(session, iteration),
        counted,
    )


async def _request(session: AsyncSession, step: Step) -> Sequence[Event]:
    return [await derived_events.requested(session, step)]


async def _end_of(session: AsyncSession, iteration: Iteration) -> Sequence[Event]:
    return [await derived_events.iteration_ended(session, iteration)]
