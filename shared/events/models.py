"""Every event of Vigil. Each docstring says when it is sent and to whom.

Events carry ids and small facts, never page text or prompts: those are in Postgres.
"""

from typing import ClassVar, Literal
from uuid import UUID

from pydantic import BaseModel, ConfigDict, Field

from shared.events.envelope import Event


class Query(BaseModel):
    """What the agent does not know, as the Observer planned it."""

    model_config = ConfigDict(frozen=True)

    objective: str
    reasoning: str
    search_hints: list[str] = Field(default_factory=list)


class Insight(BaseModel):
    """A pattern in what the agent does know, as the Observer planned it."""

    model_config = ConfigDict(frozen=True)

    observation: str
    relevant_node_ids: list[UUID] = Field(default_factory=list)
    synthesis_direction: str


class StepEvent(Event):
    """An event about one step of an iteration."""

    identity: ClassVar[tuple[str, ...]] = ("iteration_id", "step_id")

    step_id: UUID


class IterationStarted(StepEvent, subject="iteration.started"):
    """Sent by the scheduler when an agent is due or was asked to run; wakes the Observer. The step is the observe step."""

    number: int
    why: Literal["due", "run_now"]


class PlanProduced(StepEvent, subject="plan.produced"):
    """Sent by the Observer when its plan is committed; tells the aggregator what to wait for."""

    queries: int
    insights: int


class PlanFailed(StepEvent, subject="plan.failed"):
    """Sent by the Observer when it gave up for good; the aggregator ends the iteration as failed."""

    error: str


class QueryRequested(StepEvent, subject="query.requested"):
    """Sent by the Observer, one for each query of the plan; wakes a Researcher."""

    query: Query


class QueryCompleted(StepEvent, subject="query.completed"):
    """Sent by a Researcher when a query's findings are in the graph."""

    nodes: int
    edges: int


class QueryFailed(StepEvent, subject="query.failed"):
    """Sent by a Researcher when a query failed for good; the join goes on without it."""

    error: str


class InsightRequested(StepEvent, subject="insight.requested"):
    """Sent by the aggregator when every query has ended, one for each insight of the plan; wakes an Analyzer."""

    insight: Insight


class InsightCompleted(StepEvent, subject="insight.completed"):
    """Sent by an Analyzer when it has drawn its conclusions, or named the data it lacks."""

    analyses: int
    missing: list[str] = Field(default_factory=list)


class InsightFailed(StepEvent, subject="insight.failed"):
    """Sent by an Analyzer when an insight failed for good; the join goes on without it."""

    error: str


class AnalysisProduced(StepEvent, subject="analysis.produced"):
    """Sent by the aggregator when every insight has ended and left an analysis; alone wakes the Adviser."""

    analysis_ids: list[UUID]


class AdviceProduced(StepEvent, subject="advice.produced"):
    """Sent by the Adviser, one for each AgentAdvice node."""

    identity: ClassVar[tuple[str, ...]] = ("iteration_id", "step_id", "advice_id")

    advice_id: UUID
    action: Literal["BUY", "SELL", "HOLD"]


class AdviceCompleted(StepEvent, subject="advice.completed"):
    """Sent by the Adviser when it has decided, mostly to advise nothing."""

    advice: int


class AdviceFailed(StepEvent, subject="advice.failed"):
    """Sent by the Adviser when it gave up for good; the aggregator ends the iteration as failed."""

    error: str


class IterationCompleted(Event, subject="iteration.completed"):
    """Sent by the aggregator when the iteration has ended well; failures of single steps are listed."""

    number: int
    queries: int
    insights: int
    analyses: int
    advice: int
    errors: list[str] = Field(default_factory=list)
    cost_usd: float | None = None


class IterationFailed(Event, subject="iteration.failed"):
    """Sent by the aggregator when the Observer or Adviser failed for good, or every step of a phase did."""

    number: int
    errors: list[str]
    cost_usd: float | None = None


AnyEvent = (
    IterationStarted
    | PlanProduced
    | PlanFailed
    | QueryRequested
    | QueryCompleted
    | QueryFailed
    | InsightRequested
    | InsightCompleted
    | InsightFailed
    | AnalysisProduced
    | AdviceProduced
    | AdviceCompleted
    | AdviceFailed
    | IterationCompleted
    | IterationFailed
)

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
)
