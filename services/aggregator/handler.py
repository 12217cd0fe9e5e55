"""Maps events to ticks, and the new state to the events that follow."""

from collections.abc import Callable, Sequence
from functools import partial
from typing import Final
from uuid import UUID

from services.aggregator.reducer import DeadlinePassed, PlanCompleted, StepEnded, StepOutcome, Tick
from services.aggregator.transitions import (
    IterationRows,
    Transition,
    load,
    prepare_tick,
    step_outcome,
)
from shared import derived_events
from shared.database.engine import Database
from shared.database.statements import Batch, PendingResult
from shared.derived_events import IterationTotals
from shared.enums import IterationStatus, Stage, StepKind
from shared.errors import TransientError
from shared.events import models as events
from shared.events.envelope import Event
from shared.telemetry import metrics, tracing
from shared.workflow import attention, steps
from shared.workflow.iterations import IterationRow, StepRow

_Position = tuple[int, int]
"""Order of steps and stages in the iteration: the round, then the stage within it."""
_POSITION_OF_KIND: Final = {StepKind.QUERY: 0, StepKind.INSIGHT: 1}
_STEP_KIND_OF_STAGE: Final = {Stage.RESEARCHING: StepKind.QUERY, Stage.ANALYZING: StepKind.INSIGHT}
_FIRST_POSITION: Final = (-1, 0)


class Aggregate:
    """Handles every event that the aggregator subscribes to."""

    def __init__(self, database: Database) -> None:
        self._database = database

    async def __call__(self, event: Event) -> Sequence[Event]:
        assert isinstance(event, events.IterationStepEvent)
        if isinstance(event, events.PlanProduced) and event.queries:
            # The Observer has requested these queries already, in the commit that inserted them.
            return []
        return await self._join(event.iteration_id, partial(_tick, event), event)

    async def pass_deadline(self, iteration_id: UUID, patience_seconds: float) -> Sequence[Event]:
        """Ends an iteration without progress; returns the event of its end."""
        return await self._join(iteration_id, lambda _: DeadlinePassed(patience_seconds), None)

    async def _join(
        self,
        iteration_id: UUID,
        tick_of: Callable[[IterationRows], Tick],
        event: events.IterationStepEvent | None,
    ) -> Sequence[Event]:
        """Applies the tick; returns the events that the state then implies after `event`, or after the deadline."""
        with tracing.of_message("join", {"vigil.iteration.id": str(iteration_id)}) as span:
            events = await self._apply_tick(iteration_id, tick_of, event)
            if span is not None:
                span.add({"vigil.events": len(events)})
            return events

    async def _apply_tick(
        self,
        iteration_id: UUID,
        tick_of: Callable[[IterationRows], Tick],
        event: events.IterationStepEvent | None,
    ) -> Sequence[Event]:
        ended_step = None if event is None else event.step_id
        was_moved = False
        while (rows := await load(self._database, iteration_id, ended_step)) is not None:
            batch = Batch()
            transition = prepare_tick(batch, rows, tick_of(rows))
            if was_moved and (event is None or transition.is_written is None):
                # It makes progress. The events are published by the handler that has moved it.
                return []
            totals = PendingResult[IterationTotals]()
            if _is_ended(transition.rows):
                totals = batch.add(derived_events.iteration_totals(iteration_id))
            if await self._write(batch, transition):
                if event is not None and _is_after_end(event, rows.iteration):
                    await self._record_retry(rows.iteration)
                _count_end(transition)
                return _implied_events(transition.rows, event, totals)
            was_moved = True
        return []

    async def _record_retry(self, ended: IterationRow) -> None:
        """Records that a step was retried after the end: it may have ended the failures of the agent."""
        batch = Batch()
        batch.add(attention.lock_agent(ended.agent_id))
        batch.add(attention.record_end(ended.agent_id, ended.errors))
        await self._database.write(batch)

    async def _write(self, batch: Batch, transition: Transition) -> bool:
        """Executes `batch`. False, and nothing is written, if the iteration has moved on since it was seen."""
        if transition.is_written is None:
            await self._database.read(batch)
            return True
        if not transition.abandons:
            await self._database.write(batch)
            return transition.is_written.value
        async with self._database.transaction(batch) as transaction:
            if not transition.is_written.value:
                await transaction.rollback()
        return transition.is_written.value


