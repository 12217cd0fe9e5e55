"""The join, pure: (state, tick) → (state, commands). No clock, no I/O; late and doubled ticks are ordinary cases."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from uuid import UUID

from services.aggregator import rounds
from services.aggregator.state import Ended, NewInsight, NewQuery, Part, State
from shared.store import ids
from shared.store.words import Stage, StepKind

_STAGE_WAITS_FOR = {
    Stage.OBSERVING: StepKind.OBSERVE,
    Stage.RESEARCHING: StepKind.QUERY,
    Stage.ANALYZING: StepKind.INSIGHT,
    Stage.ADVISING: StepKind.ADVISE,
}


@dataclass(frozen=True)
class PlanMade:
    """The Observer's step has ended well, and these steps are its plan."""

    observe_id: UUID
    query_ids: tuple[UUID, ...]
    insight_ids: tuple[UUID, ...]


@dataclass(frozen=True)
class StepEnded:
    step_id: UUID
    ended: Ended


@dataclass(frozen=True)
class DeadlinePassed:
    """Nothing has progressed in the iteration for so long."""

    seconds: float


Tick = PlanMade | StepEnded | DeadlinePassed


@dataclass(frozen=True)
class RequestInsights:
    step_ids: tuple[UUID, ...]


@dataclass(frozen=True)
class RequestQueries:
    """A further round: Researchers look for what Analyzers lacked."""

    queries: tuple[NewQuery, ...]


@dataclass(frozen=True)
class RequestAgain:
    """The Analyzers that lacked what this round has found are asked again."""

    insights: tuple[NewInsight, ...]


@dataclass(frozen=True)
class RequestAdvice:
    step_id: UUID
    analysis_ids: tuple[UUID, ...]


@dataclass(frozen=True)
class AbandonSteps:
    """These steps are failed where they stand; whoever works on them is refused from now on."""

    step_ids: tuple[UUID, ...]
    error: str


@dataclass(frozen=True)
class Complete:
    errors: tuple[str, ...]


@dataclass(frozen=True)
class Fail:
    errors: tuple[str, ...]


Command = (
    RequestInsights | RequestQueries | RequestAgain | RequestAdvice | AbandonSteps | Complete | Fail
)


def join(state: State, tick: Tick) -> tuple[State, Sequence[Command]]:
    """What `tick` changes, and what is to be done about it. An ended iteration never changes again."""
    if state.stage is Stage.ENDED:
        return state, ()
    match tick:
        case DeadlinePassed(seconds):
            return _abandon(state, seconds)
        case PlanMade(observe_id, query_ids, insight_ids):
            known = {part.step_id for part in state.parts}
            planned = [
                *(Part(step_id, StepKind.QUERY) for step_id in query_ids),
                *(Part(step_id, StepKind.INSIGHT) for step_id in insight_ids),
            ]
            fresh = tuple(part for part in planned if part.step_id not in known)
            state = replace(state, parts=state.parts + fresh)
            return _advance(_with_ended(state, observe_id, Ended()))
        case StepEnded(step_id, ended):
            return _advance(_with_ended(state, step_id, ended))


def _with_ended(state: State, step_id: UUID, ended: Ended) -> State:
    """The first end of a step counts; a second word on it changes nothing."""
    parts = tuple(
        replace(part, ended=ended) if part.step_id == step_id and part.ended is None else part
        for part in state.parts
    )
    return replace(state, parts=parts)


def _abandon(state: State, seconds: float) -> tuple[State, Sequence[Command]]:
    error = (
        f"no progress for {seconds:g} s while {state.stage}: no step ended and no call was answered"
        " (VIGIL_ITERATION_DEADLINE_SECONDS sets this limit)"
    )
    left = tuple(part.step_id for part in state.parts if part.ended is None)
    for step_id in left:
        state = _with_ended(state, step_id, Ended(error))
    return _end(state, AbandonSteps(left, error), Fail((error, *_errors(state, but=error))))


def _advance(state: State) -> tuple[State, Sequence[Command]]:
    """Moves on as far as the ended parts allow: a stage with nothing to wait for is passed at once."""
    commands: list[Command] = []
    while state.stage is not Stage.ENDED:
        parts = state.of(_STAGE_WAITS_FOR[state.stage])
        if any(part.ended is None for part in parts):
            break
        state, following = _leave(state, parts)
        commands.extend(following)
    return state, tuple(commands)


def _leave(state: State, parts: tuple[Part, ...]) -> tuple[State, Sequence[Command]]:
    """Every part of the stage has ended. The plan's alone can fail it: later rounds only add to what there is."""
    planned = [part for part in parts if part.round == 0]
    if planned and all(part.failed for part in planned):
        return _end(state, Fail(_errors(state)))
    match state.stage:
        case Stage.OBSERVING:
            return replace(state, stage=Stage.RESEARCHING), ()
        case Stage.RESEARCHING:
            return _leave_researching(state)
        case Stage.ANALYZING:
            return _leave_analyzing(state)
        case _:
            return _end(state, Complete(_errors(state)))


def _leave_researching(state: State) -> tuple[State, Sequence[Command]]:
    if state.round:
        again = rounds.insights_to_ask_again(state)
        state = replace(state.with_parts(each.part for each in again), stage=Stage.ANALYZING)
        return state, (RequestAgain(again),) if again else ()
    insights = tuple(part.step_id for part in state.of(StepKind.INSIGHT))
    if not insights:
        return _end(state, Complete(_errors(state)))
    return replace(state, stage=Stage.ANALYZING), (RequestInsights(insights),)


def _leave_analyzing(state: State) -> tuple[State, Sequence[Command]]:
    if queries := rounds.queries_to_ask(state):
        state = state.with_parts(each.part for each in queries)
        return replace(state, stage=Stage.RESEARCHING), (RequestQueries(queries),)
    analyses = tuple(
        analysis_id
        for part in state.of(StepKind.INSIGHT)
        if part.ended is not None
        for analysis_id in part.ended.analysis_ids
    )
    if not analyses:
        return _end(state, Complete(_errors(state)))
    advise = Part(ids.step_id(state.iteration_id, StepKind.ADVISE, 0), StepKind.ADVISE)
    state = replace(state.with_parts([advise]), stage=Stage.ADVISING)
    return state, (RequestAdvice(advise.step_id, analyses),)


def _end(state: State, *commands: Command) -> tuple[State, Sequence[Command]]:
    return replace(state, stage=Stage.ENDED), commands


def _errors(state: State, *, but: str | None = None) -> tuple[str, ...]:
    return tuple(
        f"{part.kind}: {part.ended.error}"
        for part in state.parts
        if part.ended is not None and part.ended.error not in (None, but)
    )
