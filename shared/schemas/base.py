"""The base class of schemas, pages, and the schemas that several resource groups use."""

from dataclasses import dataclass
from datetime import date, datetime
from typing import Annotated, Any, Final, Generic, Literal, TypeVar
from uuid import UUID

from pydantic import BaseModel, ConfigDict, Field

from shared.enums import InboxOutcome, PositionState
from shared.errors import USED_UP
from shared.wording import reading_in_words

Json = dict[str, Any]


class ResponseModel(BaseModel):
    # Each process builds the models that it uses, when it first does: a command of many needs few.
    model_config = ConfigDict(frozen=True, from_attributes=True, defer_build=True)


class SubjectResponse(ResponseModel):
    """A node that advice is about, by its present id."""

    id: UUID
    name: str


class PositionResponse(ResponseModel):
    """The state of a piece of advice. An agent has at most one that is standing on a subject."""

    state: PositionState
    subject: list[SubjectResponse]
    confidence: float | None
    """When it was given or last confirmed, 0 to 1, as is `horizon`."""
    horizon: date | None
    confirmed_at: datetime | None
    """When it was last confirmed; None: never."""
    confirmations: int
    ended_at: datetime | None
    """When it was replaced or withdrawn. None also for one that a merge of nodes put behind a newer one."""
    replaced_by: str | None
    """The name of the advice that replaces it."""
    replaced_by_id: UUID | None
    reason: str | None
    """What changed, or why it was withdrawn or last confirmed; without citations."""

    @property
    def sentence(self) -> str:
        """`Withdrawn on 2026-11-30: The order was cancelled.`"""
        on = f" on {self.ended_at:%Y-%m-%d}" if self.ended_at else ""
        because = f": {self.reason}" if self.reason else "."
        match self.state:
            case PositionState.REPLACED:
                return f"Replaced{on} by “{self.replaced_by}”{because}"
            case PositionState.WITHDRAWN:
                return f"Withdrawn{on}{because}"
            case PositionState.DOUBTED:
                return "In doubt."
            case PositionState.EXPIRED:
                return "Its horizon has passed."
        if self.confirmed_at is None:
            return "Standing."
        times = f", {self.confirmations} times" if self.confirmations > 1 else ""
        return f"Standing, confirmed on {self.confirmed_at:%Y-%m-%d}{times}{because}"


class ForecastTerms(ResponseModel):
    """Forecast terms of a conclusion. All are None in notices and in conclusions without forecast terms."""

    confidence: float | None = None
    """0 to 1."""
    horizon: date | None = None
    """The last day on which the conclusion holds."""
    invalidation: str | None = None
    """What would prove it wrong."""
    expired: bool = False
    """Whether its horizon has passed."""
    position: PositionResponse | None = None
    """Of advice: whether it stands. None for advice of an earlier version that is not entered yet."""
    change: str | None = None
    """What changed since the advice that this one replaces, or why it holds beside advice that it contradicts."""


class IterationSummary(ResponseModel):
    """One cycle of an agent."""

    id: UUID
    agent_id: UUID
    number: int
    why: str
    status: str
    stage: str
    errors: list[str]
    started_at: datetime
    ended_at: datetime | None
    transcripts_deleted_at: datetime | None = None
    """When what its models were sent and answered was deleted because of its age; None: it is there."""


class Trouble(ResponseModel):
    """A step that failed and is retried, or waits for a provider."""

    iteration_number: int
    step: str
    index: int
    attempts: int
    error: str
    retry_at: datetime | None
    waiting_since: datetime | None = None
    """Since when it waits for a provider that is unavailable or rate-limited, which uses up no attempts."""


class RunningCall(ResponseModel):
    """A call that was sent and is not answered yet."""

    step_id: UUID
    phase: str
    kind: str
    model: str | None
    sent_at: datetime
    received_chars: int | None
    """Characters received so far; None before the first, or without streaming."""
    progressed_at: datetime | None
    """When `received_chars` was written."""