def _tick(event: events.IterationStepEvent, rows: IterationRows) -> Tick:
    """The tick for `event`, derived from the database, which is the source of truth."""
    if isinstance(event, events.PlanProduced):
        queries, insights = rows.planned(StepKind.QUERY), rows.planned(StepKind.INSIGHT)
        return PlanCompleted(event.step_id, queries, insights)
    step = rows.step(event.step_id)
    if step is None:
        return StepEnded(event.step_id, StepOutcome())
    outcome = step_outcome(step)
    if outcome is None:
        if rows.iteration.stage == Stage.ENDED:
            # It is being retried after the iteration has ended.
            return StepEnded(step.id, StepOutcome())
        raise TransientError(
            f"step {step.id} has not ended, although an event says so", counts=False
        )
    return StepEnded(step.id, outcome)


def _count_end(transition: Transition) -> None:
    """Counts the iteration if the transition has ended it."""
    iteration = transition.rows.iteration
    if transition.is_written is not None and iteration.ended_at is not None:
        seconds = (iteration.ended_at - iteration.started_at).total_seconds()
        metrics.ITERATION_SECONDS.labels(iteration.status).observe(seconds)


def _is_ended(rows: IterationRows) -> bool:
    return rows.iteration.stage == Stage.ENDED


def _is_after_end(event: Event, iteration: IterationRow) -> bool:
    """Whether `event` is about a step that was retried after the iteration had ended."""
    return iteration.ended_at is not None and event.occurred_at > iteration.ended_at


def _implied_events(
    rows: IterationRows, event: Event | None, totals: PendingResult[IterationTotals]
) -> Sequence[Event]:
    """The events that the state implies after `event`. For a redelivered event they are the same."""
    if not _is_ended(rows):
        return [] if event is None else _requests_after(rows, event)
    if event is not None and _is_after_end(event, rows.iteration):
        return []
    _trace_iteration(rows, totals.value)
    return [derived_events.iteration_ended_with(rows.iteration, rows.steps, totals.value)]


def _trace_iteration(rows: IterationRows, totals: IterationTotals) -> None:
    iteration = rows.iteration
    if iteration.ended_at is None:
        return
    cost_usd = totals.cost_usd
    tracing.root(
        iteration.id,
        "iteration",
        since=iteration.started_at,
        until=iteration.ended_at,
        attributes={
            "vigil.agent.id": str(iteration.agent_id),
            "vigil.iteration.id": str(iteration.id),
            "vigil.iteration.number": iteration.number,
            "vigil.iteration.why": iteration.why,
            "vigil.iteration.status": iteration.status,
            "vigil.cost.usd": None if cost_usd is None else float(cost_usd),
        },
        # Not its errors, which can quote an answer.
        error="the iteration failed" if iteration.status == IterationStatus.FAILED else None,
    )


def _requests_after(rows: IterationRows, event: Event) -> Sequence[Event]:
    """The requests that the state of a running iteration implies after `event`."""
    iteration = rows.iteration
    if iteration.stage == Stage.ADVISING:
        is_earlier = not isinstance(event, events.AdviceCompleted | events.AdviceFailed)
        advise_steps = [row for row in rows.steps if row.kind == StepKind.ADVISE]
        return [derived_events.later_step_event(step) for step in advise_steps if is_earlier]
    kind = _STEP_KIND_OF_STAGE.get(Stage(iteration.stage))
    return [] if kind is None else _requests(rows, kind, event)


def _requests(rows: IterationRows, kind: StepKind, event: Event) -> Sequence[Event]:
    """The requests of the current round's steps of `kind`, if `event` is about a step that comes before them.

    The plan's queries are requested by the Observer.
    """
    current_round = max(steps.step_round(row) for row in rows.steps)
    current_steps = [
        row for row in rows.steps if row.kind == kind and steps.step_round(row) == current_round
    ]
    if (kind == StepKind.QUERY and not current_round) or not current_steps:
        return []
    if _event_position(rows, event) >= _step_position(current_steps[0]):
        return []
    return [derived_events.later_step_event(row) for row in current_steps]


def _event_position(rows: IterationRows, event: Event) -> _Position:
    assert isinstance(event, events.IterationStepEvent)
    step = rows.step(event.step_id)
    return _FIRST_POSITION if step is None else _step_position(step)


def _step_position(step: StepRow) -> _Position:
    position = _POSITION_OF_KIND.get(StepKind(step.kind))
    return _FIRST_POSITION if position is None else (steps.step_round(step), position)
