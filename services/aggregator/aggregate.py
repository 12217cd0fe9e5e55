"""From an event to a tick, and from the state to the events that follow."""

from collections.abc import Sequence
from uuid import UUID

from sqlalchemy.ext.asyncio import AsyncSession

from services.aggregator.join import DeadlinePassed, Ended, PlanMade, StepEnded, Tick
from services.aggregator.settle import ended, settle
from shared.errors import TransientError
from shared.events import models as events
from shared.events.envelope import Event
from shared.store import steps, telling
from shared.store.database import Database
from shared.store.tables import Iteration, Step
from shared.store.words import Stage, StepKind

_FOLLOWS_PLAN_AND_QUERIES = (
    events.PlanProduced,
    events.QueryCompleted,
    events.QueryFailed,
)
_FOLLOWS_INSIGHTS = (events.InsightCompleted, events.InsightFailed)


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
        queries = await steps.of_iteration(session, event.iteration_id, StepKind.QUERY)
        insights = await steps.of_iteration(session, event.iteration_id, StepKind.INSIGHT)
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
    if iteration.stage == Stage.ANALYZING and isinstance(event, _FOLLOWS_PLAN_AND_QUERIES):
        insights = await steps.of_iteration(session, iteration.id, StepKind.INSIGHT)
        return [telling.request(iteration, insight) for insight in insights]
    if iteration.stage == Stage.ADVISING and isinstance(event, _FOLLOWS_INSIGHTS):
        advise = await steps.of_iteration(session, iteration.id, StepKind.ADVISE)
        return [telling.request(iteration, step) for step in advise]
    return []
