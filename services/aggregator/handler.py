"""From an event to a tick, and from the state to the events that follow."""

from collections.abc import Sequence
from functools import partial
from typing import Final
from uuid import UUID

from sqlalchemy.ext.asyncio import AsyncSession

from services.aggregator.reducer import DeadlinePassed, Ended, PlanMade, StepEnded, Tick
from services.aggregator.transitions import Rows, ended, settle
from shared import derived_events
from shared.database.engine import Database
from shared.enums import Stage, StepKind
from shared.errors import TransientError
from shared.events import models as events
from shared.events.envelope import Event
from shared.workflow import steps
from shared.workflow.iterations import IterationRow, StepRow

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
        if isinstance(event, events.PlanProduced) and event.queries:
            # The Observer has asked for them, in the commit that wrote them: what follows them is what is joined.
            return []
        async with self._database.transaction() as session:
            rows = await settle(session, event.iteration_id, partial(_tick, event))
            return [] if rows is None else await _following(session, rows, event)

    async def pass_deadline(self, iteration_id: UUID, patience_seconds: float) -> Sequence[Event]:
        """Ends an iteration in which nothing has progressed for so long; returns the event that tells of it."""
        async with self._database.transaction() as session:
            rows = await settle(session, iteration_id, lambda _: DeadlinePassed(patience_seconds))
            return [] if rows is None else [await _end_of(session, rows)]


def _tick(event: events.IterationStepEvent, rows: Rows) -> Tick:
    """The tick that `event` hints at, read from the state, which is the truth."""
    if isinstance(event, events.PlanProduced):
        queries, insights = rows.planned(StepKind.QUERY), rows.planned(StepKind.INSIGHT)
        return PlanMade(event.step_id, queries, insights)
    step = rows.step(event.step_id)
    if step is None:
        return StepEnded(event.step_id, Ended())
    how = ended(step)
    if how is None:
        if rows.iteration.stage == Stage.ENDED:
            # It is being retried, and nobody waits for it any more.
            return StepEnded(step.id, Ended())
        raise TransientError(f"step {step.id} is told to have ended and has not", counts=False)
    return StepEnded(step.id, how)


def _came_later(event: Event, iteration: IterationRow) -> bool:
    """Whether `event` tells of a step that was retried when the iteration had ended, and told so, already."""
    return iteration.ended_at is not None and event.occurred_at > iteration.ended_at


async def _end_of(session: AsyncSession, rows: Rows) -> Event:
    return await derived_events.iteration_ended(session, rows.iteration, rows.steps)


async def _following(session: AsyncSession, rows: Rows, event: Event) -> Sequence[Event]:
    """What the state implies after `event`. A redelivered event finds the stage changed and implies the same."""
    iteration = rows.iteration
    if iteration.stage == Stage.ENDED:
        return [] if _came_later(event, iteration) else [await _end_of(session, rows)]
    if iteration.stage == Stage.ADVISING:
        is_earlier = not isinstance(event, events.AdviceCompleted | events.AdviceFailed)
        advise = [row for row in rows.steps if row.kind == StepKind.ADVISE]
        return [derived_events.request(iteration, step) for step in advise if is_earlier]
    kind = _WAITS_FOR.get(Stage(iteration.stage))
    return [] if kind is None else _asked_by(rows, kind, event)


def _asked_by(rows: Rows, kind: StepKind, event: Event) -> Sequence[Event]:
    """The requests of the round that waits for steps of `kind`, where `event` tells of what comes before them.

    The plan's queries are the Observer's to ask for.
    """
    current = max(steps.round_of(row) for row in rows.steps)
    wanted = [row for row in rows.steps if row.kind == kind and steps.round_of(row) == current]
    if (kind == StepKind.QUERY and not current) or not wanted:
        return []
    if _place_of(rows, event) >= _place(wanted[0]):
        return []
    return [derived_events.request(rows.iteration, row) for row in wanted]


def _place_of(rows: Rows, event: Event) -> _Place:
    assert isinstance(event, events.IterationStepEvent)
    step = rows.step(event.step_id)
    return _BEFORE_ALL if step is None else _place(step)


def _place(step: StepRow) -> _Place:
    place = _PLACE_OF_KIND.get(StepKind(step.kind))
    return _BEFORE_ALL if place is None else (steps.round_of(step), place)
