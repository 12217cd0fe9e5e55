"""Iterations as pages show them: stages, steps, durations, differences. Pure."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Final
from uuid import UUID

from services.api.auth.dependencies import AgentAccess
from services.api.queries import iterations as iteration_queries
from services.api.web.filters import plural
from shared.enums import ADVICE_TYPE, ANALYSIS_TYPE, IterationStatus, Phase, StepKind, StepStatus
from shared.schemas.base import RunningCall, StepView
from shared.schemas.iterations import (
    IterationOutline,
    PhaseRun,
    PhaseRunView,
    ProgressView,
    Spent,
    Superseded,
    Written,
)

_LEGS: Final = {
    Phase.KNOWLEDGE_ACQUISITION: "acquisition",
    Phase.GRAPH_CONSTRUCTION: "construction",
}
"""Of a query; steps of the other kinds have one phase, so that their own state says it."""
_MOST_MISSING: Final = 3
_LONG_CALL: Final = timedelta(seconds=10)


@dataclass(frozen=True)
class Leg:
    """A phase of the step. `state` is `done`, `running` or `waiting`."""

    phase: str
    name: str
    state: str
    answers: int = 0


@dataclass(frozen=True)
class LaneBar:
    """Seconds since the iteration began; one that is `open` goes on."""

    phase: str
    start: float
    length: float
    open: bool


@dataclass(frozen=True)
class Lane:
    step: StepView
    name: str
    text: str
    word: str
    tone: str
    legs: tuple[Leg, ...] = ()
    bars: tuple[LaneBar, ...] = ()
    notes: tuple[str, ...] = ()
    missing: tuple[str, ...] = ()
    analyses: tuple[UUID, ...] = ()
    advice: tuple[tuple[str, UUID], ...] = field(default=())
    """Each with its action."""
    calls: tuple[RunningCall, ...] = ()
    """Under way for so long that it is shown how far they have come."""

    @property
    def has_ended(self) -> bool:
        return self.step.status in (StepStatus.COMPLETED, StepStatus.FAILED)

    @property
    def is_waiting(self) -> bool:
        """For a provider that is away or limits requests."""
        return not self.has_ended and self.step.waiting_since is not None

    @property
    def is_tried_again(self) -> bool:
        return not self.has_ended and not self.is_waiting and self.step.error is not None


def lane_of(step: StepView, progress: ProgressView, end: datetime) -> Lane:
    kind = StepKind(step.kind)
    runs = [run for run in progress.runs if run.step_id == step.id]
    word, tone = _state(step)
    result = step.result or {}
    return Lane(
        step=step,
        name=_name(step, kind),
        text=_text(step, kind),
        word=word,
        tone=tone,
        legs=_legs(kind, step, runs),
        bars=_bars(step, runs, progress.iteration.started_at, end),
        notes=_notes(kind, step),
        missing=tuple(result.get("missing", []))[:_MOST_MISSING],
        analyses=tuple(UUID(each) for each in result.get("analyses", [])),
        advice=tuple((each["action"], UUID(each["id"])) for each in result.get("advice", [])),
        calls=tuple(
            call
            for call in progress.running_calls
            if call.step_id == step.id and progress.now - call.sent_at >= _LONG_CALL
        ),
    )


def _name(step: StepView, kind: StepKind) -> str:
    match kind:
        case StepKind.QUERY | StepKind.INSIGHT:
            return f"{kind.value.capitalize()} {step.index + 1}"
        case StepKind.OBSERVE:
            return "Plan"
        case _:
            return "Advice"


def _text(step: StepView, kind: StepKind) -> str:
    given = step.input
    match kind:
        case StepKind.QUERY:
            return str(given.get("objective", ""))
        case StepKind.INSIGHT:
            return str(given.get("observation", ""))
        case StepKind.OBSERVE:
            return "Reads what the agent knows, and plans what to look for."
        case _:
            analyses = plural(len(given.get("analysis_ids", [])), "analysis", "analyses")
            return f"Weighs {analyses} against the mission."


def _state(step: StepView) -> tuple[str, str]:
    match StepStatus(step.status):
        case StepStatus.PLANNED:
            return "waiting", ""
        case StepStatus.PENDING | StepStatus.RUNNING if step.waiting_since is not None:
            return "provider away", "warn"
        case StepStatus.PENDING:
            return ("waiting", "") if step.error is None else ("retrying", "warn")
        case StepStatus.RUNNING:
            return ("running", "busy") if step.error is None else ("running again", "warn")
        case StepStatus.COMPLETED:
            return "done", "good"
        case StepStatus.FAILED:
            return "failed", "bad"


def _legs(kind: StepKind, step: StepView, runs: Sequence[PhaseRunView]) -> tuple[Leg, ...]:
    if kind != StepKind.QUERY:
        return ()
    by_phase = {run.phase: run for run in runs}
    return tuple(_leg(phase, by_phase.get(phase), step) for phase in _LEGS)


def _leg(phase: Phase, run: PhaseRunView | None, step: StepView) -> Leg:
    if run is None:
        return Leg(phase, _LEGS[phase], "waiting")
    if run.completed_at is not None:
        return Leg(phase, _LEGS[phase], "done", run.answers)
    is_on = step.status == StepStatus.RUNNING
    return Leg(phase, _LEGS[phase], "running" if is_on else "waiting", run.answers)


def _bars(
    step: StepView, runs: Sequence[PhaseRunView], began: datetime, end: datetime
) -> tuple[LaneBar, ...]:
    """A bar for each phase; what a step did before its first phase is its first bar's."""
    if step.started_at is None:
        return ()
    until = step.ended_at or end
    starts = [step.started_at, *(run.created_at for run in runs[1:])]
    ends = [*(run.created_at for run in runs[1:]), until]
    phases = [run.phase for run in runs] or [""]
    last = len(phases) - 1
    return tuple(
        LaneBar(
            phase,
            max((start - began).total_seconds(), 0.0),
            max((stop - start).total_seconds(), 0.0),
            open=place == last and step.ended_at is None,
        )
        for place, (phase, start, stop) in enumerate(zip(phases, starts, ends, strict=True))
    )


