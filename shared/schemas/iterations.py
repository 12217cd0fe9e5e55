"""Schemas of iterations: lists, progress, work."""

from datetime import datetime
from typing import Any, Literal
from uuid import UUID

from pydantic import Field

from shared.schemas.base import (
    CallTotals,
    FailedSending,
    IterationView,
    Json,
    RunningCall,
    StepView,
    View,
)


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


class Gained(View):
    """What was written first in an iteration, and is there still; `nodes` counts those that are no conclusions."""

    nodes: int = 0
    edges: int = 0
    analyses: int = 0
    advice: int = 0


class Spent(View):
    """`cost_usd` is what answers cost, `presumed_usd` the most that sendings can have cost of which no answer came."""

    calls: int = 0
    input_tokens: int = 0
    output_tokens: int = 0
    cost_usd: float = 0.0
    presumed_usd: float = 0.0
    unpriced: int = 0
    """Calls of the model whose cost is not known: unanswered, or the server told no tokens."""


class IterationSums(View):
    """`failed` counts the steps that did."""

    queries: int = 0
    insights: int = 0
    failed: int = 0
    gained: Gained = Gained()
    spent: Spent = Spent()


class Written(View):
    """A node or edge that a step wrote first; an edge's name is both its ends'."""

    kind: Literal["node", "edge"]
    id: UUID
    type: str
    name: str
    step_id: UUID | None


class PhaseRun(InteractionHead):
    spent: Spent


class IterationOutline(IterationView):
    plan: Json | None
    deadline_at: datetime
    steps: list[StepView]
    """Round by round, in the order of the loop."""
    runs: list[PhaseRun]
    """In the order in which they began."""
    sums: IterationSums
    written: list[Written]
    """The first of it; `sums` counts it all."""


class ToolUse(View):
    """A tool that the model asked for, and what it gave back. `arguments` is as the model wrote them."""

    name: str
    arguments: str
    has_ended: bool
    result: Json | None
    """None where it has not ended, or the ledger has expired."""
    spent: Spent | None
    """Of a tool that is paid for."""


class Saying(View):
    """One answer of the model, with the tools that it used."""

    is_kept: bool
    """False where the ledger has expired: what was said is not known any more."""
    text: str | None
    tool_uses: list[ToolUse]
    failures: list[FailedSending] = Field(default_factory=list)
    """Sendings of the same request that brought no usable answer, the oldest first."""
    spent: Spent
    started_at: datetime | None
    answered_at: datetime | None


class Superseded(View):
    """A property of which a page of the iteration tells otherwise than those before. Values are JSON."""

    kind: Literal["node", "edge"]
    id: UUID
    name: str
    property: str
    before: Any
    after: Any
