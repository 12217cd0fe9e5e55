"""An iteration for people to read: each step with its place in time, its phase runs, and what it wrote."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Final

from shared.store.reading.iteration_shapes import IterationOutline, PhaseRun, Spent, Written
from shared.store.reading.shapes import StepView
from shared.store.words import StepKind

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
