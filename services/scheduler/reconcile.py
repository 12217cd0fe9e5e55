"""The order book read again: what lies unclaimed, was never joined, or ended untold is said once more."""

from collections.abc import Awaitable, Callable, Collection, Sequence
from dataclasses import dataclass
from datetime import timedelta
from functools import cached_property
from uuid import UUID

from sqlalchemy import Select, Update, func, update
from sqlalchemy.ext.asyncio import AsyncSession

from services.scheduler import lost
from shared.events.envelope import Event
from shared.store import iterations, telling
from shared.store.database import Database
from shared.store.tables import Iteration, Step

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
            (lost.unclaimed(self._resend_after), _request),
            (lost.unclaimed_order(self._resend_after), _request),
            (lost.unretried(self._resend_after), _request),
            (lost.unjoined(self._resend_after), telling.ended),
        ]

    @cached_property
    def _lost_ends(self) -> Select[Iteration]:
        return lost.untold(self._resend_after)

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
    return [await telling.requested(session, step)]


async def _end_of(session: AsyncSession, iteration: Iteration) -> Sequence[Event]:
    return [await telling.iteration_ended(session, iteration)]
