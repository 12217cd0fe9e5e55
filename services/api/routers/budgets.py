"""What may be spent in a day."""

from decimal import Decimal
from typing import Annotated

from fastapi import APIRouter, Body
from pydantic import BaseModel, ConfigDict, Field

from services.api.auth.dependencies import Operated, OwnedAgent
from services.api.queries import costs
from shared.billing import budgets as billing_budgets
from shared.billing.budgets import Caps
from shared.runtime.settings import MOST_CALLS_PER_DAY, MOST_USD_PER_DAY
from shared.schemas.costs import AllowanceView, BudgetView

router = APIRouter(tags=["budgets"])


class NewBudget(BaseModel):
    """Caps of a day (UTC). What is left out, or null, has no cap."""

    model_config = ConfigDict(extra="forbid")

    usd_per_day: Annotated[Decimal, Field(ge=0, le=MOST_USD_PER_DAY, decimal_places=8)] | None = (
        None
    )
    calls_per_day: Annotated[int, Field(ge=0, le=MOST_CALLS_PER_DAY)] | None = None

    @property
    def caps(self) -> Caps:
        return Caps(self.usd_per_day, self.calls_per_day)


@router.get("/agents/{agent}/budget")
async def show_of_agent(access: OwnedAgent) -> BudgetView:
    """The agent's caps, what is spent and reserved today, and until when it rests."""
    return await costs.agent_budget(access.session, access.agent.id)


@router.put("/agents/{agent}/budget")
async def set_of_agent(access: OwnedAgent, wanted: Annotated[NewBudget, Body()]) -> BudgetView:
    """Counts at once, for calls that are not yet sent. Where it leaves something to spend, the agent's rest ends."""
    await billing_budgets.cap_agent(access.session, access.agent.id, wanted.caps)
    return await costs.agent_budget(access.session, access.agent.id)


@router.get("/budget")
async def show_of_installation(access: Operated) -> AllowanceView:
    """The caps of the whole installation, and what all agents have spent and reserved today."""
    return await costs.allowance_of_installation(access.session)


@router.put("/budget")
async def set_of_installation(
    access: Operated, wanted: Annotated[NewBudget, Body()]
) -> AllowanceView:
    """Counts at once for every agent. Those that rest and have something to spend again wake."""
    await billing_budgets.cap_installation(access.session, wanted.caps)
    return await costs.allowance_of_installation(access.session)
