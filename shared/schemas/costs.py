"""Schemas of budgets and costs."""

from datetime import date, datetime
from typing import Literal, Protocol
from uuid import UUID

from shared.schemas.base import ResponseModel

CostsBy = Literal["day", "agent", "phase", "model"]


class BudgetUsage(ResponseModel):
    """Daily caps, None if there is none, and today's use (UTC).

    Reserved amounts are the maximum cost of calls in progress. `left_…` is None without a cap.
    """

    day: date
    usd_per_day: float | None
    spent_usd: float
    reserved_usd: float
    left_usd: float | None
    calls_per_day: int | None
    spent_calls: int
    reserved_calls: int
    left_calls: int | None


class BudgetResponse(ResponseModel):
    """An agent's budget, and until when the agent is suspended because its own or the installation's is used up."""

    agent_id: UUID
    agent_name: str
    suspended_until: datetime | None
    usage: BudgetUsage


class ForecastResponse(ResponseModel):
    """What a usual agent costs in a day, by the prices of the installation."""

    model: str | None
    """As the price list has it; null if it has no price."""
    interval_seconds: int
    working_iterations: int
    """The others are quiet."""
    usd_per_day: float
    model_usd: float
    search_usd: float
    is_priced: bool
    """Whether the model has a price of its own; else the fallback counts."""


class InputTokens(Protocol):
    """What was counted of the input of calls."""

    @property
    def input_tokens(self) -> int | None: ...
    @property
    def system_tokens(self) -> int: ...
    @property
    def tools_tokens(self) -> int: ...
    @property
    def context_tokens(self) -> int: ...
    @property
    def results_tokens(self) -> int: ...


def parts_of_input(of: InputTokens) -> dict[str, int]:
    """Input tokens by the part of the request; empty if none is known, as of earlier releases."""
    known = {
        "system prompts": of.system_tokens,
        "tools": of.tools_tokens,
        "graph context": of.context_tokens,
        "results of tools": of.results_tokens,
    }
    if not any(known.values()):
        return {}
    return {**known, "tasks and answers": max((of.input_tokens or 0) - sum(known.values()), 0)}


class CostTotals(ResponseModel):
    """Totals of sent calls. `cost_usd` is the cost of their responses, `assumed_usd` the maximum cost of attempts
    without a response and the estimated cost of responses without usage: both count against budgets.
    """

    calls: int
    attempts: int
    input_tokens: int
    output_tokens: int
    cached_tokens: int = 0
    """Of the input, those that the provider read from its cache, at a lower price."""
    reasoning_tokens: int = 0
    """Of the output."""
    system_tokens: int = 0
    """Of the input, those of system prompts. So are the next ones; the rest are tasks and the model's own answers."""
    tools_tokens: int = 0
    context_tokens: int = 0
    """What the model was shown of the graph."""
    results_tokens: int = 0
    """Results of tools."""
    cost_usd: float
    assumed_usd: float

    @property
    def parts(self) -> dict[str, int]:
        """Input tokens by the part of the request; empty if none is known, as of earlier releases."""
        return parts_of_input(self)


class CostGroup(CostTotals):
    """`key` is a day, an agent's name, a phase, or a model (`search` for the search service)."""

    key: str
    agent_id: UUID | None
    """Set if the groups are agents."""


class CostsResponse(ResponseModel):
    """Costs of calls started from the day `since` to the day `until` (UTC, both included). Deleted agents are not
    included.
    """

    since: date
    until: date
    by: CostsBy
    totals: CostTotals
    groups: list[CostGroup]
    """Sorted by key."""
    next: str | None
    """Pass it as `cursor` to get the next groups."""
    usage: BudgetUsage | None
    """Today's usage of the requested agent or, for operators only, of the installation: it would reveal what other
    users spend.
    """
