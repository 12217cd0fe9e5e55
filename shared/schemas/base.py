"""Base classes of schemas, pages, and the schemas that several groups use."""

from dataclasses import dataclass
from datetime import date, datetime
from typing import Annotated, Any, Final, Generic, Literal, TypeVar
from uuid import UUID

from pydantic import BaseModel, ConfigDict, Field

Json = dict[str, Any]


class View(BaseModel):
    model_config = ConfigDict(frozen=True, from_attributes=True)


class CommitmentView(View):
    """All of it is None in what was concluded before it was asked for, and in notices."""

    confidence: float | None = None
    """0 to 1."""
    horizon: date | None = None
    """The last day on which it holds."""
    invalidation: str | None = None
    """What would prove it wrong."""
    expired: bool = False
    """Its horizon has passed."""


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
    """A step that failed and is tried again, or waits for a provider."""

    iteration_number: int
    step: str
    index: int
    attempts: int
    error: str
    retry_at: datetime | None
    waiting_since: datetime | None = None
    """Since when it waits for a provider that is away or limits requests, which uses up no attempts."""


class RunningCall(View):
    """A call that was sent and is not answered yet."""

    step_id: UUID
    phase: str
    kind: str
    model: str | None
    sent_at: datetime
    received_chars: int | None
    """Characters of the answer so far; None before the first, or where the server does not stream."""
    progressed_at: datetime | None
    """When that number was written."""


class ConfigurationView(View):
    """The last time that an agent was to be made of its mission."""

    step_id: UUID
    status: str
    error: str | None
    """The last one; one that is pending or running with an error is being tried again."""
    attempts: int
    retry_at: datetime | None
    waiting_since: datetime | None = None
    """As in `Trouble`."""
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
    feedback_rounds: int = 0
    """How often an iteration may look for what its Analyzers lacked, and ask them again."""
    active: bool
    models: dict[str, str]
    """Phase to model, for the phases that do not use the installation's."""
    next_run_at: datetime
    run_requested_at: datetime | None
    resting_until: datetime | None
    """No iteration is started before, because a budget is used up."""
    iterations_started: int
    created_at: datetime
    updated_at: datetime
    """When what people decide of it was changed last; its work changes nothing here."""
    budget_usd_per_day: float | None = None
    """What it may spend in a day (UTC); None is no cap."""
    budget_calls_per_day: int | None = None
    last_iteration: IterationView | None
    trouble: list[Trouble]


class AgentDetails(AgentView):
    prompts: dict[str, str]
    """Phase to system prompt; none until it is configured."""
    prompts_version: int
    configuration: ConfigurationView | None
    """None for an agent that is older than configurations."""
    running_calls: list[RunningCall] = Field(default_factory=list)
    """The longest under way first."""


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
    waiting_since: datetime | None = None
    """As in `Trouble`."""
    started_at: datetime | None
    ended_at: datetime | None


class ToolCall(View):
    """A tool that the model asked for. `arguments` is as it wrote them: JSON, or what should have been."""

    id: str | None
    name: str
    arguments: str


class AnswerEvent(View):
    """What the model said: text, tool calls, or both. `message` is None where the ledger has expired."""

    type: Literal["answer"] = "answer"
    call_id: UUID
    text: str | None = None
    tool_calls: list[ToolCall] = Field(default_factory=list)
    message: Json | None
    finish_reason: str | None
    input_tokens: int | None
    output_tokens: int | None


class ToolResultEvent(View):
    """What a tool gave back. `result` is None where the ledger has expired."""

    type: Literal["tool_result"] = "tool_result"
    tool_call_id: str | None = None
    name: str
    result: Json | None


class RepairEvent(View):
    """What code corrected of an answer, so that it could be used."""

    type: Literal["repair"] = "repair"
    subject: str
    """What was corrected: `configuration`, `types`, `plan`, or the name of a tool."""
    repairs: list[str]
    """What was done, a sentence each."""


InteractionEvent = Annotated[
    AnswerEvent | ToolResultEvent | RepairEvent, Field(discriminator="type")
]


class FailedSending(View):
    """One sending of a call that brought no usable answer. `said` is the beginning of what the server sent."""

    at: datetime
    kind: str
    """`unusable`, `no_answer`, `cut_off` or `timeout`."""
    error: str
    said: str
    input_tokens: int | None = None
    output_tokens: int | None = None
    cost_usd: float | None = None
    """None where the server did not say what it took: then the most that it can cost counts as spent."""


class InteractionView(View):
    """One run of a phase, as far as it has come."""

    id: UUID
    step_id: UUID | None
    phase: str
    model: str
    system_prompt: str
    request: Json
    events: list[InteractionEvent]
    failures: list[FailedSending] = Field(default_factory=list)
    """Of its calls to the model, the oldest first."""
    created_at: datetime
    completed_at: datetime | None


class CallTotals(View):
    """Answered calls. `cost_usd` sums those whose cost is known, `unpriced_calls` counts the model's others."""

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
    """In the order of the phases, and of the steps within a phase."""
    calls: CallTotals
    running_calls: list[RunningCall] = Field(default_factory=list)
    """The longest under way first."""


class InboxItemView(CommitmentView):
    """Advice, or a notice about the agent itself, which has neither node nor action."""

    id: UUID
    kind: str
    agent_id: UUID
    agent_name: str
    node_id: UUID | None
    action: str | None
    title: str
    summary: str
    content: str
    read_at: datetime | None
    created_at: datetime


class CountsView(View):
    """`nodes` counts them all, analyses and advice too. `has_more`: of some type there are more than were counted."""

    nodes: int
    edges: int
    analyses: int
    advice: int
    has_more: bool = False


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
    unsupported_since: datetime | None = None
    """Since when every page that speaks of it is retracted."""


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
    unsupported_since: datetime | None = None


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


class ConclusionView(CommitmentView):
    """An analysis or advice; `word` is `observation` or `pattern`, or `BUY`, `SELL`, `HOLD`."""

    id: UUID
    word: str
    name: str
    summary: str
    content: str
    generated_at: str
    iteration_id: UUID | None
    citations: list[CitationView]
    doubted_since: datetime | None = None
    """Since when a page is retracted that it rests on."""


class AboutView(View):
    """The installation, as it is told to whoever asks."""

    version: str


class OutsideView(View):
    """Who answers outside. Addresses are None for the makers' own."""

    model: str
    model_server: str | None
    model_key_set: bool
    search_server: str | None
    search_key_set: bool
    embedding_model: str | None = None
    """None where nothing is searched by meaning."""


PAGE_SIZE: Final = 50
LARGEST_PAGE: Final = 200

T = TypeVar("T")


class Page(View, Generic[T]):
    """Some of a list in its order. `next`, given as `cursor`, asks for what follows; None is the end of the list."""

    items: list[T]
    next: str | None


@dataclass(frozen=True)
class Wanted:
    """Which page: the first, or the one after `cursor`."""

    limit: int = PAGE_SIZE
    cursor: str | None = None