class ConfigurationResponse(ResponseModel):
    """The last configuration of an agent."""

    step_id: UUID
    status: str
    error: str | None
    """The last error; if the step is pending or running, it is being retried."""
    attempts: int
    retry_at: datetime | None
    waiting_since: datetime | None = None
    """As in `Trouble`."""
    requested_at: datetime
    ended_at: datetime | None


class AttentionResponse(ResponseModel):
    """Why an agent needs the attention of its owner: its iterations fail or have no result."""

    iterations: int
    """Number of consecutive iterations without a result; at most 20 are counted."""
    since: datetime
    """Start of the first of them."""
    reason: str
    advice: str
    """Recommended actions."""


class AgentResponse(ResponseModel):
    id: UUID
    name: str
    mission: str
    status: str
    """`configuring` until it has its prompts and types, then `ready`; or `failed`, see `fault`."""
    fault: str | None
    interval_seconds: int
    max_interval_seconds: int | None = None
    """The interval grows up to this while iterations are quiet; None: it does not grow."""
    feedback_rounds: int = 0
    """How many further rounds an iteration may run for data that Analyzers lacked."""
    advice_from_one_analysis: bool = False
    """Whether advice may cite a single analysis."""
    actions: dict[str, str] = Field(default_factory=dict)
    """The words for what advice tells the owner to do, with what each means."""
    verification_usd_per_day: float | None = None
    """Daily cap (UTC) in USD of reading conclusions and evidence; 0: nothing is read, null: no cap of its own."""
    entailment_share: float = 0.05
    """Share of new evidence that is read. Of what conclusions cite, all is."""
    preferred_domains: list[str] = Field(default_factory=list)
    """Their pages are the first in search results. A domain covers its subdomains."""
    barred_domains: list[str] = Field(default_factory=list)
    """Their pages are neither found nor read nor cited."""
    corpus: str | None = None
    """The corpus that the sandbox's search reads for it; null: that of the installation."""
    archive_date: date | None = None
    """It works as if each day were this date, and does not use what was published later; null: the real date."""
    active: bool
    models: dict[str, str]
    """Phase to model, for phases that do not use the default of the installation."""
    next_run_at: datetime
    run_requested_at: datetime | None
    suspended_until: datetime | None
    """No iteration is started before, because a budget is used up."""
    iterations_started: int
    created_at: datetime
    updated_at: datetime
    """When a user last changed its settings; its own work does not count."""
    budget_usd_per_day: float | None = None
    """Daily cap in USD (UTC); None: no cap."""
    budget_calls_per_day: int | None = None
    last_iteration: IterationSummary | None
    trouble: list[Trouble]
    attention: AttentionResponse | None = None
    """None while its iterations work."""
    server_notes: list[str] = Field(default_factory=list)
    """What the servers of its models lack, by the newest iteration that called models and has ended."""


class AgentDetails(AgentResponse):
    prompts: dict[str, str]
    """Phase to system prompt; empty until it is configured."""
    prompts_version: int
    configuration: ConfigurationResponse | None
    """None for an agent from before configurations were recorded."""
    running_calls: list[RunningCall] = Field(default_factory=list)
    """Oldest first."""


class StepResponse(ResponseModel):
    id: UUID
    kind: str
    index: int
    status: str
    input: Json
    result: Json | None
    error: str | None
    """The last error; if the step is pending or running, it is being retried."""
    attempts: int
    republish_count: int
    retry_at: datetime | None
    waiting_since: datetime | None = None
    """As in `Trouble`."""
    started_at: datetime | None
    ended_at: datetime | None


class ToolCall(ResponseModel):
    """A tool call of the model. `arguments` is as the model wrote it, which may be invalid JSON."""

    id: str | None
    name: str
    arguments: str


class AnswerEvent(ResponseModel):
    """A response of the model: text, tool calls, or both. `message` is None if the call ledger has expired."""

    type: Literal["answer"] = "answer"
    call_id: UUID
    text: str | None = None
    tool_calls: list[ToolCall] = Field(default_factory=list)
    message: Json | None
    finish_reason: str | None
    input_tokens: int | None
    output_tokens: int | None


