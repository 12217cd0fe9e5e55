"""The newest iteration as the agent's page shows it: stages, steps, durations. Pure."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Final, NamedTuple
from uuid import UUID

from services.api.resources.iterations.outcomes import step_name
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
    IterationProgress,
    PhaseRunResponse,
    plan_notes,
    query_notes,
    run_notes,
)
from shared.wording import plural

_QUERY_PHASES: Final = {
    Phase.KNOWLEDGE_ACQUISITION: "acquisition",
    Phase.GRAPH_CONSTRUCTION: "construction",
}
"""The phases of a query. Steps of other kinds have one phase, whose state is that of the step."""
_MAX_MISSING: Final = 3
_LONG_CALL: Final = timedelta(seconds=10)


class PhaseState(NamedTuple):
    """A phase of the step. `state` is `done`, `running` or `waiting`."""

    phase: str
    name: str
    state: str
    answers: int = 0


class PhaseBar(NamedTuple):
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
    has_ended: bool = False
    is_waiting: bool = False
    """Whether the step waits for a provider that is unavailable or limits requests."""
    is_tried_again: bool = False


def build_step_card(step: StepResponse, progress: IterationProgress, end: datetime) -> StepCard:
    kind = StepKind(step.kind)
    runs = [run for run in progress.runs if run.step_id == step.id]
    word, tone = _state(step)
    result = step.result or {}
    has_ended = step.status in (StepStatus.COMPLETED, StepStatus.FAILED)
    is_waiting = not has_ended and step.waiting_since is not None
    return StepCard(
        step=step,
        name=step_name(kind, step.index),
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
        has_ended=has_ended,
        is_waiting=is_waiting,
        is_tried_again=not has_ended and not is_waiting and step.error is not None,
    )


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
    states = []
    for phase, name in _QUERY_PHASES.items():
        run = by_phase.get(phase)
        is_on = run is not None and step.status == StepStatus.RUNNING
        is_done = run is not None and run.completed_at is not None
        state = "done" if is_done else "running" if is_on else "waiting"
        states.append(PhaseState(phase, name, state, 0 if run is None else run.answers))
    return tuple(states)


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
    notes = (*_readings_in_words(result), *run_notes(result))
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


def _readings_in_words(result: Json) -> tuple[str, ...]:
    """Counts of verdicts on a sample of new evidence and on conclusions before they were stored."""
    notes: list[str] = []
    if checks := result.get("checks"):
        found = [
            f"{checks[verdict]} {verdict.replace('_', ' ')}"
            for verdict in (*Entailment, "unread", "unchecked")
            if checks.get(verdict)
        ]
        reason = f" ({checks['stopped']})" if checks.get("stopped") else ""
        notes.append(f"Claims read: {', '.join(found) or 'none'}{reason}")
    if titles := result.get("left_out"):
        listed = ", ".join(f"“{title}”" for title in titles)
        notes.append(f"{plural(len(titles), 'conclusion')} left out after reading: {listed}")
    if unread := result.get("not_read"):
        notes.append(f"{plural(unread['count'], 'conclusion')} not read: {unread['why']}")
    return tuple(notes)


MIN_SECONDS: Final = 0.001
"""The minimum length of a time axis."""


@dataclass(frozen=True)
class Stage:
    """`step_cards` is empty where there is no work, or where that is not known yet; `why_empty` says which."""

    kind: StepKind
    round: int
    step_cards: tuple[StepCard, ...]
    why_empty: str = ""

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


class Gain(NamedTuple):
    """What completed steps wrote into the graph."""

    nodes: int = 0
    edges: int = 0
    analyses: int = 0
    advice: int = 0


class TroubledStep(NamedTuple):
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
                TroubledStep(step_name(each.step, each.index), ids.get((each.step, each.index)))
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

    @property
    def conclusion_ids(self) -> list[UUID]:
        """Analyses and advice on the cards."""
        cards = [step_card for stage in self.stages for step_card in stage.step_cards]
        analyses = [analysis for step_card in cards for analysis in step_card.analyses]
        return [*analyses, *(advice for step_card in cards for _, advice in step_card.advice)]


def build_flow(progress: IterationProgress) -> Flow:
    iteration, steps = progress.iteration, progress.steps
    end = iteration.ended_at or progress.now
    step_errors = {text for step in steps for text in (f"{step.kind}: {step.error}", step.error)}
    plan = (StepKind.OBSERVE, StepStatus.COMPLETED)
    plan_id = next((step.id for step in steps if (step.kind, step.status) == plan), None)
    queries, insights = (
        sum(step.kind == kind and not _round(step) for step in steps)
        for kind in (StepKind.QUERY, StepKind.INSIGHT)
    )
    return Flow(
        stages=tuple(_stages(progress, end, is_planned=plan_id is not None)),
        planned=None if plan_id is None else (queries, insights),
        plan_id=plan_id,
        rounds=max(map(_round, steps), default=0),
        gain=_gain(steps),
        seconds=max((end - iteration.started_at).total_seconds(), MIN_SECONDS),
        errors=tuple(error for error in iteration.errors if error not in step_errors),
    )


def _stages(progress: IterationProgress, end: datetime, *, is_planned: bool) -> Iterator[Stage]:
    """Yields the stages in the order of the loop. A further round has queries and insights again."""
    rounds = range(max(map(_round, progress.steps), default=0) + 1)
    inner = [(kind, number) for number in rounds for kind in (StepKind.QUERY, StepKind.INSIGHT)]
    for kind, number in ((StepKind.OBSERVE, 0), *inner, (StepKind.ADVISE, 0)):
        step_cards = tuple(
            build_step_card(step, progress, end)
            for step in progress.steps
            if step.kind == kind and _round(step) == number
        )
        if step_cards:
            yield Stage(kind, number, step_cards)
        elif not number:
            is_running = progress.iteration.status == IterationStatus.RUNNING
            yield Stage(kind, 0, (), _why_empty(kind, is_running=is_running, is_planned=is_planned))


def _why_empty(kind: StepKind, *, is_running: bool, is_planned: bool) -> str:
    if not is_planned:
        return "Waiting for the plan." if is_running else "There was no plan."
    if kind != StepKind.ADVISE:
        return "None planned."
    return "Waiting for the analyses." if is_running else "Not run: there are no new analyses."


def _round(step: StepResponse) -> int:
    number: int = step.input.get("round", 0)
    return number


def _gain(steps: Sequence[StepResponse]) -> Gain:
    results = [step.result or {} for step in steps if step.status == StepStatus.COMPLETED]
    counts = [[result.get(name) for result in results] for name in ("nodes", "edges")]
    nodes, edges = (sum(each for each in found if isinstance(each, int)) for found in counts)
    return Gain(
        nodes,
        edges,
        sum(len(result.get("analyses", [])) for result in results),
        sum(len(result.get("advice", [])) for result in results),
    )
