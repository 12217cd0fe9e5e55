"""Agents: made, looked at, paused, run, deleted."""

from http import HTTPStatus
from typing import Annotated

from fastapi import APIRouter, Body

from services.api import command
from services.api.access import Owned, OwnedAgent
from services.api.command import NewAgent
from services.api.hints import Afterwards
from shared.store import agents as store
from shared.store.reading import agents, calls
from shared.store.reading.shapes import AgentDetails, AgentView, CallsView

router = APIRouter(prefix="/agents", tags=["agents"])


@router.post("", status_code=HTTPStatus.CREATED)
async def create(
    access: Owned, wanted: Annotated[NewAgent, Body()], afterwards: Afterwards
) -> AgentDetails:
    """A new agent. It is configured first, then runs at once, and from then on at its interval."""
    ordered = await command.create(access.session, access.owner_id, wanted)
    afterwards.tell(ordered.event)
    return ordered.agent


@router.get("")
async def list_all(access: Owned) -> list[AgentView]:
    """By name."""
    return await agents.of_owner(access.session, access.owner_id)


@router.get("/{agent}")
async def show(access: OwnedAgent) -> AgentDetails:
    return access.agent


@router.delete("/{agent}", status_code=HTTPStatus.NO_CONTENT)
async def delete(access: OwnedAgent) -> None:
    """With everything it knows. What it is doing ends with it."""
    await store.delete(access.session, access.agent.id)


@router.post("/{agent}/pause")
async def pause(access: OwnedAgent) -> AgentDetails:
    """No iteration is started by the clock any more; one that runs is let end."""
    return await command.set_active(access.session, access.owner_id, access.agent.id, active=False)


@router.post("/{agent}/resume")
async def resume(access: OwnedAgent) -> AgentDetails:
    return await command.set_active(access.session, access.owner_id, access.agent.id, active=True)


@router.post(
    "/{agent}/run",
    status_code=HTTPStatus.ACCEPTED,
    responses={409: {"description": "The agent could not be configured"}},
)
async def run(access: OwnedAgent) -> AgentDetails:
    """Asks for an iteration now, or as soon as the present one has ended; asking twice asks for one."""
    return await command.run_now(access.session, access.owner_id, access.agent)


@router.get("/{agent}/calls")
async def list_calls(access: OwnedAgent) -> CallsView:
    """How often the model and the search service were asked, and what is known of the cost."""
    return await calls.of_agent(access.session, access.owner_id, access.agent.id)
