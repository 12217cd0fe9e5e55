"""From an event to a tick, and from the state to the events that follow."""

from collections.abc import Sequence
from typing import Final
from uuid import UUID

from sqlalchemy.ext.asyncio import AsyncSession

from services.aggregator.join import DeadlinePassed, PlanMade, StepEnded, Tick
from services.aggregator.loading import ended
from services.aggregator.settle import settle
from services.aggregator.state import Ended
from shared.errors import TransientError
from shared.events import models as events
from shared.events.envelope import Event
from shared.store import steps, telling
from shared.store.database import Database
from shared.store.tables import Iteration, Step
from shared.store.words import Stage, StepKind

_Place = tuple[int, int]
"""Of a step or a stage in the iteration: the round, and what comes first in it."""
_PLACE_OF_KIND: Final = {StepKind.QUERY: 0, StepKind.INSIGHT: 1}
_WAITS_FOR: Final = {Stage.RESEARCHING: StepKind.QUERY, Stage.ANALYZING: StepKind.INSIGHT}
_BEFORE_ALL: Final = (-1, 0)


class Aggregate:
    """Handles every event that the aggregator hears."""

    def __init__(self, database: Database) -> None:
        self._database = database

    async def __call__(self, event: Event) -> Sequence[Event]:
        assert isinstance(event, events.IterationStepEvent)
        async with self._database.transaction() as session:
            tick = await _tick(session, event)
            iteration = await settle(session, event.iteration_id, tick)
            return [] if iteration is None else await _following(session, iteration, event)

    async def pass_deadline(self, iteration_id: UUID) -> Sequence[Event]:
        """Ends an iteration whose deadline has passed; returns the event that tells of it."""
        async with self._database.transaction() as session:
            iteration = await settle(session, iteration_id, DeadlinePassed())
            return [] if iteration is None else [await telling.iteration_ended(session, iteration)]


async def _tick(session: AsyncSession, event: events.IterationStepEvent) -> Tick:
    """The tick that `event` hints at, read from the state, which is the truth."""
    if isinstance(event, events.PlanProduced):
        queries = await steps.planned(session, event.iteration_id, StepKind.QUERY)
        insights = await steps.planned(session, event.iteration_id, StepKind.INSIGHT)
        return PlanMade(event.step_id, _ids(queries), _ids(insights))
    step = await session.get(Step, event.step_id)
    if step is None:
        return StepEnded(event.step_id, Ended())
    how = ended(step)
    if how is None:
        if await _has_ended(session, event.iteration_id):
            # It is being retried, and nobody waits for it any more.
            return StepEnded(step.id, Ended())
        raise TransientError(f"step {step.id} is told to have ended and has not", counts=False)
    return StepEnded(step.id, how)


async def _has_ended(session: AsyncSession, iteration_id: UUID) -> bool:
    iteration = await session.get(Iteration, iteration_id)
    return iteration is None or iteration.stage == Stage.ENDED


def _came_later(event: Event, iteration: Iteration) -> bool:
    """Whether `event` tells of a step that was retried when the iteration had ended, and told so, already."""
    return iteration.ended_at is not None and event.occurred_at > iteration.ended_at


def _ids(rows: Sequence[Step]) -> tuple[UUID, ...]:
    return tuple(row.id for row in rows)


async def _following(session: AsyncSession, iteration: Iteration, event: Event) -> Sequence[Event]:
    """What the state implies after `event`. A redelivered event finds the stage changed and implies the same."""
    if iteration.stage == Stage.ENDED:
        if _came_later(event, iteration):
            return []
        return [await telling.iteration_ended(session, iteration)]
    if iteration.stage == Stage.ADVISING:
        is_earlier = not isinstance(event, events.AdviceCompleted | events.AdviceFailed)
        advise = await steps.of_iteration(session, iteration.id, StepKind.ADVISE)
        return [telling.request(iteration, step) for step in advise if is_earlier]
    kind = _WAITS_FOR.get(Stage(iteration.stage))
    return [] if kind is None else await _asked_by(session, iteration, kind, event)


async def _asked_by(
    session: AsyncSession, iteration: Iteration, kind: StepKind, event: Event
) -> Sequence[Event]:
    """The requests of the round that waits for steps of `kind`, where `event` tells of what comes before them.

    The plan's queries are the Observer's to ask for.
    """
    rows = await steps.of_iteration(session, iteration.id)
    current = max(steps.round_of(row) for row in rows)
    wanted = [row for row in rows if row.kind == kind and steps.round_of(row) == current]
    if (kind == StepKind.QUERY and not current) or not wanted:
        return []
    if _place_of(rows, event) >= _place(wanted[0]):
        return []
    return [telling.request(iteration, row) for row in wanted]


def _place_of(rows: Sequence[Step], event: Event) -> _Place:
    assert isinstance(event, events.IterationStepEvent)
    return next((_place(row) for row in rows if row.id == event.step_id), _BEFORE_ALL)


def _place(step: Step) -> _Place:
    place = _PLACE_OF_KIND.get(StepKind(step.kind))
    return _BEFORE_ALL if place is None else (steps.round_of(step), place)
