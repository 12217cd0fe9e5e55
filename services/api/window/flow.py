"""An iteration as it flows: stage after stage, and in each the lanes that run side by side. Pure."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Final

from services.api.window.lanes import Lane, lane_of
from shared.store.reading.progress_shapes import ProgressView
from shared.store.reading.shapes import StepView
from shared.store.words import IterationStatus, StepKind, StepStatus

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
