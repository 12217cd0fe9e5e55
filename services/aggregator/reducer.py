"""The join as a pure reducer: (state, tick) → (state, commands). Late and repeated ticks are ordinary cases."""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Final
from uuid import UUID

from shared.database import ids
from shared.enums import Stage, StepKind


@dataclass(frozen=True)
class MissingData:
    """Data that an insight lacked: an investigation request. Equal objectives ask for the same data."""

    request_id: UUID
    objective: str


@dataclass(frozen=True)
class StepOutcome:
    """How a step ended. `error` is None if it completed.

    `missing`: data that an insight lacked. `has_results`: whether a query wrote anything. `unanswered`: requests of a
    query that what it wrote does not answer.
    """

    error: str | None = None
    analysis_ids: tuple[UUID, ...] = ()
    missing: tuple[MissingData, ...] = ()
    has_results: bool = True
    unanswered: frozenset[UUID] = frozenset()


@dataclass(frozen=True)
class StepState:
    """The state of a step in the join; `ended` is None while it is open.

    Steps of the plan have round 0. A query of a later round answers the requests `answers`; an insight of a later round
    repeats the planned insight `repeats`.
    """

    step_id: UUID
    kind: StepKind
    ended: StepOutcome | None = None
    round: int = 0
    answers: tuple[UUID, ...] = ()
    repeats: UUID | None = None

    @property
    def failed(self) -> bool:
        return self.ended is not None and self.ended.error is not None

    @property
    def planned_id(self) -> UUID:
        """The planned insight that it is or repeats."""
        return self.repeats or self.step_id


@dataclass(frozen=True)
class State:
    """`feedback_rounds` is the maximum number of rounds after the plan's; with `is_suspended`, none may start now."""

    stage: Stage
    steps: tuple[StepState, ...]
    iteration_id: UUID
    feedback_rounds: int = 0
    is_suspended: bool = False

    @property
    def round(self) -> int:
        """The current or last round."""
        return max((step.round for step in self.steps), default=0)

    def of(self, kind: StepKind) -> tuple[StepState, ...]:
        return tuple(step for step in self.steps if step.kind == kind)

    def with_steps(self, new_steps: Iterable[StepState]) -> "State":
        return replace(self, steps=(*self.steps, *new_steps))


@dataclass(frozen=True)
class NewQuery:
    """A query for the first of the requests that it answers; the others have the same objective."""

    step: StepState
    index: int


@dataclass(frozen=True)
class NewInsight:
    """A repetition of the insight `step.repeats`, after the requests `answered` were answered."""

    step: StepState
    index: int
    answered: tuple[UUID, ...]


MAX_QUERIES_PER_ROUND: Final = 3


def next_queries(state: State) -> tuple[NewQuery, ...]:
    """The queries of the next round; none if no round is allowed, or no new data is missing."""
    if state.is_suspended or state.round >= state.feedback_rounds:
        return ()
    first = len(state.of(StepKind.QUERY))
    return tuple(
        NewQuery(_query_state(state, first + number, request_ids), first + number)
        for number, request_ids in enumerate(_unanswered_requests(state)[:MAX_QUERIES_PER_ROUND])
    )


def repeated_insights(state: State) -> tuple[NewInsight, ...]:
    """Repetitions of the insights that lacked what this round's queries have answered, one per planned insight."""
    answered_ids = {
        request_id
        for query in state.of(StepKind.QUERY)
        if query.round == state.round and query.ended is not None
        if query.ended.error is None and query.ended.has_results
        for request_id in query.answers
        if request_id not in query.ended.unanswered
    }
    request_ids_by_insight: dict[UUID, list[UUID]] = {}
    for insight, missing in _missing_data(state):
        if missing.request_id in answered_ids:
            request_ids_by_insight.setdefault(insight.planned_id, []).append(missing.request_id)
    first = len(state.of(StepKind.INSIGHT))
    return tuple(
        NewInsight(
            _insight_state(state, first + number, planned_id), first + number, tuple(request_ids)
        )
        for number, (planned_id, request_ids) in enumerate(request_ids_by_insight.items())
    )


