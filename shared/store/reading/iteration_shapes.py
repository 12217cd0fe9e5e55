"""What people get to see of an iteration without what was said in it, as frozen models."""

from datetime import datetime
from typing import Any, Literal
from uuid import UUID

from pydantic import Field

from shared.store.reading.shapes import FailedSending, IterationView, Json, StepView, View
from shared.store.reading.work_shapes import InteractionHead


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