def _notes(kind: StepKind, step: StepView) -> tuple[str, ...]:
    """What came of a step that ended well."""
    result = step.result or {}
    if step.status != StepStatus.COMPLETED:
        return ()
    if kind == StepKind.QUERY:
        nodes, edges = result.get("nodes", 0), result.get("edges", 0)
        return (f"{plural(nodes, 'node')}, {plural(edges, 'edge')} written",)
    if kind == StepKind.INSIGHT and not result.get("analyses"):
        return ("Not enough data for an analysis.",)
    if kind == StepKind.ADVISE and not result.get("advice"):
        return (result.get("reason") or "Advises nothing, as mostly.",)
    if kind == StepKind.OBSERVE and result.get("dropped_repeats"):
        return (f"{plural(result['dropped_repeats'], 'repetition')} left out.",)
    return ()


SHORTEST_SECONDS: Final = 0.001
"""Of a time axis: one of no length has no places on it."""
_ACTORS: Final = {
    StepKind.OBSERVE: "Observer",
    StepKind.QUERY: "Researchers",
    StepKind.INSIGHT: "Analyzers",
    StepKind.ADVISE: "Adviser",
}


@dataclass(frozen=True)
class Stage:
    """`lanes` is empty where nobody had anything to do, or it is not yet known whether; `why_empty` says which."""

    kind: StepKind
    round: int
    lanes: tuple[Lane, ...]
    why_empty: str = ""

    @property
    def key(self) -> str:
        return f"{self.kind}-{self.round}"

    @property
    def actor(self) -> str:
        return _ACTORS[self.kind]

    @property
    def ended(self) -> int:
        return sum(lane.has_ended for lane in self.lanes)

    @property
    def tone(self) -> str:
        """The worst that runs; of what has ended, the best: one failed query fails nothing."""
        tones = [lane.tone for lane in self.lanes]
        for tone in ("warn", "busy", ""):
            if tone in tones:
                return tone
        return "good" if "good" in tones else ("bad" if tones else "")


