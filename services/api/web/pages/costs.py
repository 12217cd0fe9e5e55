"""Where the money went: of all agents, and of one."""

from datetime import date, timedelta
from http import HTTPStatus
from typing import Annotated, Any, Final

from fastapi import APIRouter, Query
from pydantic import Field
from starlette.responses import HTMLResponse

from services.api.auth.dependencies import Owned, OwnedAgent
from services.api.queries import costs
from services.api.queries.costs import Asked, CostTables, TooManyDaysError
from services.api.web.forms import UNLESS_BLANK
from services.api.web.rendering import Answering
from shared.billing import budgets as billing_budgets

router = APIRouter()

SPANS: Final = (7, 30, 90, 365)
"""Days that are offered, today the last of them."""

_Day = Annotated[
    # The bounds are the day's own: they cannot be applied to None.
    Annotated[date, Field(ge=date(2000, 1, 1), le=date(2999, 12, 31))] | None,
    # A field that was emptied is sent as one that says nothing.
    UNLESS_BLANK,
    Query(),
]


@router.get("/costs")
async def show(
    access: Owned, page: Answering, since: _Day = None, until: _Day = None
) -> HTMLResponse:
    """What the installation may still spend today is told to operators, as by the api's own route."""
    session, owner_id = access.session, access.owner_id
    asked, wrong = Asked(since=since, until=until), None
    try:
        tables = await costs.owner_cost_tables(session, owner_id, asked)
    except TooManyDaysError as error:
        wrong = str(error)
        tables = await costs.owner_cost_tables(session, owner_id, Asked())
    allowance = None
    if access.caller.is_operator:
        allowance = await costs.allowance_of_installation(session)
    known = {"allowance": allowance, "today": await billing_budgets.today(session)}
    return await _answered(page, "costs/all.html", tables, wrong, **known)


@router.get("/agents/{agent}/costs")
async def show_of_agent(
    access: OwnedAgent, page: Answering, since: _Day = None, until: _Day = None
) -> HTMLResponse:
    session, agent = access.session, access.agent
    asked, wrong = Asked(since=since, until=until), None
    try:
        tables = await costs.agent_cost_tables(session, agent.id, asked)
    except TooManyDaysError as error:
        wrong = str(error)
        tables = await costs.agent_cost_tables(session, agent.id, Asked())
    budget = await costs.agent_budget(session, agent.id)
    known = {"allowance": budget.allowance, "today": budget.allowance.day}
    return await _answered(
        page,
        "costs/agent.html",
        tables,
        wrong,
        agent=agent,
        resting_until=budget.resting_until,
        **known,
    )


async def _answered(
    page: Answering, template: str, tables: CostTables, wrong: str | None, **known: Any
) -> HTMLResponse:
    today: date = known["today"]
    spans = [(days, today - timedelta(days=days - 1)) for days in SPANS]
    status = HTTPStatus.OK if wrong is None else HTTPStatus.UNPROCESSABLE_ENTITY
    return await page.answer(
        template, status=status, tables=tables, wrong=wrong, spans=spans, **known
    )
