"""All agents as cards, and the making of one."""

from http import HTTPStatus
from typing import Annotated

from fastapi import APIRouter, Form, Query, Request
from starlette.responses import HTMLResponse, RedirectResponse, Response

from services.api.auth.dependencies import Owned
from services.api.commands import agents as agent_commands
from services.api.commands.agents import NewAgent
from services.api.http.dependencies import Afterwards, Paging
from services.api.queries import agents
from services.api.queries.agents import AgentState
from services.api.web.forms import UNLESS_BLANK
from services.api.web.rendering import Answering
from shared.billing.budgets import Caps
from shared.runtime.settings import Settings

router = APIRouter(prefix="/agents")

InState = Annotated[AgentState | None, UNLESS_BLANK, Query()]


@router.get("")
async def list_all(
    access: Owned,
    page: Answering,
    paging: Paging,
    state: InState = None,
    search: Annotated[str | None, Query(max_length=200)] = None,
) -> HTMLResponse:
    found = await agents.of_owner(
        access.session, access.owner_id, paging, state=state, search=search
    )
    desks = await agents.of_agents(access.session, [agent.id for agent in found.items])
    return await page.answer(
        "agents/list.html",
        agents=found.items,
        next=found.next,
        desks=desks,
        states=list(AgentState),
        state=state,
        search=search or "",
    )


@router.get("/new")
async def ask_for_new(request: Request, page: Answering) -> HTMLResponse:
    return await page.answer("agents/new.html", mission="", wrong=None, caps=_caps(request))


@router.post("/new")
async def make(
    request: Request, access: Owned, wanted: Annotated[NewAgent, Form()], afterwards: Afterwards
) -> Response:
    """Leads to the agent's own page, where it is seen being configured."""
    ordered = await agent_commands.create(access.session, access.owner_id, wanted, _caps(request))
    afterwards.tell(ordered.event)
    return RedirectResponse(f"/agents/{ordered.agent.id}", HTTPStatus.SEE_OTHER)


def _caps(request: Request) -> Caps:
    """Of agents that are made from now on."""
    settings: Settings = request.app.state.settings
    return Caps(settings.budget_usd_per_day, settings.budget_calls_per_day)
