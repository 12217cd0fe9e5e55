"""Loads the state of the join under the iteration's row lock, and writes its commands in the same transaction."""

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
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
from shared.database.statements import BoundQuery, Executor, PendingResult, RoundTrip, Row
from shared.database.tables import InvestigationRequest
from shared.enums import IterationStatus, Stage, StepKind, StepStatus
from shared.failpoints import Failpoint, failpoint
from shared.workflow import investigations, iterations, steps
from shared.workflow.iterations import IterationRow, IterationSteps, StepRow

MissingByStep = Mapping[UUID, Sequence[MissingData]]
"""By the insight step that lacks it."""
_StepsQuery = BoundQuery[list[StepRow]]


@dataclass(frozen=True)
class IterationRows:
    """An iteration, locked, with its steps and investigation requests."""

    iteration: IterationRow
    work: IterationSteps
    requests: Sequence[InvestigationRequest] = ()

    @property
    def steps(self) -> Sequence[StepRow]:
        return self.work.steps

    def step(self, step_id: UUID) -> StepRow | None:
        return next((row for row in self.steps if row.id == step_id), None)

    def planned(self, kind: StepKind) -> tuple[UUID, ...]:
        """Steps of the plan, without those of later rounds."""
        return tuple(row.id for row in self.steps if row.kind == kind and not steps.step_round(row))


def ask_locked(trip: RoundTrip, iteration_id: UUID) -> PendingResult[IterationRows | None]:
    """Locks the iteration and loads its rows without requests; None if it was deleted."""
    found = iterations.ask_locked(trip, iteration_id)
    return trip.then(lambda: None if found.value is None else IterationRows(*found.value))


async def with_requests(executor: Executor, rows: IterationRows) -> IterationRows:
    """The rows with the investigation requests, if the join needs them."""
    # Most agents have no feedback rounds.
    if not rows.work.feedback_rounds:
        return rows
    requests = await investigations.list_requests(rows.iteration.id).answer(executor)
    return replace(rows, requests=requests)


async def look(database: Database, iteration_id: UUID) -> IterationRows | None:
    """Loads the rows without a lock and without requests; None if the iteration was deleted."""
    found = await iterations.look(database, iteration_id)
    return None if found is None else IterationRows(*found)


def changes_nothing(rows: IterationRows, tick: Tick) -> bool:
    """Whether the join has nothing to do: usually, because other steps of the stage have not ended.

    Rows that were read without a lock suffice. If a step has ended since, its own event leads to the next look.
    """
    state = build_state(rows)
    next_state, commands = join(state, tick)
    return not commands and next_state.stage == state.stage


def build_state(rows: IterationRows) -> State:
    missing = _missing_by_step(rows.requests)
    return State(
        Stage(rows.iteration.stage),
        tuple(_step_state(row, missing) for row in rows.steps),
        rows.iteration.id,
        rows.work.feedback_rounds,
        rows.work.is_suspended,
    )


def _missing_by_step(requests: Iterable[InvestigationRequest]) -> MissingByStep:
    missing: dict[UUID, list[MissingData]] = defaultdict(list)
    for request in requests:
        if request.step_id is not None:
            missing[request.step_id].append(MissingData(request.id, request.objective))
    return missing


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
            )
        case StepStatus.FAILED:
            return StepOutcome(error=step.error or "failed")
        case _:
            return None


def add_queries(rows: IterationRows, queries: Sequence[NewQuery]) -> list[_StepsQuery]:
    requests = {item.id: item for item in rows.requests}
    new_steps = []
    for query in queries:
        request = requests[query.step.answers[0]]
        step_input = {
            "objective": request.objective,
            "reasoning": request.reasoning,
            "search_hints": request.search_hints,
            "answers": [str(request_id) for request_id in query.step.answers],
            "round": query.step.round,
        }
        new_steps.append(
            iterations.add_step(
                rows.iteration, StepKind.QUERY, query.index, step_input, rows.work.now
            )
        )
    return new_steps


def add_insights(rows: IterationRows, insights: Sequence[NewInsight]) -> list[_StepsQuery]:
    """Inserts repeated insights, each with the input of the original and what has been answered since."""
    requests = {item.id: item for item in rows.requests}
    new_steps = []
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
        new_steps.append(
            iterations.add_step(
                rows.iteration, StepKind.INSIGHT, insight.index, step_input, rows.work.now
            )
        )
    return new_steps


@dataclass(frozen=True)
class Application:
    """A tick that is applied in a round trip. The results are there when it has been made."""

    rows: PendingResult[IterationRows]
    """The rows afterwards."""
    written_off: Sequence[PendingResult[Sequence[Row]]]
    """Reservations of abandoned steps: `reservations.spend` books them in the same transaction."""
    is_end: bool
    """Whether the iteration has ended then."""


def ask_tick(trip: RoundTrip, rows: IterationRows, tick: Tick) -> Application:
    """Adds to `trip` the writes that apply the tick to the locked `rows`."""
    state = build_state(rows)
    next_state, commands = join(state, tick)
    changed_rows = [
        trip.ask(query) for command in commands for query in _step_queries(rows, command)
    ]
    written_off = [
        trip.ask(reservations.step_write_off(step_id))
        for command in commands
        if isinstance(command, AbandonSteps)
        for step_id in command.step_ids
    ]
    iteration = None
    if next_state.stage != state.stage:
        iteration = trip.ask(_stage_query(rows, next_state, commands))

    failpoint(Failpoint.STATE_WRITTEN)

    def rows_afterwards() -> IterationRows:
        return replace(
            rows,
            iteration=rows.iteration if iteration is None else iteration.value,
            work=_replace_steps(rows, [row for changed in changed_rows for row in changed.value]),
        )

    return Application(trip.then(rows_afterwards), written_off, next_state.stage == Stage.ENDED)


def _step_queries(rows: IterationRows, command: Command) -> Sequence[_StepsQuery]:
    """The queries that execute a command; each returns the steps that it inserts or changes."""
    match command:
        case RequestInsights(step_ids):
            return [iterations.request_steps(step_ids)]
        case RequestQueries(queries):
            return add_queries(rows, queries)
        case RepeatInsights(insights):
            return add_insights(rows, insights)
        case RequestAdvice(_, analysis_ids):
            step_input = {"analysis_ids": [str(analysis_id) for analysis_id in analysis_ids]}
            return [
                iterations.add_step(rows.iteration, StepKind.ADVISE, 0, step_input, rows.work.now)
            ]
        case AbandonSteps(step_ids, error):
            return [iterations.abandon_steps(step_ids, error)]
        case Complete() | Fail():
            return ()


def _stage_query(
    rows: IterationRows, next_state: State, commands: Iterable[Command]
) -> BoundQuery[IterationRow]:
    """Writes the iteration's new stage, once and after its steps: its end is later than theirs."""
    for command in commands:
        match command:
            case Complete(errors):
                status = IterationStatus.COMPLETED
            case Fail(errors):
                status = IterationStatus.FAILED
            case _:
                continue
        return iterations.end_iteration(rows.iteration, status, errors, rows.work.now)
    return iterations.set_stage(rows.iteration, next_state.stage, rows.work.now)


def _replace_steps(
    rows: IterationRows, changed_rows: Sequence[StepRow]
) -> iterations.IterationSteps:
    changed_by_id = {row.id: row for row in changed_rows}
    rows_in_order = [changed_by_id.pop(row.id, row) for row in rows.steps]
    return rows.work._replace(steps=[*rows_in_order, *changed_by_id.values()])
