"""Agents: made, looked at, changed, paused, run, deleted."""

from http import HTTPStatus
from typing import Annotated

from fastapi import APIRouter, Body, Query, Request
from starlette.responses import Response

from services.api.auth.dependencies import Owned, OwnedAgent
from services.api.commands import agents as agent_commands
from services.api.commands.agents import ChangedAgent, NewAgent
from services.api.http.dependencies import Afterwards, Page, Paging
from services.api.http.etags import UNCHANGED, IfMatch, tagged
from services.api.http.idempotency import AskedOnce
from services.api.http.problem_details import problems
from services.api.queries import agents
from services.api.queries.agents import AgentState
from shared.agents import agents as store
from shared.billing.budgets import Caps
from shared.runtime.settings import Settings
from shared.schemas.base import AgentDetails, AgentView

router = APIRouter(prefix="/agents", tags=["agents"])


@router.post(
    "",
    status_code=HTTPStatus.CREATED,
    response_model=AgentDetails,
    responses=problems(HTTPStatus.CONFLICT),
)
async def create(
    request: Request,
    access: Owned,
    once: AskedOnce,
    wanted: Annotated[NewAgent, Body()],
    afterwards: Afterwards,
) -> Response:
    """A new agent. It is configured first, then runs at once, and from then on at its interval."""
    settings: Settings = request.app.state.settings
    caps = Caps(settings.budget_usd_per_day, settings.budget_calls_per_day)

    async def make() -> AgentDetails:
        ordered = await agent_commands.create(access.session, access.owner_id, wanted, caps)
        afterwards.tell(ordered.event)
        return ordered.agent

    return await once.answer(make)


@router.get("")
async def list_all(
    access: Owned,
    paging: Paging,
    state: AgentState | None = None,
    search: Annotated[
        str | None, Query(max_length=200, description="Words, or parts of them, of the name")
    ] = None,
) -> Page[AgentView]:
    """By name."""
    return await agents.of_owner(
        access.session, access.owner_id, paging, state=state, search=search
    )


@router.get("/{agent}", response_model=AgentDetails, responses=UNCHANGED)
async def show(access: OwnedAgent, request: Request) -> Response:
    found = await agent_commands.details(access.session, access.owner_id, access.agent.id)
    return tagged(request, found, version=agent_commands.version_of(found))


@router.patch(
    "/{agent}",
    response_model=AgentDetails,
    responses=problems(HTTPStatus.CONFLICT, HTTPStatus.PRECONDITION_FAILED),
)
async def change(
    access: OwnedAgent,
    wanted: Annotated[ChangedAgent, Body()],
    request: Request,
    if_match: IfMatch = None,
) -> Response:
    """What is given is changed; with `If-Match`, only where nobody changed the agent meanwhile. Its work does not count."""
    changed = await agent_commands.change(
        access.session, access.owner_id, access.agent.id, wanted, if_match
    )
    return tagged(request, changed, version=agent_commands.version_of(changed))


@router.delete("/{agent}", status_code=HTTPStatus.NO_CONTENT)
async def delete(access: OwnedAgent) -> None:
    """With everything it knows. What it is doing ends with it."""
    await store.delete(access.session, access.agent.id)


@router.post("/{agent}/pause")
async def pause(access: OwnedAgent) -> AgentDetails:
    """No iteration is started by the clock any more; one that runs is let end."""
    return await agent_commands.set_active(
        access.session, access.owner_id, access.agent.id, active=False
    )


@router.post("/{agent}/resume")
async def resume(access: OwnedAgent) -> AgentDetails:
    return await agent_commands.set_active(
        access.session, access.owner_id, access.agent.id, active=True
    )


@router.post(
    "/{agent}/run",
    status_code=HTTPStatus.ACCEPTED,
    responses=problems(HTTPStatus.CONFLICT),
)
async def run(access: OwnedAgent) -> AgentDetails:
    """Asks for an iteration now, or as soon as the present one has ended; asking twice asks for one.

    An agent that rests because a budget is used up is not asked, nor one that could not be configured.
    """
    return await agent_commands.run_now(access.session, access.owner_id, access.agent.id)