def _missing_data(state: State) -> Iterator[tuple[StepState, MissingData]]:
    for insight in state.of(StepKind.INSIGHT):
        if insight.ended is not None and insight.ended.error is None:
            yield from ((insight, missing) for missing in insight.ended.missing)


def _unanswered_requests(state: State) -> list[tuple[UUID, ...]]:
    """Requests grouped by objective, in the order of the insights, without those that a query was made for."""
    by_objective: dict[str, list[UUID]] = {}
    for _, missing in _missing_data(state):
        by_objective.setdefault(missing.objective.casefold(), []).append(missing.request_id)
    requested_ids = {
        request_id for query in state.of(StepKind.QUERY) for request_id in query.answers
    }
    return [
        tuple(request_ids)
        for request_ids in by_objective.values()
        if requested_ids.isdisjoint(request_ids)
    ]


def _query_state(state: State, index: int, request_ids: tuple[UUID, ...]) -> StepState:
    step_id = ids.step_id(state.iteration_id, StepKind.QUERY, index)
    return StepState(step_id, StepKind.QUERY, round=state.round + 1, answers=request_ids)


def _insight_state(state: State, index: int, planned_id: UUID) -> StepState:
    step_id = ids.step_id(state.iteration_id, StepKind.INSIGHT, index)
    return StepState(step_id, StepKind.INSIGHT, round=state.round, repeats=planned_id)


_STEP_KIND_OF_STAGE = {
    Stage.OBSERVING: StepKind.OBSERVE,
    Stage.RESEARCHING: StepKind.QUERY,
    Stage.ANALYZING: StepKind.INSIGHT,
    Stage.ADVISING: StepKind.ADVISE,
}


@dataclass(frozen=True)
class PlanCompleted:
    """The observe step has completed, and these steps are its plan."""

    observe_id: UUID
    query_ids: tuple[UUID, ...]
    insight_ids: tuple[UUID, ...]


@dataclass(frozen=True)
class StepEnded:
    step_id: UUID
    ended: StepOutcome


@dataclass(frozen=True)
class DeadlinePassed:
    """There was no progress for `seconds`."""

    seconds: float


Tick = PlanCompleted | StepEnded | DeadlinePassed


@dataclass(frozen=True)
class RequestInsights:
    step_ids: tuple[UUID, ...]


@dataclass(frozen=True)
class RequestQueries:
    """Starts another round: Researchers search for data that Analyzers lacked."""

    queries: tuple[NewQuery, ...]


@dataclass(frozen=True)
class RepeatInsights:
    """Repeats the insights that lacked what this round has answered."""

    insights: tuple[NewInsight, ...]


@dataclass(frozen=True)
class RequestAdvice:
    step_id: UUID
    analysis_ids: tuple[UUID, ...]


@dataclass(frozen=True)
class AbandonSteps:
    """Fails these steps and revokes their leases."""

    step_ids: tuple[UUID, ...]
    error: str


@dataclass(frozen=True)
class Complete:
    errors: tuple[str, ...]


@dataclass(frozen=True)
class Fail:
    errors: tuple[str, ...]


Command = (
    RequestInsights
    | RequestQueries
    | RepeatInsights
    | RequestAdvice
    | AbandonSteps
    | Complete
    | Fail
)


def join(state: State, tick: Tick) -> tuple[State, Sequence[Command]]:
    """Applies `tick`; returns the new state and the commands to execute. An ended iteration never changes."""
    if state.stage is Stage.ENDED:
        return state, ()
    match tick:
        case DeadlinePassed(seconds):
            return _abandon(state, seconds)
        case PlanCompleted(observe_id, query_ids, insight_ids):
            existing_ids = {step.step_id for step in state.steps}
            planned = [
                *(StepState(step_id, StepKind.QUERY) for step_id in query_ids),
                *(StepState(step_id, StepKind.INSIGHT) for step_id in insight_ids),
            ]
            new_steps = tuple(step for step in planned if step.step_id not in existing_ids)
            state = replace(state, steps=state.steps + new_steps)
            return _advance(_with_ended(state, observe_id, StepOutcome()))
        case StepEnded(step_id, outcome):
            return _advance(_with_ended(state, step_id, outcome))


