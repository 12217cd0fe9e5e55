"""The newest iteration as the agent's page shows it: stages, steps, durations. Pure."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Final
from uuid import UUID

from services.api.web.filters import plural
from shared.billing.budgets import SUSPENSION_WORDS
from shared.enums import (
    Entailment,
    IterationStatus,
    Phase,
    StepKind,
    StepStatus,
)
from shared.schemas.base import Json, RunningCall, StepResponse, Trouble
from shared.schemas.iterations import (
    NOTES_KEY,
    IterationProgress,
    PhaseRunResponse,
    plan_notes,
    query_notes,
)

_QUERY_PHASES: Final = {
    Phase.KNOWLEDGE_ACQUISITION: "acquisition",
    Phase.GRAPH_CONSTRUCTION: "construction",
}
"""The phases of a query. Steps of other kinds have one phase, whose state is that of the step."""
_MAX_MISSING: Final = 3
_LONG_CALL: Final = timedelta(seconds=10)


@dataclass(frozen=True)
class PhaseState:
    """A phase of the step. `state` is `done`, `running` or `waiting`."""

    phase: str
    name: str
    state: str
    answers: int = 0


@dataclass(frozen=True)
class PhaseBar:
    """Seconds since the iteration began; an `open` bar is still growing."""

    phase: str
    start: float
    length: float
    open: bool


@dataclass(frozen=True)
class StepCard:
    step: StepResponse
    name: str
    text: str
    word: str
    tone: str
    phases: tuple[PhaseState, ...] = ()
    bars: tuple[PhaseBar, ...] = ()
    notes: tuple[str, ...] = ()
    missing: tuple[str, ...] = ()
    analyses: tuple[UUID, ...] = ()
    advice: tuple[tuple[str, UUID], ...] = field(default=())
    """Pairs of action and node id."""
    calls: tuple[RunningCall, ...] = ()
    """Running calls that take long enough to show their duration."""

    @property
    def has_ended(self) -> bool:
        return self.step.status in (StepStatus.COMPLETED, StepStatus.FAILED)

    @property
    def is_waiting(self) -> bool:
        """Whether the step waits for a provider that is unavailable or limits requests."""
        return not self.has_ended and self.step.waiting_since is not None

    @property
    def is_tried_again(self) -> bool:
        return not self.has_ended and not self.is_waiting and self.step.error is not None


def build_step_card(step: StepResponse, progress: IterationProgress, end: datetime) -> StepCard:
    kind = StepKind(step.kind)
    runs = [run for run in progress.runs if run.step_id == step.id]
    word, tone = _state(step)
    result = step.result or {}
    return StepCard(
        step=step,
        name=_step_name(kind, step.index),
        text=_text(step, kind),
        word=word,
        tone=tone,
        phases=_phase_states(kind, step, runs),
        bars=_bars(step, runs, progress.iteration.started_at, end),
        notes=_notes(kind, step),
        missing=tuple(result.get("missing", []))[:_MAX_MISSING],
        analyses=tuple(UUID(item) for item in result.get("analyses", [])),
        advice=tuple((row["action"], UUID(row["id"])) for row in result.get("advice", [])),
        calls=tuple(
            call
            for call in progress.running_calls
            if call.step_id == step.id and progress.now - call.sent_at >= _LONG_CALL
        ),
    )


def _step_name(kind: StepKind, index: int) -> str:
    match kind:
        case StepKind.QUERY | StepKind.INSIGHT:
            return f"{kind.value.capitalize()} {index + 1}"
        case StepKind.OBSERVE:
            return "Plan"
        case _:
            return "Advice"


def _text(step: StepResponse, kind: StepKind) -> str:
    step_input = step.input
    match kind:
        case StepKind.QUERY:
            return str(step_input.get("objective", ""))
        case StepKind.INSIGHT:
            return str(step_input.get("observation", ""))
        case StepKind.OBSERVE:
            return "Reads the graph and plans what to research."
        case _:
            analyses = plural(len(step_input.get("analysis_ids", [])), "analysis", "analyses")
            return f"Compares {analyses} with the mission."


def _state(step: StepResponse) -> tuple[str, str]:
    match StepStatus(step.status):
        case StepStatus.PLANNED:
            return "waiting", ""
        case StepStatus.PENDING | StepStatus.RUNNING if step.waiting_since is not None:
            return "waiting for the provider", "warn"
        case StepStatus.PENDING:
            return ("waiting", "") if step.error is None else ("retrying", "warn")
        case StepStatus.RUNNING:
            return ("running", "busy") if step.error is None else ("retrying", "warn")
        case StepStatus.COMPLETED:
            return "done", "good"
        case StepStatus.FAILED if SUSPENSION_WORDS in (step.error or ""):
            return "stopped", "warn"
        case StepStatus.FAILED:
            return "failed", "bad"


def _phase_states(
    kind: StepKind, step: StepResponse, runs: Sequence[PhaseRunResponse]
) -> tuple[PhaseState, ...]:
    if kind != StepKind.QUERY:
        return ()
    by_phase = {run.phase: run for run in runs}
    return tuple(_phase_state(phase, by_phase.get(phase), step) for phase in _QUERY_PHASES)


def _phase_state(phase: Phase, run: PhaseRunResponse | None, step: StepResponse) -> PhaseState:
    if run is None:
        return PhaseState(phase, _QUERY_PHASES[phase], "waiting")
    if run.completed_at is not None:
        return PhaseState(phase, _QUERY_PHASES[phase], "done", run.answers)
    is_on = step.status == StepStatus.RUNNING
    return PhaseState(phase, _QUERY_PHASES[phase], "running" if is_on else "waiting", run.answers)


def _bars(
    step: StepResponse, runs: Sequence[PhaseRunResponse], began: datetime, end: datetime
) -> tuple[PhaseBar, ...]:
    """Returns a bar per phase. The time before the first phase belongs to the first bar."""
    if step.started_at is None:
        return ()
    until = step.ended_at or end
    starts = [step.started_at, *(run.created_at for run in runs[1:])]
    ends = [*(run.created_at for run in runs[1:]), until]
    phases = [run.phase for run in runs] or [""]
    last = len(phases) - 1
    return tuple(
        PhaseBar(
            phase,
            max((start - began).total_seconds(), 0.0),
            max((stop - start).total_seconds(), 0.0),
            open=place == last and step.ended_at is None,
        )
        for place, (phase, start, stop) in enumerate(zip(phases, starts, ends, strict=True))
    )


def _notes(kind: StepKind, step: StepResponse) -> tuple[str, ...]:
    """Returns the results of a completed step in words."""
    result = step.result or {}
    if step.status != StepStatus.COMPLETED:
        return ()
    notes = (*_checks_in_words(result.get("checks") or {}), *result.get(NOTES_KEY, ()))
    if kind == StepKind.QUERY:
        nodes, edges = result.get("nodes", 0), result.get("edges", 0)
        counts = f"{plural(nodes, 'node')}, {plural(edges, 'edge')}"
        return (counts, *query_notes(result), *notes)
    if kind == StepKind.INSIGHT and not result.get("analyses"):
        return ("Not enough data for an analysis.", *notes)
    if kind == StepKind.ADVISE and not result.get("advice"):
        return (result.get("reason") or "No advice in this iteration.", *notes)
    if kind == StepKind.OBSERVE:
        dropped = result.get("dropped_repeats")
        repeats = [f"{plural(dropped, 'repeated item')} left out."] if dropped else []
        return (*plan_notes(result), *repeats)
    return notes


def _checks_in_words(checks: Json) -> tuple[str, ...]:
    """What a model found in the evidence of the step."""
    if not checks:
        return ()
    found = [
        f"{checks[verdict]} {verdict.replace('_', ' ')}"
        for verdict in (*Entailment, "unchecked")
        if checks.get(verdict)
    ]
    reason = f" ({checks['stopped']})" if checks.get("stopped") else ""
    return (f"Quotes checked: {', '.join(found)}{reason}",)


MIN_SECONDS: Final = 0.001
"""The minimum length of a time axis."""
_SERVICE_NAMES: Final = {
    StepKind.OBSERVE: "Observer",
    StepKind.QUERY: "Researchers",
    StepKind.INSIGHT: "Analyzers",
    StepKind.ADVISE: "Adviser",
}


@dataclass(frozen=True)
class Stage:
    """`step_cards` is empty where there is no work, or where that is not known yet; `why_empty` says which."""

    kind: StepKind
    round: int
    step_cards: tuple[StepCard, ...]
    why_empty: str = ""

    @property
    def key(self) -> str:
        return f"{self.kind}-{self.round}"

    @property
    def service(self) -> str:
        return _SERVICE_NAMES[self.kind]

    @property
    def ended(self) -> int:
        return sum(step_card.has_ended for step_card in self.step_cards)

    @property
    def tone(self) -> str:
        """Returns the worst tone of running steps; once all have ended, the best, since one failed
        query does not fail the stage.
        """
        tones = [step_card.tone for step_card in self.step_cards]
        for tone in ("warn", "busy", ""):
            if tone in tones:
                return tone
        return "good" if "good" in tones else ("bad" if tones else "")


@dataclass(frozen=True)
class Gain:
    """What completed steps wrote into the graph."""

    nodes: int = 0
    edges: int = 0
    analyses: int = 0
    advice: int = 0


@dataclass(frozen=True)
class TroubledStep:
    name: str
    id: UUID | None
    """None where the step is no longer among those of the newest iteration."""


@dataclass(frozen=True)
class TroubleGroup:
    """Steps that the same error stops. Times are those of the step that came first."""

    iteration_number: int
    steps: tuple[TroubledStep, ...]
    error: str
    attempts: int
    retry_at: datetime | None
    waiting_since: datetime | None


def group_troubles(
    troubles: Sequence[Trouble], progress: IterationProgress | None
) -> list[TroubleGroup]:
    """Groups the steps that have the same error, so that it is shown once."""
    steps = () if progress is None else progress.steps
    ids = {(step.kind, step.index): step.id for step in steps}
    groups: dict[tuple[int, str, bool], list[Trouble]] = {}
    for each in troubles:
        key = each.iteration_number, each.error, each.waiting_since is not None
        groups.setdefault(key, []).append(each)
    return [
        TroubleGroup(
            iteration_number=number,
            steps=tuple(
                TroubledStep(
                    _step_name(StepKind(each.step), each.index), ids.get((each.step, each.index))
                )
                for each in group
            ),
            error=error,
            attempts=max(each.attempts for each in group),
            retry_at=min((each.retry_at for each in group if each.retry_at), default=None),
            waiting_since=min(
                (each.waiting_since for each in group if each.waiting_since), default=None
            ),
        )
        for (number, error, _), group in groups.items()
    ]


@dataclass(frozen=True)
class Flow:
    """`seconds` is the duration so far."""

    stages: tuple[Stage, ...]
    planned: tuple[int, int] | None
    """Numbers of queries and insights in the plan; None before there is one."""
    plan_id: UUID | None
    """The step that wrote the plan."""
    rounds: int
    gain: Gain
    seconds: float
    errors: tuple[str, ...]
    """Errors of the iteration that no step shows."""

    @property
    def step_cards(self) -> tuple[StepCard, ...]:
        """Cards of steps that have started, in the order of the loop."""
        return tuple(
            step_card for stage in self.stages for step_card in stage.step_cards if step_card.bars
        )


def build_flow(progress: IterationProgress) -> Flow:
    iteration = progress.iteration
    end = iteration.ended_at or progress.now
    steps = progress.steps
    rounds = max((_round(step) for step in steps), default=0)
    step_errors = {text for step in steps for text in (f"{step.kind}: {step.error}", step.error)}
    plan_id = _plan_id(progress)
    return Flow(
        stages=tuple(_stages(progress, rounds, end)),
        planned=(_planned(steps, StepKind.QUERY), _planned(steps, StepKind.INSIGHT))
        if plan_id is not None
        else None,
        plan_id=plan_id,
        rounds=rounds,
        gain=_gain(steps),
        seconds=max((end - iteration.started_at).total_seconds(), MIN_SECONDS),
        errors=tuple(error for error in iteration.errors if error not in step_errors),
    )


def _stages(progress: IterationProgress, rounds: int, end: datetime) -> Iterator[Stage]:
    """Yields the stages in the order of the loop.

    A further round has queries and insights again.
    """
    yield _stage(progress, StepKind.OBSERVE, 0, end)
    for number in range(rounds + 1):
        for kind in (StepKind.QUERY, StepKind.INSIGHT):
            stage = _stage(progress, kind, number, end)
            if stage.step_cards or not number:
                yield stage
    yield _stage(progress, StepKind.ADVISE, 0, end)


def _stage(progress: IterationProgress, kind: StepKind, number: int, end: datetime) -> Stage:
    step_cards = tuple(
        build_step_card(step, progress, end)
        for step in progress.steps
        if step.kind == kind and _round(step) == number
    )
    return Stage(kind, number, step_cards, "" if step_cards else _why_empty(progress, kind))


def _why_empty(progress: IterationProgress, kind: StepKind) -> str:
    is_planned = _plan_id(progress) is not None
    if progress.iteration.status == IterationStatus.RUNNING:
        if not is_planned:
            return "Waiting for the plan."
        if kind == StepKind.ADVISE:
            return "Waiting for the analyses."
    if not is_planned:
        return "There was no plan."
    if kind == StepKind.ADVISE:
        return "Not run: there are no new analyses."
    return "None planned."


def _plan_id(progress: IterationProgress) -> UUID | None:
    """Returns the step that wrote the plan; None before it is written."""
    is_plan = (StepKind.OBSERVE, StepStatus.COMPLETED)
    return next((step.id for step in progress.steps if (step.kind, step.status) == is_plan), None)


def _round(step: StepResponse) -> int:
    number: int = step.input.get("round", 0)
    return number


def _planned(steps: Sequence[StepResponse], kind: StepKind) -> int:
    return sum(step.kind == kind and not _round(step) for step in steps)


def _gain(steps: Sequence[StepResponse]) -> Gain:
    results = [step.result or {} for step in steps if step.status == StepStatus.COMPLETED]
    return Gain(
        nodes=sum(_number(result.get("nodes")) for result in results),
        edges=sum(_number(result.get("edges")) for result in results),
        analyses=sum(len(result.get("analyses", [])) for result in results),
        advice=sum(len(result.get("advice", [])) for result in results),
    )


def _number(value: object) -> int:
    return value if isinstance(value, int) else 0
