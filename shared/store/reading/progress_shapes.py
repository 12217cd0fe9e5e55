"""What people get to see of work while it goes on, as frozen models."""

from datetime import datetime
from uuid import UUID

from pydantic import Field

from shared.store.reading.shapes import CallTotals, IterationView, RunningCall, StepView, View


class PhaseRunView(View):
    """One run of a phase, without anything that was said in it."""

    step_id: UUID | None
    phase: str
    model: str
    answers: int
    """How often the model has answered in it."""
    created_at: datetime
    completed_at: datetime | None


class ProgressView(View):
    """An iteration as far as it has come."""

    iteration: IterationView
    now: datetime
    """By the database's clock, which all of its times are of."""
    steps: list[StepView]
    """In the order of the loop."""
    runs: list[PhaseRunView]
    """As they began."""
    calls: CallTotals
    running_calls: list[RunningCall] = Field(default_factory=list)
    """The longest under way first."""
