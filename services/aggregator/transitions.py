"""Loads the state of the join, and writes its commands if nothing else has moved the iteration meanwhile."""

from collections import defaultdict
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Any
from uuid import UUID

from services.aggregator.reducer import (
    AbandonSteps,
    Command,
    Complete,
    Fail,
    MissingData,
    NewInsight,
    NewQuery,
    RepeatInsights,
    RequestAdvice,
    RequestInsights,
    RequestQueries,
    State,
    StepOutcome,
    StepState,
    Tick,
    join,
)
from shared.billing import reservations
from shared.database.engine import Database
from shared.database.statements import Batch, PendingResult
from shared.enums import IterationStatus, Stage, StepKind, StepStatus
from shared.failpoints import Failpoint, failpoint
from shared.workflow import attention, investigations, iterations, steps
from shared.workflow.investigations import StoredRequest
from shared.workflow.iterations import IterationRow, IterationSteps, StepChanges, StepRow

MissingByStep = Mapping[UUID, Sequence[MissingData]]
"""By the insight step that lacks it."""


@dataclass(frozen=True)
class IterationRows:
    """An iteration with its steps and investigation requests."""

    iteration: IterationRow
    work: IterationSteps
    requests: Sequence[StoredRequest] = ()

    @property
    def steps(self) -> Sequence[StepRow]:
        return self.work.steps

    @property
    def is_quiet(self) -> bool:
        """Whether the observe step found nothing to do."""
        return any((row.result or {}).get(iterations.QUIET) for row in self.steps)

    def step(self, step_id: UUID) -> StepRow | None:
        return next((row for row in self.steps if row.id == step_id), None)

    def planned(self, kind: StepKind) -> tuple[UUID, ...]:
        """Steps of the plan, without those of later rounds."""
        return tuple(row.id for row in self.steps if row.kind == kind and not steps.step_round(row))


async def load(
    database: Database, iteration_id: UUID, ended_step: UUID | None
) -> IterationRows | None:
    """Loads the rows without a lock. None if the iteration was deleted, or if other steps of the same kind as
    `ended_step` are still open: then their ends lead to the next join.
    """
    async with database.connection() as connection:
        seen = await iterations.load_for_join(iteration_id, ended_step).execute(connection)
        if seen is None:
            return None
        rows = IterationRows(*seen)
        # Most agents have no feedback rounds.
        if not rows.work.feedback_rounds:
            return rows
        requests = await investigations.list_requests(iteration_id).execute(connection)
        return replace(rows, requests=requests)


def build_state(rows: IterationRows) -> State:
    missing = _missing_by_step(rows)
    return State(
        Stage(rows.iteration.stage),
        tuple(_step_state(row, missing) for row in rows.steps),
        rows.iteration.id,
        rows.work.feedback_rounds,
        rows.work.is_suspended,
    )


def _missing_by_step(rows: IterationRows) -> MissingByStep:
    """Several insights can lack the same: then the request has the step of the first.

    What was answered or not found before an insight ended is not searched for again for it.
    """
    requests = {request.id: request for request in rows.requests}
    ends = {step.id: step.ended_at for step in rows.steps}
    wanted: dict[UUID, dict[UUID, None]] = defaultdict(dict)
    for request in rows.requests:
        if request.step_id is not None:
            wanted[request.step_id][request.id] = None
    for step in rows.steps:
        named = (UUID(each) for each in (step.result or {}).get("requests", ()))
        wanted[step.id].update((each, None) for each in named if each in requests)
    return {
        step_id: [
            MissingData(each, requests[each].objective)
            for each in ids
            if not _is_settled_before(requests[each], ends.get(step_id))
        ]
        for step_id, ids in wanted.items()
    }


def _is_settled_before(request: StoredRequest, end: datetime | None) -> bool:
    return request.settled_at is not None and end is not None and request.settled_at < end


def _step_state(step: StepRow, missing: MissingByStep) -> StepState:
    again_of = step.input.get("again_of")
    return StepState(
        step.id,
        StepKind(step.kind),
        step_outcome(step, missing),
        steps.step_round(step),
        tuple(UUID(request_id) for request_id in step.input.get("answers", [])),
        None if again_of is None else UUID(again_of),
    )


def step_outcome(step: StepRow, missing: MissingByStep | None = None) -> StepOutcome | None:
    """How the step ended, according to its row; None if it has not."""
    match step.status:
        case StepStatus.COMPLETED:
            result = step.result or {}
            return StepOutcome(
                analysis_ids=tuple(UUID(analysis_id) for analysis_id in result.get("analyses", [])),
                missing=tuple((missing or {}).get(step.id, ())),
                has_results=bool(result.get("nodes") or result.get("edges")),
                unanswered=frozenset(map(UUID, result.get("unanswered", ()))),
            )
        case StepStatus.FAILED:
            return StepOutcome(error=step.error or "failed")
        case _:
            return None


