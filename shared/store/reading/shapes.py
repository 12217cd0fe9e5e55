"""What people get to see, as frozen models."""

from datetime import datetime
from typing import Annotated, Any, Literal
from uuid import UUID

from pydantic import BaseModel, ConfigDict, Field

Json = dict[str, Any]


class View(BaseModel):
    model_config = ConfigDict(frozen=True, from_attributes=True)


class IterationView(View):
    """One turn of an agent's loop."""

    id: UUID
    agent_id: UUID
    number: int
    why: str
    status: str
    stage: str
    errors: list[str]
    started_at: datetime
    ended_at: datetime | None


class Trouble(View):
    """A step that failed and is tried again."""

    iteration_number: int
    step: str
    index: int
    attempts: int
    error: str
    retry_at: datetime | None


class ConfigurationView(View):
    """The last time that an agent was to be made of its mission."""

    step_id: UUID
    status: str
    error: str | None
    """The last one; one that is pending or running with an error is being tried again."""
    attempts: int
    retry_at: datetime | None
    requested_at: datetime
    ended_at: datetime | None


class AgentView(View):
    id: UUID
    name: str
    mission: str
    status: str
    """`configuring` until it has its prompts and types, then `ready`; or `failed`, which `fault` explains."""
    fault: str | None
    interval_seconds: int
    active: bool
    models: dict[str, str]
    """Phase to model, for the phases that do not use the installation's."""
    next_run_at: datetime
    run_requested_at: datetime | None
    iterations_started: int
    created_at: datetime
    last_iteration: IterationView | None
    trouble: list[Trouble]


class AgentDetails(AgentView):
    prompts: dict[str, str]
    """Phase to system prompt; none until it is configured."""
    prompts_version: int
    configuration: ConfigurationView | None
    """None for an agent that is older than configurations."""


class StepView(View):
    id: UUID
    kind: str
    index: int
    status: str
    input: Json
    result: Json | None
    error: str | None
    """The last one; a step that is pending or running with an error is being tried again."""
    attempts: int
    resends: int
    retry_at: datetime | None
    started_at: datetime | None
    ended_at: datetime | None


class AnswerEvent(View):
    """What the model said. `message` is None where the ledger has expired."""

    type: Literal["answer"] = "answer"
    call_id: UUID
    message: Json | None
    finish_reason: str | None
    input_tokens: int | None
    output_tokens: int | None


class ToolResultEvent(View):
    """What a tool gave back. `result` is None where the ledger has expired."""

    type: Literal["tool_result"] = "tool_result"
    name: str
    result: Json | None


InteractionEvent = Annotated[AnswerEvent | ToolResultEvent, Field(discriminator="type")]


class InteractionView(View):
    """One run of a phase, as far as it has come."""

    id: UUID
    step_id: UUID | None
    phase: str
    model: str
    system_prompt: str
    request: Json
    events: list[InteractionEvent]
    created_at: datetime
    completed_at: datetime | None


class CallTotals(View):
    """Answered calls. `cost_usd` sums those whose price is known, `unpriced_calls` counts the model's others."""

    llm_calls: int = 0
    search_calls: int = 0
    unanswered_calls: int = 0
    input_tokens: int = 0
    output_tokens: int = 0
    cost_usd: float = 0.0
    unpriced_calls: int = 0


class CallGroup(View):
    kind: str
    phase: str
    model: str | None
    answered: int
    unanswered: int
    input_tokens: int
    output_tokens: int
    cost_usd: float
    unpriced: int


class CallsView(View):
    totals: CallTotals
    groups: list[CallGroup]


class IterationDetails(IterationView):
    agent_name: str
    plan: Json | None
    deadline_at: datetime
    steps: list[StepView]
    """In the order of the loop: observe, queries, insights, advise."""
    interactions: list[InteractionView]
    """In the order of their steps and phases."""
    calls: CallTotals


class InboxItemView(View):
    id: UUID
    agent_id: UUID
    agent_name: str
    node_id: UUID
    action: str
    title: str
    summary: str
    content: str
    read_at: datetime | None
    created_at: datetime


class LetterStepView(View):
    """The step that a dead letter is about."""

    id: UUID
    kind: str
    index: int
    status: str
    iteration_id: UUID
    iteration_number: int
    iteration_status: str
    agent_id: UUID
    agent_name: str


class DeadLetterView(View):
    """A message that could not be handled; of a step that failed for good, the message that asked for it."""

    id: UUID
    actor: str
    subject: str
    code: str
    error: str
    attempts: int
    created_at: datetime
    kept_at: datetime
    """When it failed last."""
    retry_requested_at: datetime | None
    """None where no retry is on its way."""
    refusal: str | None
    """Why it cannot be retried now, and what to do instead."""
    step: LetterStepView | None


class DeadLetterDetails(DeadLetterView):
    model_config = ConfigDict(ser_json_bytes="base64", val_json_bytes="base64")

    payload: bytes
    """In JSON: base64, with the letters that stand in addresses."""
    text: str | None
    """The payload, where it is text."""


class CountsView(View):
    """`nodes` counts them all, analyses and advice too."""

    nodes: int
    edges: int
    analyses: int
    advice: int


class NodeTypeView(View):
    name: str
    description: str
    nodes: int


class EdgeTypeView(View):
    name: str
    description: str
    edges: int


class NodeView(View):
    id: UUID
    type: str
    name: str
    properties: Json
    created_at: datetime
    updated_at: datetime


class EdgeView(View):
    id: UUID
    type: str
    source_id: UUID
    source_name: str
    target_id: UUID
    target_name: str
    properties: Json
    created_at: datetime
    updated_at: datetime


class GraphView(View):
    """The newest nodes and edges, and how many there are in all."""

    counts: CountsView
    node_types: list[NodeTypeView]
    edge_types: list[EdgeTypeView]
    nodes: list[NodeView]
    edges: list[EdgeView]


class CitationView(View):
    """A node or edge that a conclusion stands on. `name` is None where it does not exist (any more)."""

    kind: Literal["node", "edge"]
    id: UUID
    type: str | None
    name: str | None


class ConclusionView(View):
    """An analysis or advice; `word` is `observation` or `pattern`, or `BUY`, `SELL`, `HOLD`."""

    id: UUID
    word: str
    name: str
    summary: str
    content: str
    confidence: float | None
    generated_at: str
    iteration_id: UUID | None
    citations: list[CitationView]


class AboutView(View):
    """The installation: its version, and who answers outside. Addresses are None for the makers' own."""

    version: str
    model: str
    model_server: str | None
    model_key_set: bool
    search_server: str | None
    search_key_set: bool