class ToolResultEvent(ResponseModel):
    """The result of a tool. `result` is None if the call ledger has expired."""

    type: Literal["tool_result"] = "tool_result"
    tool_call_id: str | None = None
    name: str
    result: Json | None


class RepairEvent(ResponseModel):
    """Repairs of a response by code."""

    type: Literal["repair"] = "repair"
    subject: str
    """What was repaired: `configuration`, `types`, `plan`, or the name of a tool."""
    repairs: list[str]
    """One sentence per repair."""


InteractionEvent = Annotated[
    AnswerEvent | ToolResultEvent | RepairEvent, Field(discriminator="type")
]


class FailedSending(ResponseModel):
    """An attempt of a call without a usable response. `response` is the beginning of what the server sent."""

    at: datetime
    kind: str
    """`unusable`, `no_answer`, `cut_off` or `timeout`."""
    error: str
    response: str
    input_tokens: int | None = None
    output_tokens: int | None = None
    cost_usd: float | None = None
    """None if the server reported no usage: then the maximum cost counts as spent."""


class InteractionResponse(ResponseModel):
    """One phase run, as far as it has progressed."""

    id: UUID
    step_id: UUID | None
    phase: str
    model: str
    system_prompt: str
    request: Json
    events: list[InteractionEvent]
    failures: list[FailedSending] = Field(default_factory=list)
    """Failed attempts of its model calls, oldest first."""
    created_at: datetime
    completed_at: datetime | None


class CallTotals(ResponseModel):
    """Totals of answered calls. `cost_usd` sums known costs, `assumed_usd` what is estimated or assumed besides;
    `unpriced_calls` counts model calls without a cost.
    """

    llm_calls: int = 0
    search_calls: int = 0
    unanswered_calls: int = 0
    input_tokens: int = 0
    output_tokens: int = 0
    cost_usd: float = 0.0
    assumed_usd: float = 0.0
    unpriced_calls: int = 0


class CallGroup(ResponseModel):
    kind: str
    phase: str
    model: str | None
    answered: int
    unanswered: int
    input_tokens: int
    output_tokens: int
    cost_usd: float
    unpriced: int
    assumed_usd: float = 0.0


class CallsSummary(ResponseModel):
    totals: CallTotals
    groups: list[CallGroup]


class IterationDetails(IterationSummary):
    agent_name: str
    plan: Json | None
    deadline_at: datetime
    steps: list[StepResponse]
    """In the order of the stages: observe, queries, insights, advise."""
    interactions: list[InteractionResponse]
    """In the order of the phases, and of the steps within a phase."""
    calls: CallTotals
    running_calls: list[RunningCall] = Field(default_factory=list)
    """Oldest first."""
    trace_id: str = ""
    """The id of its OpenTelemetry trace, if the services export traces. Empty from a server before 0.4.0."""


class InboxItemResponse(ForecastTerms):
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
    outcome: InboxOutcome | None = None
    """What you decided; None while it is open."""
    useful: bool | None = None
    """Whether you found it useful."""
    feedback: str | None = None
    """What you said about it. The agent's next plans, analyses and advice take it into account."""
    answered_at: datetime | None = None
    """When you last decided or gave feedback."""
    snoozed_until: datetime | None = None
    """Until then it is not in the inbox; then it returns as unread."""
    resolved_at: datetime | None = None
    """When what a notice says stopped being so, or advice was replaced."""
    doubted_since: datetime | None = None
    """Of an advice in doubt."""


class GraphCounts(ResponseModel):
    """`nodes` includes analyses and advice. `has_more`: some types have more elements than were counted."""

    nodes: int
    edges: int
    analyses: int
    advice: int
    has_more: bool = False


class NodeTypeResponse(ResponseModel):
    name: str
    description: str
    nodes: int


class EdgeTypeResponse(ResponseModel):
    name: str
    description: str
    edges: int


class NodeResponse(ResponseModel):
    id: UUID
    type: str
    name: str
    properties: Json
    created_at: datetime
    updated_at: datetime
    unsupported_since: datetime | None = None
    """Since when all of its sources are retracted."""


