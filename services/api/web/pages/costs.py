"""Cost pages: of all agents, and of one."""

from datetime import date, timedelta
from http import HTTPStatus
from typing import Annotated, Any, Final

from fastapi import APIRouter, Query
from pydantic import Field
from starlette.responses import HTMLResponse

from services.api.auth.dependencies import OwnedAccess, OwnedAgent
from services.api.queries import costs
from services.api.queries.costs import CostQuery, CostTables, TooManyDaysError
from services.api.web.forms import UNLESS_BLANK
from services.api.web.rendering import PageResponse
from shared.billing import budgets as billing_budgets

router = APIRouter()

SPANS: Final = (7, 30, 90, 365)
"""The offered ranges in days, ending today."""

_Day = Annotated[
    # The bounds apply to the date only, not to None.
    Annotated[date, Field(ge=date(2000, 1, 1), le=date(2999, 12, 31))] | None,
    # An emptied field is sent as an empty string.
    UNLESS_BLANK,
    Query(),
]


@router.get("/costs")
async def show_costs(
    access: OwnedAccess, page: PageResponse, since: _Day = None, until: _Day = None
) -> HTMLResponse:
    """Shows all costs; operators also see the installation's remaining budget."""
    session, owner_id = access.session, access.owner_id
    cost_query, wrong = CostQuery(since=since, until=until), None
    try:
        tables = await costs.owner_cost_tables(session, owner_id, cost_query)
    except TooManyDaysError as error:
        wrong = str(error)
        tables = await costs.owner_cost_tables(session, owner_id, CostQuery())
    usage = None
    if access.caller.is_operator:
        usage = await costs.installation_usage(session)
    context = {"usage": usage, "today": await billing_budgets.today(session)}
    return await _costs_page(page, "costs/all.html", tables, wrong, **context)


@router.get("/agents/{agent}/costs")
async def show_agent_costs(
    access: OwnedAgent, page: PageResponse, since: _Day = None, until: _Day = None
) -> HTMLResponse:
    session, agent = access.session, access.agent
    cost_query, wrong = CostQuery(since=since, until=until), None
    try:
        tables = await costs.agent_cost_tables(session, agent.id, cost_query)
    except TooManyDaysError as error:
        wrong = str(error)
        tables = await costs.agent_cost_tables(session, agent.id, CostQuery())
    budget = await costs.agent_budget(session, agent.id)
    context = {"usage": budget.usage, "today": budget.usage.day}
    return await _costs_page(
        page,
        "costs/agent.html",
        tables,
        wrong,
        agent=agent,
        suspended_until=budget.suspended_until,
        **context,
    )


async def _costs_page(
    page: PageResponse, template: str, tables: CostTables, wrong: str | None, **context: Any
) -> HTMLResponse:
    today: date = context["today"]
    spans = [(days, today - timedelta(days=days - 1)) for days in SPANS]
    status = HTTPStatus.OK if wrong is None else HTTPStatus.UNPROCESSABLE_ENTITY
    return await page.answer(
        template, status=status, tables=tables, wrong=wrong, spans=spans, **context
    )