@dataclass(frozen=True)
class Gain:
    """What the steps that have ended well wrote into the graph."""

    nodes: int = 0
    edges: int = 0
    analyses: int = 0
    advice: int = 0


@dataclass(frozen=True)
class Flow:
    """`seconds` is how long it ran, or has run."""

    stages: tuple[Stage, ...]
    planned: tuple[int, int] | None
    """Queries and insights of the plan; None before there is one."""
    rounds: int
    gain: Gain
    seconds: float
    errors: tuple[str, ...]
    """Those of the iteration that no lane shows."""

    @property
    def lanes(self) -> tuple[Lane, ...]:
        """Those that have begun, in the order of the loop."""
        return tuple(lane for stage in self.stages for lane in stage.lanes if lane.bars)


def flow_of(progress: ProgressView) -> Flow:
    iteration = progress.iteration
    end = iteration.ended_at or progress.now
    steps = progress.steps
    rounds = max((_round(step) for step in steps), default=0)
    told = {text for step in steps for text in (f"{step.kind}: {step.error}", step.error)}
    is_planned = _observed(progress, StepStatus.COMPLETED)
    return Flow(
        stages=tuple(_stages(progress, rounds, end)),
        planned=(_planned(steps, StepKind.QUERY), _planned(steps, StepKind.INSIGHT))
        if is_planned
        else None,
        rounds=rounds,
        gain=_gain(steps),
        seconds=max((end - iteration.started_at).total_seconds(), SHORTEST_SECONDS),
        errors=tuple(error for error in iteration.errors if error not in told),
    )


def _stages(progress: ProgressView, rounds: int, end: datetime) -> Iterator[Stage]:
    """In the order of the loop: a further round is research and analysis again."""
    yield _stage(progress, StepKind.OBSERVE, 0, end)
    for number in range(rounds + 1):
        for kind in (StepKind.QUERY, StepKind.INSIGHT):
            stage = _stage(progress, kind, number, end)
            if stage.lanes or not number:
                yield stage
    yield _stage(progress, StepKind.ADVISE, 0, end)


def _stage(progress: ProgressView, kind: StepKind, number: int, end: datetime) -> Stage:
    lanes = tuple(
        lane_of(step, progress, end)
        for step in progress.steps
        if step.kind == kind and _round(step) == number
    )
    return Stage(kind, number, lanes, "" if lanes else _why_empty(progress, kind))


def _why_empty(progress: ProgressView, kind: StepKind) -> str:
    is_planned = _observed(progress, StepStatus.COMPLETED)
    if progress.iteration.status == IterationStatus.RUNNING:
        if not is_planned:
            return "Waits for the plan."
        if kind == StepKind.ADVISE:
            return "Waits for the analyses."
    if not is_planned:
        return "There was no plan."
    if kind == StepKind.ADVISE:
        return "Was not asked: there was no analysis to advise on."
    return "The plan has none."


def _observed(progress: ProgressView, status: StepStatus) -> bool:
    return any(step.kind == StepKind.OBSERVE and step.status == status for step in progress.steps)


def _round(step: StepView) -> int:
    number: int = step.input.get("round", 0)
    return number


def _planned(steps: Sequence[StepView], kind: StepKind) -> int:
    return sum(step.kind == kind and not _round(step) for step in steps)


