"""The order book read again: what lies unclaimed, or was never joined, is said once more."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import timedelta

from sqlalchemy import ColumnElement, and_, case, exists, func, or_, select
from sqlalchemy.ext.asyncio import AsyncSession
from sqlalchemy.orm import aliased

from shared.events.envelope import Event
from shared.store import telling
from shared.store.database import Database
from shared.store.leases import to_be_retried
from shared.store.tables import Iteration, Step
from shared.store.words import IterationStatus, StepStatus

STEPS_PER_LOOK = 200
DOUBLINGS = 5
"""The wait before each further resend doubles so often: what waits in a long queue is slow, not lost."""
LAPSED_SECONDS = 0.5
"""How long a lease must have lapsed before its step is offered to others."""

OPEN = (StepStatus.PENDING, StepStatus.RUNNING)


@dataclass(frozen=True)
class Resend:
    event: Event
    number: int
    """How often this was said again, which makes its id on the bus a new one."""


@dataclass(frozen=True)
class Reconciler:
    database: Database
    resend_after_seconds: float

    async def look(self) -> Sequence[Resend]:
        """What the bus seems to have lost. Steps whose lease is renewed are alive and never touched."""
        async with self.database.transaction() as session:
            return [*await self._unclaimed(session), *await self._unjoined(session)]

    async def _unclaimed(self, session: AsyncSession) -> list[Resend]:
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
        waiting = or_(forgotten, orphaned)
        in_iteration = await self._locked(session, _of_running_iterations(), waiting)
        retried = await self._locked(session, *self._retried(waiting))
        resends = []
        for step in [*in_iteration, *retried]:
            iteration = await session.get_one(Iteration, step.iteration_id)
            await self._count(session, step)
            resends.append(Resend(telling.request(iteration, step), step.resends))
        return resends

    def _retried(self, waiting: ColumnElement[bool]) -> tuple[ColumnElement[bool], ...]:
        """Steps that are tried again after their iteration has ended: not taken up yet, or forgotten since."""
        asked = func.greatest(Step.requested_at, Step.retry_requested_at)
        unheard = and_(to_be_retried(), asked < func.clock_timestamp() - self._patience())
        return Step.retry_requested_at.is_not(None), or_(unheard, waiting)

    async def _unjoined(self, session: AsyncSession) -> list[Resend]:
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
        resends = []
        for step in await self._locked(session, _of_running_iterations(), last):
            await self._count(session, step)
            resends += [Resend(event, step.resends) for event in await telling.ended(session, step)]
        return resends

    def _patience(self) -> ColumnElement[timedelta]:
        doublings = case((Step.resends > DOUBLINGS, DOUBLINGS), else_=Step.resends)
        return func.power(2, doublings) * timedelta(seconds=self.resend_after_seconds)

    async def _locked(self, session: AsyncSession, *wanted: ColumnElement[bool]) -> list[Step]:
        """Matching steps; those that another scheduler looks at are left to it."""
        found = await session.scalars(
            select(Step)
            .where(*wanted)
            .order_by(Step.requested_at)
            .limit(STEPS_PER_LOOK)
            .with_for_update(skip_locked=True)
        )
        return list(found)

    async def _count(self, session: AsyncSession, step: Step) -> None:
        step.resends += 1
        step.requested_at = (await session.execute(select(func.clock_timestamp()))).scalar_one()
        await session.flush()


def _of_running_iterations() -> ColumnElement[bool]:
    return Step.iteration_id.in_(
        select(Iteration.id).where(Iteration.status == IterationStatus.RUNNING)
    )
