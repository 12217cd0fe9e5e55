"""All events of Vigil. Each docstring says when it is sent and who consumes it.

Events carry ids and small facts, never page text or prompts: these are in PostgreSQL.
"""

from typing import ClassVar, Literal
from uuid import UUID

from pydantic import BaseModel, ConfigDict, Field

from shared.events.envelope import Event


class Query(BaseModel):
    """Something that the agent does not know, as planned by the Observer."""

    model_config = ConfigDict(frozen=True)

    objective: str
    reasoning: str
    search_hints: list[str] = Field(default_factory=list)


class Insight(BaseModel):
    """A pattern in what the agent knows, as planned by the Observer."""

    model_config = ConfigDict(frozen=True)

    observation: str
    relevant_node_ids: list[UUID] = Field(default_factory=list)
    synthesis_direction: str


class IterationEvent(Event):
    """An event about an iteration."""

    identity: ClassVar[tuple[str, ...]] = ("iteration_id",)
    belongs_to: ClassVar[str] = "iteration_id"

    iteration_id: UUID


class StepEvent(Event):
    """An event about one step, with or without iteration."""

    identity: ClassVar[tuple[str, ...]] = ("step_id",)
    belongs_to: ClassVar[str] = "step_id"

    step_id: UUID


class IterationStepEvent(IterationEvent, StepEvent):
    """An event about one step of an iteration."""

    identity: ClassVar[tuple[str, ...]] = ("iteration_id", "step_id")


class IterationStarted(IterationStepEvent, subject="iteration.started"):
    """Sent by the scheduler when an agent is due or a run was requested; starts the Observer. The step is the observe
    step.
    """

    number: int
    why: Literal["due", "run_now"]


class PlanProduced(IterationStepEvent, subject="plan.produced"):
    """Sent by the Observer when its plan is committed; if it has no queries, the aggregator continues."""

    queries: int
    insights: int


class PlanFailed(IterationStepEvent, subject="plan.failed"):
    """Sent by the Observer when it failed for good; the aggregator fails the iteration."""

    error: str


class QueryRequested(IterationStepEvent, subject="query.requested"):
    """Sent by the Observer for each query of its plan, and by the aggregator for missing data; starts a Researcher."""

    query: Query


class QueryCompleted(IterationStepEvent, subject="query.completed"):
    """Sent by a Researcher when the results of a query are in the graph."""

    nodes: int
    edges: int


class QueryFailed(IterationStepEvent, subject="query.failed"):
    """Sent by a Researcher when a query failed for good; the join continues without it."""

    error: str


class InsightRequested(IterationStepEvent, subject="insight.requested"):
    """Sent by the aggregator for each insight when every query has ended; starts an Analyzer."""

    insight: Insight


class InsightCompleted(IterationStepEvent, subject="insight.completed"):
    """Sent by an Analyzer when it has written its analyses, or reported the data that it lacks."""

    analyses: int
    missing: list[str] = Field(default_factory=list)


class InsightFailed(IterationStepEvent, subject="insight.failed"):
    """Sent by an Analyzer when an insight failed for good; the join continues without it."""

    error: str


class AnalysisProduced(IterationStepEvent, subject="analysis.produced"):
    """Sent by the aggregator when every insight has ended and there is an analysis; the only event that starts the
    Adviser.
    """

    analysis_ids: list[UUID]


class AdviceProduced(IterationStepEvent, subject="advice.produced"):
    """Sent by the Adviser, one for each AgentAdvice node."""

    identity: ClassVar[tuple[str, ...]] = ("iteration_id", "step_id", "advice_id")

    advice_id: UUID
    action: str
    """One of the words that the agent had for actions."""


class AdviceCompleted(IterationStepEvent, subject="advice.completed"):
    """Sent by the Adviser when it has decided, usually to advise nothing."""

    advice: int


class AdviceFailed(IterationStepEvent, subject="advice.failed"):
    """Sent by the Adviser when it failed for good; the aggregator fails the iteration."""

    error: str


class IterationCompleted(IterationEvent, subject="iteration.completed"):
    """Sent by the aggregator when the iteration has completed; failures of single steps are listed."""

    number: int
    queries: int
    insights: int
    analyses: int
    advice: int
    errors: list[str] = Field(default_factory=list)
    cost_usd: float | None = None
    quiet: bool = False
    """Nothing was new and nothing was due, so no model was called."""
    graph_root: str | None = None
    """The root of the graph's history when it ended, in hexadecimal, for `vigil verify --since`."""


class IterationFailed(IterationEvent, subject="iteration.failed"):
    """Sent by the aggregator when the Observer or Adviser failed for good, or every step of a phase did."""

    number: int
    errors: list[str]
    cost_usd: float | None = None


class ConfigurationRequested(StepEvent, subject="configuration.requested"):
    """Sent by the API when an agent was created, or is to be configured again; starts the assistant."""


class ConfigurationCompleted(StepEvent, subject="configuration.completed"):
    """Sent by the assistant when the agent has its name, prompts and types."""


class ConfigurationFailed(StepEvent, subject="configuration.failed"):
    """Sent by the assistant when it could not configure the agent; its owner may request it again."""

    error: str


class AnswerRequested(StepEvent, subject="answer.requested"):
    """Sent by the API when a user has written to an agent; starts the assistant."""


class AnswerCompleted(StepEvent, subject="answer.completed"):
    """Sent by the assistant when the agent's answer is in the conversation."""


class AnswerFailed(StepEvent, subject="answer.failed"):
    """Sent by the assistant when it gave up on an answer; the user may request it again."""

    error: str


EVENTS: tuple[type[Event], ...] = (
    IterationStarted,
    PlanProduced,
    PlanFailed,
    QueryRequested,
    QueryCompleted,
    QueryFailed,
    InsightRequested,
    InsightCompleted,
    InsightFailed,
    AnalysisProduced,
    AdviceProduced,
    AdviceCompleted,
    AdviceFailed,
    IterationCompleted,
    IterationFailed,
    ConfigurationRequested,
    ConfigurationCompleted,
    ConfigurationFailed,
    AnswerRequested,
    AnswerCompleted,
    AnswerFailed,
)
