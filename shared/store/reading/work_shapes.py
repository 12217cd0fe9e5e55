"""What people get to see of the work itself, as frozen models: phase runs one by one, and the ledger."""

from datetime import datetime
from uuid import UUID

from pydantic import Field

from shared.store.reading.shapes import FailedSending, Json, View


class InteractionHead(View):
    """One run of a phase, without what was said in it."""

    id: UUID
    agent_id: UUID
    iteration_id: UUID | None
    step_id: UUID | None
    phase: str
    model: str
    event_count: int
    created_at: datetime
    completed_at: datetime | None


class InteractionDetails(InteractionHead):
    """With what the model was told first; its events are a list of their own."""

    system_prompt: str
    request: Json


class CallView(View):
    """One call of the model or the search service. `request` is a summary for people."""

    id: UUID
    iteration_id: UUID | None
    step_id: UUID
    interaction_id: UUID
    kind: str
    phase: str
    model: str | None
    request: Json
    input_tokens: int | None
    output_tokens: int | None
    cost_usd: float | None
    """None where the price is not known, or the call is unanswered."""
    failures: list[FailedSending] = Field(default_factory=list)
    """Sendings that brought no usable answer, the oldest first."""
    started_at: datetime
    answered_at: datetime | None


class Marked(View):
    marked: int
    """How many items of the inbox were unread before."""
