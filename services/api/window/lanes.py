"""One step as a lane: what it is about, how it stands, and its bars in time. Pure."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Final
from uuid import UUID

from services.api.window.formats import plural
from shared.store.reading.progress_shapes import PhaseRunView, ProgressView
from shared.store.reading.shapes import RunningCall, StepView
from shared.store.words import Phase, StepKind, StepStatus

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
class Bar:
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
    bars: tuple[Bar, ...] = ()
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
) -> tuple[Bar, ...]:
    """A bar for each phase; what a step did before its first phase is its first bar's."""
    if step.started_at is None:
        return ()
    until = step.ended_at or end
    starts = [step.started_at, *(run.created_at for run in runs[1:])]
    ends = [*(run.created_at for run in runs[1:]), until]
    phases = [run.phase for run in runs] or [""]
    last = len(phases) - 1
    return tuple(
        Bar(
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