def _with_ended(state: State, step_id: UUID, outcome: StepOutcome) -> State:
    """Only the first end of a step counts."""
    steps = tuple(
        replace(step, ended=outcome) if step.step_id == step_id and step.ended is None else step
        for step in state.steps
    )
    return replace(state, steps=steps)


def _abandon(state: State, seconds: float) -> tuple[State, Sequence[Command]]:
    error = (
        f"no progress for {seconds:g} s while {state.stage}: no step ended and no call was answered"
        " (VIGIL_ITERATION_DEADLINE_SECONDS sets this limit)"
    )
    open_ids = tuple(step.step_id for step in state.steps if step.ended is None)
    for step_id in open_ids:
        state = _with_ended(state, step_id, StepOutcome(error))
    return _end_iteration(
        state, AbandonSteps(open_ids, error), Fail((error, *_errors(state, excluded=error)))
    )


def _advance(state: State) -> tuple[State, Sequence[Command]]:
    """Advances through the stages as far as possible: a stage without open steps is passed at once."""
    commands: list[Command] = []
    while state.stage is not Stage.ENDED:
        steps = state.of(_STEP_KIND_OF_STAGE[state.stage])
        if any(step.ended is None for step in steps):
            break
        state, new_commands = _leave_stage(state, steps)
        commands.extend(new_commands)
    return state, tuple(commands)


def _leave_stage(state: State, steps: tuple[StepState, ...]) -> tuple[State, Sequence[Command]]:
    """All steps of the stage have ended. Only steps of the plan can fail it: later rounds only add results."""
    planned = [step for step in steps if step.round == 0]
    if planned and all(step.failed for step in planned):
        return _end_iteration(state, Fail(_errors(state)))
    match state.stage:
        case Stage.OBSERVING:
            return replace(state, stage=Stage.RESEARCHING), ()
        case Stage.RESEARCHING:
            return _leave_researching(state)
        case Stage.ANALYZING:
            return _leave_analyzing(state)
        case _:
            return _end_iteration(state, Complete(_errors(state)))


def _leave_researching(state: State) -> tuple[State, Sequence[Command]]:
    if state.round:
        repetitions = repeated_insights(state)
        state = replace(
            state.with_steps(insight.step for insight in repetitions), stage=Stage.ANALYZING
        )
        return state, (RepeatInsights(repetitions),) if repetitions else ()
    planned_ids = tuple(step.step_id for step in state.of(StepKind.INSIGHT))
    if not planned_ids:
        return _end_iteration(state, Complete(_errors(state)))
    return replace(state, stage=Stage.ANALYZING), (RequestInsights(planned_ids),)


def _leave_analyzing(state: State) -> tuple[State, Sequence[Command]]:
    if queries := next_queries(state):
        state = state.with_steps(query.step for query in queries)
        return replace(state, stage=Stage.RESEARCHING), (RequestQueries(queries),)
    analyses = tuple(
        analysis_id
        for step in state.of(StepKind.INSIGHT)
        if step.ended is not None
        for analysis_id in step.ended.analysis_ids
    )
    if not analyses:
        return _end_iteration(state, Complete(_errors(state)))
    advise = StepState(ids.step_id(state.iteration_id, StepKind.ADVISE, 0), StepKind.ADVISE)
    state = replace(state.with_steps([advise]), stage=Stage.ADVISING)
    return state, (RequestAdvice(advise.step_id, analyses),)


def _end_iteration(state: State, *commands: Command) -> tuple[State, Sequence[Command]]:
    return replace(state, stage=Stage.ENDED), commands


def _errors(state: State, *, excluded: str | None = None) -> tuple[str, ...]:
    return tuple(
        f"{step.kind}: {step.ended.error}"
        for step in state.steps
        if step.ended is not None and step.ended.error not in (None, excluded)
    )
