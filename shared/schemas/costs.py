"""What people get to see of money: budgets, and where it went."""

from datetime import date, datetime
from typing import Literal
from uuid import UUID

from shared.schemas.base import View

CostsBy = Literal["day", "agent", "phase", "model"]


class AllowanceView(View):
    """Caps of a day, None where there is none, and what stands against them today (UTC).

    What is reserved is the most that calls under way can cost. `left` is None without a cap.
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


class BudgetView(View):
    """An agent's own budget, and until when it rests because one was used up: this, or the installation's."""

    agent_id: UUID
    agent_name: str
    resting_until: datetime | None
    allowance: AllowanceView


class CostTotals(View):
    """Of calls that were sent. `cost_usd` is what their answers cost, `presumed_usd` the most that sendings can have
    cost of which no answer came: both count against budgets.
    """

    calls: int
    sendings: int
    input_tokens: int
    output_tokens: int
    cost_usd: float
    presumed_usd: float


class CostGroup(CostTotals):
    """`key` is a day, an agent's name, a phase, or a model; for the search service `search`."""

    key: str
    agent_id: UUID | None
    """Where the groups are agents."""


class CostsView(View):
    """Of calls begun from the day `since` to the day `until` (UTC), both included. Deleted agents' are not among them."""

    since: date
    until: date
    by: CostsBy
    totals: CostTotals
    groups: list[CostGroup]
    """By their keys."""
    next: str | None
    """Given as `cursor`, asks for the groups that follow."""
    allowance: AllowanceView | None
    """Today's, of the agent that was asked for, or of the installation. That one is told to operators alone: what all
    spend without one's own is what the others do.
    """
