"""The join as a pure reducer: (state, tick) → (state, commands). Late and repeated ticks are ordinary cases."""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Final
from uuid import UUID

from shared.database import ids
from shared.enums import Stage, StepKind


@dataclass(frozen=True)
class Lack:
    """An investigation request; those with the same `objective` ask for the same."""

    request_id: UUID
    objective: str


@dataclass(frozen=True)
class Ended:
    """How a step ended. `error` is None where it completed.

    `lacks` is what an insight was not analyzed for want of; `found` whether a query wrote anything.
    """

    error: str | None = None
    analysis_ids: tuple[UUID, ...] = ()
    lacks: tuple[Lack, ...] = ()
    found: bool = True


@dataclass(frozen=True)
class Part:
    """A step, as the join sees it; `ended` is None while it is open.

    Those of the plan are of round 0. A query of a later round answers requests, which `answers` names; an insight of
    one is another of the plan's asked again, which `again_of` names.
    """

    step_id: UUID
    kind: StepKind
    ended: Ended | None = None
    round: int = 0
    answers: tuple[UUID, ...] = ()
    again_of: UUID | None = None

    @property
    def failed(self) -> bool:
        return self.ended is not None and self.ended.error is not None

    @property
    def planned_id(self) -> UUID:
        """The insight of the plan that it is, or is again."""
        return self.again_of or self.step_id


@dataclass(frozen=True)
class State:
    """`feedback_rounds` says how many rounds there may be after the plan's, `rests` that none may begin now."""

    stage: Stage
    parts: tuple[Part, ...]
    iteration_id: UUID
    feedback_rounds: int = 0
    rests: bool = False

    @property
    def round(self) -> int:
        """The one that runs, or ran last."""
        return max((part.round for part in self.parts), default=0)

    def of(self, kind: StepKind) -> tuple[Part, ...]:
        return tuple(part for part in self.parts if part.kind == kind)

    def with_parts(self, fresh: Iterable[Part]) -> "State":
        return replace(self, parts=(*self.parts, *fresh))


@dataclass(frozen=True)
class NewQuery:
    """A query to be made of the first of the requests that it answers; the others ask for the same."""

    part: Part
    index: int


@dataclass(frozen=True)
class NewInsight:
    """`part.again_of` asked again, when `answered` has been found."""

    part: Part
    index: int
    answered: tuple[UUID, ...]


QUERIES_A_ROUND: Final = 3


def queries_to_ask(state: State) -> tuple[NewQuery, ...]:
    """The queries of the next round; none where there may be none, or nothing is lacking that was not looked for."""
    if state.rests or state.round >= state.feedback_rounds:
        return ()
    first = len(state.of(StepKind.QUERY))
    return tuple(
        NewQuery(_query(state, first + number, request_ids), first + number)
        for number, request_ids in enumerate(_not_yet_asked(state)[:QUERIES_A_ROUND])
    )


def insights_to_ask_again(state: State) -> tuple[NewInsight, ...]:
    """Those insights that lacked what a query of this round has found, each of the plan's once."""
    found = {
        request_id
        for query in state.of(StepKind.QUERY)
        if query.round == state.round and query.ended is not None
        if query.ended.error is None and query.ended.found
        for request_id in query.answers
    }
    answered: dict[UUID, list[UUID]] = {}
    for insight, lack in _lacks(state):
        if lack.request_id in found:
            answered.setdefault(insight.planned_id, []).append(lack.request_id)
    first = len(state.of(StepKind.INSIGHT))
    return tuple(
        NewInsight(_insight(state, first + number, planned_id), first + number, tuple(request_ids))
        for number, (planned_id, request_ids) in enumerate(answered.items())
    )


def _lacks(state: State) -> Iterator[tuple[Part, Lack]]:
    for insight in state.of(StepKind.INSIGHT):
        if insight.ended is not None and insight.ended.error is None:
            yield from ((insight, lack) for lack in insight.ended.lacks)


def _not_yet_asked(state: State) -> list[tuple[UUID, ...]]:
    """Requests by what they ask for, in the order of the insights; what a query was made of before is left out."""
    by_objective: dict[str, list[UUID]] = {}
    for _, lack in _lacks(state):
        by_objective.setdefault(lack.objective.casefold(), []).append(lack.request_id)
    asked = {request_id for query in state.of(StepKind.QUERY) for request_id in query.answers}
    return [tuple(same) for same in by_objective.values() if asked.isdisjoint(same)]


def _query(state: State, index: int, request_ids: tuple[UUID, ...]) -> Part:
    step_id = ids.step_id(state.iteration_id, StepKind.QUERY, index)
    return Part(step_id, StepKind.QUERY, round=state.round + 1, answers=request_ids)


def _insight(state: State, index: int, planned_id: UUID) -> Part:
    step_id = ids.step_id(state.iteration_id, StepKind.INSIGHT, index)
    return Part(step_id, StepKind.INSIGHT, round=state.round, again_of=planned_id)


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
        again = insights_to_ask_again(state)
        state = replace(state.with_parts(each.part for each in again), stage=Stage.ANALYZING)
        return state, (RequestAgain(again),) if again else ()
    insights = tuple(part.step_id for part in state.of(StepKind.INSIGHT))
    if not insights:
        return _end(state, Complete(_errors(state)))
    return replace(state, stage=Stage.ANALYZING), (RequestInsights(insights),)


def _leave_analyzing(state: State) -> tuple[State, Sequence[Command]]:
    if queries := queries_to_ask(state):
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