def new_queries(rows: IterationRows, queries: Sequence[NewQuery]) -> Iterable[StepRow]:
    requests = {item.id: item for item in rows.requests}
    for query in queries:
        request = requests[query.step.answers[0]]
        step_input = {
            "objective": request.objective,
            "reasoning": request.reasoning,
            "search_hints": request.search_hints,
            "answers": [str(request_id) for request_id in query.step.answers],
            "round": query.step.round,
        }
        yield _new_step(rows, StepKind.QUERY, query.index, step_input)


def new_insights(rows: IterationRows, insights: Sequence[NewInsight]) -> Iterable[StepRow]:
    """Repeated insights, each with the input of the original and what has been answered since."""
    requests = {item.id: item for item in rows.requests}
    for insight in insights:
        planned = rows.step(insight.step.planned_id)
        assert planned is not None, f"the repeated insight {insight.step.planned_id} does not exist"
        step_input = planned.input | {
            "again_of": str(planned.id),
            "answered": [
                {"id": str(request_id), "objective": requests[request_id].objective}
                for request_id in insight.answered
            ],
            "round": insight.step.round,
        }
        yield _new_step(rows, StepKind.INSIGHT, insight.index, step_input)


def _new_step(
    rows: IterationRows, kind: StepKind, index: int, step_input: dict[str, Any]
) -> StepRow:
    return iterations.new_step(rows.iteration, kind, index, step_input, requested_at=rows.work.now)


@dataclass(frozen=True)
class Transition:
    """The changes of rows that follow from a tick, written in one round trip."""

    rows: IterationRows
    """The rows afterwards."""
    is_written: PendingResult[bool] | None = None
    """Whether the iteration was still as it was seen. None if there is nothing to write."""
    abandons: bool = False
    """Whether it abandons steps. Then the batch also writes off what they have reserved, so it must not be committed unless
    `is_written`.
    """


def prepare_tick(batch: Batch, rows: IterationRows, tick: Tick) -> Transition:
    """Decides, and adds to `batch` what writes the decision."""
    state = build_state(rows)
    next_state, commands = join(state, tick)
    if not commands and next_state.stage == state.stage:
        return Transition(rows)
    changes = [_step_changes(rows, command) for command in commands]
    step_changes = StepChanges(
        requested=[step for each in changes for step in each.requested],
        added=[step for each in changes for step in each.added],
        abandoned=[step for each in changes for step in each.abandoned],
    )
    moved = _moved(rows, next_state, commands)
    if moved.ended_at is not None:
        batch.add(attention.lock_agent(moved.agent_id))
    is_written = batch.add(iterations.move(rows.iteration, moved, step_changes))
    if step_changes.abandoned:
        batch.add(reservations.step_write_off(*[step.id for step in step_changes.abandoned]))
    if moved.ended_at is not None:
        batch.add(attention.record_end(moved.agent_id, moved.errors))
    failpoint(Failpoint.STATE_WRITTEN)
    changed_by_id = {step.id: step for step in step_changes.rows}
    steps_in_order = [changed_by_id.pop(step.id, step) for step in rows.steps]
    work = rows.work._replace(steps=[*steps_in_order, *changed_by_id.values()])
    return Transition(
        replace(rows, iteration=moved, work=work), is_written, bool(step_changes.abandoned)
    )


def _step_changes(rows: IterationRows, command: Command) -> StepChanges:
    now = rows.work.now
    match command:
        case RequestInsights(step_ids):
            requested = {"status": StepStatus.PENDING, "first_requested_at": now}
            return StepChanges(requested=_changed(rows, step_ids, requested))
        case RequestQueries(queries):
            return StepChanges(added=list(new_queries(rows, queries)))
        case RepeatInsights(insights):
            return StepChanges(added=list(new_insights(rows, insights)))
        case RequestAdvice(_, analysis_ids):
            step_input = {"analysis_ids": [str(analysis_id) for analysis_id in analysis_ids]}
            return StepChanges(added=[_new_step(rows, StepKind.ADVISE, 0, step_input)])
        case AbandonSteps(step_ids, error):
            abandoned = {"status": StepStatus.FAILED, "error": error, "ended_at": now}
            return StepChanges(abandoned=_changed(rows, step_ids, abandoned))
        case Complete() | Fail():
            return StepChanges()


def _changed(
    rows: IterationRows, step_ids: Collection[UUID], values: dict[str, Any]
) -> list[StepRow]:
    return [step._replace(**values) for step in rows.steps if step.id in step_ids]


def _moved(rows: IterationRows, next_state: State, commands: Iterable[Command]) -> IterationRow:
    """The iteration with its new stage, or its end."""
    now = rows.work.now
    moved = rows.iteration._replace(stage=next_state.stage, stage_changed_at=now)
    for command in commands:
        match command:
            case Complete(errors):
                status = IterationStatus.QUIET if rows.is_quiet else IterationStatus.COMPLETED
                return moved._replace(status=status, errors=list(errors), ended_at=now)
            case Fail(errors):
                return moved._replace(
                    status=IterationStatus.FAILED, errors=list(errors), ended_at=now
                )
    return moved
