"""Costs, daily budgets, and the call ledger."""

from datetime import date
from decimal import Decimal
from http import HTTPStatus
from typing import Annotated

from fastapi import APIRouter, Body, Depends, Query
from pydantic import BaseModel, ConfigDict, Field

from services.api.auth.dependencies import OperatorAccess, OwnedAccess, OwnedAgent
from services.api.http.dependencies import Page, Paging
from services.api.http.problem_details import ProblemError
from services.api.queries import costs
from services.api.queries.costs import CostQuery, TooManyDaysError
from shared.billing import budgets as billing_budgets
from shared.billing.budgets import Caps
from shared.enums import CallKind, Phase
from shared.runtime.settings import MAX_CALLS_PER_DAY, MAX_USD_PER_DAY
from shared.schemas.base import CallsView
from shared.schemas.costs import AllowanceView, BudgetView, CostsBy, CostsView
from shared.schemas.iterations import CallView

costs_router = APIRouter(tags=["costs"])
budgets_router = APIRouter(tags=["budgets"])
calls_router = APIRouter(prefix="/agents/{agent}/calls", tags=["calls"])


_Day = Annotated[
    date | None,
    Query(
        description="A day in UTC; both ends are included",
        ge=date(2000, 1, 1),
        le=date(2999, 12, 31),
    ),
]


def _cost_query(
    by: CostsBy = "day",
    since: _Day = None,
    until: _Day = None,
    cursor: Annotated[
        str | None, Query(description="`next` of the page before; without it, the first groups")
    ] = None,
    limit: Annotated[int, Query(ge=1, le=costs.MAX_GROUPS)] = costs.DEFAULT_GROUPS,
) -> CostQuery:
    return CostQuery(by, since, until, cursor, limit)


CostQueryParams = Annotated[CostQuery, Depends(_cost_query)]


@costs_router.get("/costs", name="show")
async def show_costs(access: OwnedAccess, cost_query: CostQueryParams) -> CostsView:
    """Of all your agents, by day, agent, phase or model; of the last thirty days unless others are asked for.

    What the whole installation may spend today is told to operators.
    """
    is_operator = access.caller.is_operator
    try:
        return await costs.owner_costs(
            access.session, access.owner_id, cost_query, is_operator=is_operator
        )
    except TooManyDaysError as error:
        raise _too_many(error) from error


@costs_router.get("/agents/{agent}/costs", name="show_of_agent")
async def show_agent_costs(access: OwnedAgent, cost_query: CostQueryParams) -> CostsView:
    """The same of one agent."""
    try:
        return await costs.agent_costs(access.session, access.agent.id, cost_query)
    except TooManyDaysError as error:
        raise _too_many(error) from error


def _too_many(error: TooManyDaysError) -> ProblemError:
    return ProblemError(HTTPStatus.UNPROCESSABLE_ENTITY, "invalid-request", f"{error}.")


class NewBudget(BaseModel):
    """Caps of a day (UTC). What is left out, or null, has no cap."""

    model_config = ConfigDict(extra="forbid")

    usd_per_day: Annotated[Decimal, Field(ge=0, le=MAX_USD_PER_DAY, decimal_places=8)] | None = None
    calls_per_day: Annotated[int, Field(ge=0, le=MAX_CALLS_PER_DAY)] | None = None

    @property
    def caps(self) -> Caps:
        return Caps(self.usd_per_day, self.calls_per_day)


@budgets_router.get("/agents/{agent}/budget", name="show_of_agent")
async def show_agent_budget(access: OwnedAgent) -> BudgetView:
    """The agent's caps, what is spent and reserved today, and until when it rests."""
    return await costs.agent_budget(access.session, access.agent.id)


@budgets_router.put("/agents/{agent}/budget", name="set_of_agent")
async def set_agent_budget(access: OwnedAgent, body: Annotated[NewBudget, Body()]) -> BudgetView:
    """Counts at once, for calls that are not yet sent. Where it leaves something to spend, the agent's rest ends."""
    await billing_budgets.cap_agent(access.session, access.agent.id, body.caps)
    return await costs.agent_budget(access.session, access.agent.id)


@budgets_router.get("/budget", name="show_of_installation")
async def show_installation_budget(access: OperatorAccess) -> AllowanceView:
    """The caps of the whole installation, and what all agents have spent and reserved today."""
    return await costs.installation_allowance(access.session)


@budgets_router.put("/budget", name="set_of_installation")
async def set_installation_budget(
    access: OperatorAccess, body: Annotated[NewBudget, Body()]
) -> AllowanceView:
    """Counts at once for every agent. Those that rest and have something to spend again wake."""
    await billing_budgets.cap_installation(access.session, body.caps)
    return await costs.installation_allowance(access.session)


@calls_router.get("", name="list_of_agent")
async def list_calls(
    access: OwnedAgent, paging: Paging, kind: CallKind | None = None, phase: Phase | None = None
) -> Page[CallView]:
    """One by one, the newest first."""
    return await costs.list_calls(
        access.session, access.owner_id, access.agent.id, paging, kind=kind, phase=phase
    )


@calls_router.get("/summary", name="summary")
async def summarize_calls(access: OwnedAgent) -> CallsView:
    """How often the model and the search service were asked, and what is known of the cost."""
    return await costs.agent_call_totals(access.session, access.owner_id, access.agent.id)
