"""JSON routes of costs, daily budgets, and the call ledger."""

from datetime import date
from decimal import Decimal
from http import HTTPStatus
from typing import Annotated, Final

from fastapi import APIRouter, Body, Depends, Query, Request
from pydantic import BaseModel, ConfigDict, Field

from services.api.auth.dependencies import OperatorAccess, OwnedAccess, OwnedAgent
from services.api.http.problem_details import ProblemError
from services.api.resources.costs import forecast, model
from services.api.resources.costs.ledger import CostScope
from services.api.resources.costs.model import CostQuery, TooManyDaysError
from shared.agents.fields import Interval
from shared.billing import budgets as billing_budgets
from shared.billing.budgets import Caps
from shared.database.transaction import Transaction
from shared.runtime.settings import MAX_CALLS_PER_DAY, MAX_USD_PER_DAY
from shared.schemas.costs import (
    BudgetResponse,
    BudgetUsage,
    CostsBy,
    CostsResponse,
    ForecastResponse,
)

costs_router: Final = APIRouter(tags=["costs"])
budgets_router: Final = APIRouter(tags=["budgets"])
calls_router: Final = APIRouter(prefix="/agents/{agent}/calls", tags=["calls"])

calls_router.get("", name="list_of_agent")(model.list_calls)
calls_router.get("/summary", name="summary")(model.summarize_calls)

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
        str | None, Query(description="`next` of the previous page; without it, the first groups")
    ] = None,
    limit: Annotated[int, Query(ge=1, le=model.MAX_GROUPS)] = model.DEFAULT_GROUPS,
) -> CostQuery:
    return CostQuery(by, since, until, cursor, limit)


CostQueryParams = Annotated[CostQuery, Depends(_cost_query)]


@costs_router.get("/forecast", name="forecast")
async def show_forecast(
    request: Request,
    _: OwnedAccess,
    interval_seconds: Annotated[Interval, Query(description="How often the agent runs")] = 300,
    model: Annotated[
        str | None, Query(max_length=200, description="Without it, the installation's model")
    ] = None,
) -> ForecastResponse:
    """What a usual agent costs in a day, before it is made."""
    return forecast.day_forecast(request.app.state.settings, interval_seconds, model)


@costs_router.get("/costs", name="show")
async def show_costs(access: OwnedAccess, cost_query: CostQueryParams) -> CostsResponse:
    """Costs of all your agents by day, agent, phase or model; by default of the last thirty days.

    Operators also get today's budget of the installation.
    """
    usage = await model.budget_usage(access.session) if access.caller.is_operator else None
    return await _costs(access.session, CostScope(access.owner_id), cost_query, usage)


@costs_router.get("/agents/{agent}/costs", name="show_of_agent")
async def show_agent_costs(access: OwnedAgent, cost_query: CostQueryParams) -> CostsResponse:
    """Costs of one agent."""
    usage = await model.budget_usage(access.session, access.agent.id)
    scope = CostScope(access.owner_id, access.agent.id)
    return await _costs(access.session, scope, cost_query, usage)


async def _costs(
    session: Transaction, scope: CostScope, cost_query: CostQuery, usage: BudgetUsage | None
) -> CostsResponse:
    try:
        return await model.read_costs(session, scope, cost_query, usage)
    except TooManyDaysError as error:
        detail = f"{error}."
        raise ProblemError(HTTPStatus.UNPROCESSABLE_ENTITY, "invalid-request", detail) from error


UsdPerDay = Annotated[Decimal, Field(ge=0, le=MAX_USD_PER_DAY, decimal_places=8)]
CallsPerDay = Annotated[int, Field(ge=0, le=MAX_CALLS_PER_DAY)]


class NewBudget(BaseModel):
    """Daily caps (UTC). A missing or null field means no cap."""

    model_config = ConfigDict(extra="forbid")

    usd_per_day: UsdPerDay | None = None
    calls_per_day: CallsPerDay | None = None

    @property
    def caps(self) -> Caps:
        return Caps(self.usd_per_day, self.calls_per_day)


@budgets_router.get("/agents/{agent}/budget", name="show_of_agent")
async def show_agent_budget(access: OwnedAgent) -> BudgetResponse:
    """The agent's caps, today's spent and reserved amounts, and until when it is suspended."""
    return await model.agent_budget(access.session, access.agent.id)


@budgets_router.put("/agents/{agent}/budget", name="set_of_agent")
async def set_agent_budget(
    access: OwnedAgent, body: Annotated[NewBudget, Body()]
) -> BudgetResponse:
    """Sets the agent's caps, for all calls not yet sent. If they allow further calls, a suspended agent resumes."""
    await billing_budgets.cap_agent(access.session, access.agent.id, body.caps)
    return await model.agent_budget(access.session, access.agent.id)


@budgets_router.get("/budget", name="show_of_installation")
async def show_installation_budget(access: OperatorAccess) -> BudgetUsage:
    """The caps of the installation, and the amounts spent and reserved by all agents today."""
    return await model.budget_usage(access.session)


@budgets_router.put("/budget", name="set_of_installation")
async def set_installation_budget(
    access: OperatorAccess, body: Annotated[NewBudget, Body()]
) -> BudgetUsage:
    """Sets the caps of the installation at once. Suspended agents that may spend again resume."""
    await billing_budgets.cap_installation(access.session, body.caps)
    return await model.budget_usage(access.session)