def _gain(steps: Sequence[StepView]) -> Gain:
    results = [step.result or {} for step in steps if step.status == StepStatus.COMPLETED]
    return Gain(
        nodes=sum(_number(result.get("nodes")) for result in results),
        edges=sum(_number(result.get("edges")) for result in results),
        analyses=sum(len(result.get("analyses", [])) for result in results),
        advice=sum(len(result.get("advice", [])) for result in results),
    )


def _number(value: object) -> int:
    return value if isinstance(value, int) else 0


NAMES: Final = {
    StepKind.OBSERVE: "Observer",
    StepKind.QUERY: "Query",
    StepKind.INSIGHT: "Insight",
    StepKind.ADVISE: "Adviser",
}
_MANY: Final = (StepKind.QUERY, StepKind.INSIGHT)
_SEEN_PERCENT: Final = 0.6
"""Of the timeline's width: what took no time is seen still."""


@dataclass(frozen=True)
class Bar:
    """Where a step lies in its iteration, in percent of the time that this took so far."""

    left: float
    width: float


@dataclass(frozen=True)
class StepTold:
    step: StepView
    name: str
    """`Query 2`; of some kinds there is only one."""
    round: int
    bar: Bar | None
    """None of what has not begun."""
    took: timedelta | None
    runs: Sequence[PhaseRun]
    spent: Spent
    written: Sequence[Written]


def lasted(iteration: IterationOutline, now: datetime) -> timedelta:
    return (iteration.ended_at or now) - iteration.started_at


def told(iteration: IterationOutline, now: datetime) -> list[StepTold]:
    """`now` is the end of what has not ended."""
    return [_told(iteration, step, now) for step in iteration.steps]


def _told(iteration: IterationOutline, step: StepView, now: datetime) -> StepTold:
    kind = StepKind(step.kind)
    runs = [run for run in iteration.runs if run.step_id == step.id]
    ended = step.ended_at or iteration.ended_at or now
    return StepTold(
        step=step,
        name=f"{NAMES[kind]} {step.index + 1}" if kind in _MANY else NAMES[kind],
        round=step.input.get("round", 0),
        bar=_bar(iteration, step.started_at, ended, now),
        took=None if step.started_at is None else ended - step.started_at,
        runs=runs,
        spent=summed([run.spent for run in runs]),
        written=[each for each in iteration.written if each.step_id == step.id],
    )


def _bar(
    iteration: IterationOutline, begun: datetime | None, ended: datetime, now: datetime
) -> Bar | None:
    whole = lasted(iteration, now).total_seconds()
    if begun is None or whole <= 0:
        return None
    width = max((ended - begun).total_seconds() / whole * 100, _SEEN_PERCENT)
    left = (begun - iteration.started_at).total_seconds() / whole * 100
    return Bar(left=round(max(0, min(left, 100 - width)), 2), width=round(min(width, 100), 2))


def summed(parts: Sequence[Spent]) -> Spent:
    return Spent(
        **{name: sum(getattr(each, name) for each in parts) for name in Spent.model_fields}
    )


MOST_SUPERSEDED: Final = 20
"""Of nodes and of edges each."""
_CONCLUSIONS: Final = (ANALYSIS_TYPE, ADVICE_TYPE)


@dataclass(frozen=True)
class Side:
    iteration: IterationOutline
    conclusions: Sequence[Written]
    nodes: Sequence[Written]
    edges: Sequence[Written]
    superseded: Sequence[Superseded]


async def compared(access: AgentAccess, iteration: IterationOutline) -> Side:
    written = iteration.written
    nodes = [each for each in written if each.kind == "node"]
    return Side(
        iteration=iteration,
        conclusions=[each for each in nodes if each.type in _CONCLUSIONS],
        nodes=[each for each in nodes if each.type not in _CONCLUSIONS],
        edges=[each for each in written if each.kind == "edge"],
        superseded=await iteration_queries.in_iteration(
            access.session,
            access.owner_id,
            access.agent.id,
            iteration.id,
            most=MOST_SUPERSEDED,
        ),
    )
