"""The order book read again: what lies unclaimed, or was never joined, is said once more."""

from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from datetime import timedelta
from functools import partial
from uuid import UUID

from sqlalchemy import ColumnElement, Update, and_, case, exists, func, or_, select, update
from sqlalchemy.ext.asyncio import AsyncSession
from sqlalchemy.orm import aliased

from shared.events.envelope import Event
from shared.store import iterations, steps, telling
from shared.store.database import Database
from shared.store.tables import Iteration, Step
from shared.store.words import IterationStatus, StepStatus

ROWS_PER_LOOK = 200
DOUBLINGS = 5
"""The wait before each further resend doubles so often: what waits in a long queue is slow, not lost."""
LAPSED_SECONDS = 0.5
"""How long a lease must have lapsed before its step is offered to others."""

OPEN = (StepStatus.PENDING, StepStatus.RUNNING)


@dataclass(frozen=True)
class Lost:
    """Something that the bus seems to have lost, of one row."""

    row_id: UUID
    iteration_id: UUID
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

    async def look(self) -> Sequence[Lost]:
        """What the bus seems to have lost. Steps whose lease is renewed are alive and never touched."""
        async with self.database.transaction() as session:
            return [
                *await self._unclaimed(session),
                *await self._unjoined(session),
                *await self._untold(session),
            ]

    async def events(self, lost: Lost) -> Sequence[Event]:
        """What to say of it. Raises whatever a row leads to that cannot be read."""
        async with self.database.transaction() as session:
            return await lost.tell(session)

    async def count(self, lost: Lost) -> None:
        """Notes that it was said, or cannot be: the patience before the next time grows."""
        async with self.database.transaction() as session:
            await session.execute(lost.counted)

    async def heard_of_end(self, iteration_id: UUID) -> None:
        """The bus has brought the word of the iteration's end."""
        async with self.database.transaction() as session:
            await iterations.end_was_heard(session, iteration_id)

    async def _unclaimed(self, session: AsyncSession) -> list[Lost]:
        """Requests that nobody took, or whose worker died."""
        now = func.clock_timestamp()
        waiting_since = func.greatest(Step.requested_at, Step.retry_at)
        forgotten = and_(Step.status == StepStatus.PENDING, waiting_since < now - self._patience())
        orphaned = and_(
            Step.status == StepStatus.RUNNING,
            Step.lease_until < now - timedelta(seconds=LAPSED_SECONDS),
            # Its last resend gets the chance to be heard before the next.
            Step.requested_at < now - timedelta(seconds=self.resend_after_seconds / 3),
        )
        found = await self._steps(session, or_(forgotten, orphaned))
        return [_of_step(step, _request) for step in found]

    async def _unjoined(self, session: AsyncSession) -> list[Lost]:
        """Iterations that wait for nothing: the word of their last step's end did not reach the join."""
        now = func.clock_timestamp()
        other = aliased(Step)
        anything_open_or_later = exists().where(
            other.iteration_id == Step.iteration_id,
            or_(other.status.in_(OPEN), other.ended_at > Step.ended_at),
        )
        last = and_(
            Step.ended_at < now - timedelta(seconds=self.resend_after_seconds),
            func.coalesce(Step.requested_at, Step.ended_at) < now - self._patience(),
            ~anything_open_or_later,
        )
        return [_of_step(step, _end) for step in await self._steps(session, last)]

    async def _untold(self, session: AsyncSession) -> list[Lost]:
        """Iterations that have ended, and the bus has not brought the word of it: whoever ended them died, perhaps."""
        # Counted from the end, a wait that doubles needs no note of the last time, and no bound.
        patience = func.power(2, Iteration.end_resends) * self._resend_after
        found = await session.scalars(
            select(Iteration)
            .where(
                Iteration.end_told_at.is_(None),
                Iteration.ended_at < func.clock_timestamp() - patience,
                # So that the bound is one that the index knows too.
                Iteration.ended_at < func.clock_timestamp() - self._resend_after,
            )
            .order_by(Iteration.ended_at)
            .limit(ROWS_PER_LOOK)
        )
        return [_of_iteration(iteration) for iteration in found]

    @property
    def _resend_after(self) -> timedelta:
        return timedelta(seconds=self.resend_after_seconds)

    def _patience(self) -> ColumnElement[timedelta]:
        doublings = case((Step.resends > DOUBLINGS, DOUBLINGS), else_=Step.resends)
        return func.power(2, doublings) * self._resend_after

    async def _steps(self, session: AsyncSession, wanted: ColumnElement[bool]) -> list[Step]:
        """Matching steps of running iterations."""
        running = select(Iteration.id).where(Iteration.status == IterationStatus.RUNNING)
        found = await session.scalars(
            select(Step)
            .where(Step.iteration_id.in_(running), wanted)
            .order_by(Step.requested_at)
            .limit(ROWS_PER_LOOK)
        )
        return list(found)


def _of_step(step: Step, tell: Callable[[Step, AsyncSession], Awaitable[Sequence[Event]]]) -> Lost:
    number = step.resends + 1
    counted = (
        update(Step)
        .where(Step.id == step.id, Step.resends == step.resends)
        .values(resends=number, requested_at=func.clock_timestamp())
    )
    return Lost(step.id, step.iteration_id, number, partial(tell, step), counted)


def _of_iteration(iteration: Iteration) -> Lost:
    number = iteration.end_resends + 1
    counted = (
        update(Iteration)
        .where(Iteration.id == iteration.id, Iteration.end_resends == iteration.end_resends)
        .values(end_resends=number)
    )
    return Lost(iteration.id, iteration.id, number, partial(_end_of, iteration), counted)


async def _request(step: Step, session: AsyncSession) -> Sequence[Event]:
    return [telling.request(await steps.iteration_of(session, step), step)]


async def _end(step: Step, session: AsyncSession) -> Sequence[Event]:
    return await telling.ended(session, step)


async def _end_of(iteration: Iteration, session: AsyncSession) -> Sequence[Event]:
    return [await telling.iteration_ended(session, iteration)]