class EdgeResponse(ResponseModel):
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


class GraphResponse(ResponseModel):
    """The newest nodes and edges, and the totals."""

    counts: GraphCounts
    node_types: list[NodeTypeResponse]
    edge_types: list[EdgeTypeResponse]
    nodes: list[NodeResponse]
    edges: list[EdgeResponse]


class CitationResponse(ResponseModel):
    """A node or edge that a conclusion cites. `name` is None if it does not exist (any more)."""

    kind: Literal["node", "edge"]
    id: UUID
    type: str | None
    name: str | None


class ConclusionResponse(ForecastTerms):
    """An analysis or advice; `word` is `observation` or `pattern`, or an action of the agent."""

    id: UUID
    word: str
    name: str
    summary: str
    content: str
    generated_at: str
    iteration_id: UUID | None
    citations: list[CitationResponse]
    doubted_since: datetime | None = None
    """Since when a source that it depends on is retracted."""
    reading: "ReadingResponse | None" = None
    """None: no model has read it."""


class ReadingResponse(ResponseModel):
    """Counts of a conclusion's sentences by the verdict of the model that read it."""

    sentences: int
    """Of the conclusion: its name, its summary, its content, and what would prove it wrong."""
    supported: int
    """Sentences that are supported by what they cite, or follow from it."""
    plausible: int
    """Inferences that are possible, but do not follow."""
    model: str
    not_supported: list[str] = Field(default_factory=list)
    """The first sentences that are not supported, each after "plausible" or "not read"."""

    @property
    def is_supported(self) -> bool:
        """Whether each sentence was read as supported."""
        return self.supported == self.sentences

    @property
    def in_words(self) -> str:
        return reading_in_words(self.model, self.sentences, self.supported, self.plausible)


class AboutResponse(ResponseModel):
    """The installation, as shown without authentication."""

    version: str


class ProviderOutage(ResponseModel):
    """A provider that is unavailable, or that limits requests."""

    kind: Literal["model", "search"]
    name: str
    """`the model server at http://127.0.0.1:8080/v1`."""
    is_unavailable: bool
    """False: it works and limits requests."""
    is_quota: bool = False
    """True if it is unavailable because the quota of its plan is used up."""
    since: datetime
    next_attempt_at: datetime | None
    """None: with the next step that looks again, within seconds."""
    error: str
    waiting_steps: int
    """Of all agents for operators, else of the user's own."""
    provider: str | None = None
    """The name of a model server in VIGIL_PROVIDERS; None for the default one and the search service."""
    agent_ids: list[UUID] = Field(default_factory=list)
    """Agents that use it."""

    @property
    def state(self) -> str:
        """`is unavailable`, for a sentence."""
        if self.is_quota:
            return USED_UP
        return "is unavailable" if self.is_unavailable else "limits requests"

    def explains(self, error: str | None) -> bool:
        """Whether the error of a waiting step names this provider."""
        return self.name.lower() in (error or "").lower()


class ProvidersResponse(ResponseModel):
    """The configured providers. Addresses are None for the providers' own."""

    model: str
    model_server: str | None
    model_key_set: bool
    search_server: str | None
    search_key_set: bool
    embedding_model: str | None = None
    """None if embedding search is off."""
    model_is_sandbox: bool = False
    """Whether the sandbox answers in place of a model. Its calls cost nothing."""
    search_is_sandbox: bool = False
    outages: list[ProviderOutage] = Field(default_factory=list)
    mail_server: str | None = None
    """Its host and port; None if no email can be sent."""


PAGE_SIZE: Final = 50
LARGEST_PAGE: Final = 200

T = TypeVar("T")


class Page(ResponseModel, Generic[T]):
    """One page of a list. Pass `next` as `cursor` to get the next page; None at the end of the list."""

    items: list[T]
    next: str | None


@dataclass(frozen=True)
class PageRequest:
    """Which page to load: the first, or the one after `cursor`."""

    limit: int = PAGE_SIZE
    cursor: str | None = None
