"""What an agent does now: its iteration while it runs, how it was made, and what waits for its owner."""

from http import HTTPStatus
from itertools import chain
from typing import Any, Final
from uuid import UUID

from fastapi import APIRouter
from starlette.responses import HTMLResponse, RedirectResponse, Response

from services.api.auth.dependencies import AgentAccess, OwnedAgent
from services.api.commands import agents as agent_commands
from services.api.queries import agents, conclusions, costs, graph, iterations
from services.api.web.presenters.iterations import Flow, flow_of
from services.api.web.rendering import Answering
from shared.enums import AgentStatus
from shared.graph import labels
from shared.schemas.base import AgentDetails, Wanted

router = APIRouter(prefix="/agents/{agent}")

LATEST: Final = 3
BESIDE: Final = "beside"
"""The part of the page that an iteration changes seldom."""
_FIRST: Final = Wanted(LATEST)


@router.get("")
async def look(access: OwnedAgent, page: Answering) -> HTMLResponse:
    agent = await agent_commands.details(access.session, access.owner_id, access.agent.id)
    known: dict[str, Any] = {"agent": agent, "is_part": page.part is not None}
    if page.part in (None, "now"):
        known |= await _now(access, agent)
    if page.part in (None, BESIDE):
        known |= await _beside(access)
    return await page.answer("agents/now.html", **known)


@router.post("/run")
async def run(access: OwnedAgent) -> Response:
    await agent_commands.run_now(access.session, access.owner_id, access.agent.id)
    return _back(access)


@router.post("/pause")
async def pause(access: OwnedAgent) -> Response:
    await agent_commands.set_active(access.session, access.owner_id, access.agent.id, active=False)
    return _back(access)


@router.post("/resume")
async def resume(access: OwnedAgent) -> Response:
    await agent_commands.set_active(access.session, access.owner_id, access.agent.id, active=True)
    return _back(access)


def _back(access: AgentAccess) -> Response:
    return RedirectResponse(f"/agents/{access.agent.id}", HTTPStatus.SEE_OTHER)


async def _now(access: AgentAccess, agent: AgentDetails) -> dict[str, Any]:
    iteration = agent.last_iteration
    found = (
        None
        if iteration is None
        else await iterations.progress_of_iteration(access.session, iteration)
    )
    flow = None if found is None else flow_of(found)
    return {
        "progress": found,
        "flow": flow,
        "named": {} if flow is None else await _named(access, flow),
        "allowance": await costs.allowance_of_agent(access.session, agent.id)
        if agent.resting_until
        else None,
        **await _making(access, agent),
    }


async def _named(access: AgentAccess, flow: Flow) -> dict[UUID, labels.Named]:
    """What the lanes' analyses and advice are called."""
    lanes = list(chain.from_iterable(stage.lanes for stage in flow.stages))
    analyses = [each for lane in lanes for each in lane.analyses]
    advice = [each for lane in lanes for _, each in lane.advice]
    wanted = [*analyses, *advice]
    if not wanted:
        return {}
    return await labels.nodes_named(access.session, access.owner_id, access.agent.id, wanted)


async def _making(access: AgentAccess, agent: AgentDetails) -> dict[str, Any]:
    """How the agent is made of its mission, until its first iteration has ended; told as it goes."""
    is_new = agent.status != AgentStatus.READY or _is_in_its_first(agent)
    if not is_new or agent.configuration is None:
        return {"making": [], "node_types": [], "edge_types": [], "is_new": is_new}
    making = await iterations.of_step(access.session, agent.configuration.step_id)
    nodes = await graph.node_type_page(access.session, access.scope, Wanted())
    edges = await graph.edge_type_page(access.session, access.scope, Wanted())
    return {
        "making": making,
        "node_types": nodes.items,
        "edge_types": edges.items,
        "is_new": is_new,
    }


def _is_in_its_first(agent: AgentDetails) -> bool:
    last = agent.last_iteration
    return last is None or (last.number == 1 and last.ended_at is None)


async def _beside(access: AgentAccess) -> dict[str, Any]:
    desks = await agents.of_agents(access.session, [access.agent.id])
    lacking = await conclusions.of_agent(
        access.session, access.owner_id, access.agent.id, _FIRST, is_open=True
    )
    return {
        "desk": desks[access.agent.id],
        "latest": await conclusions.conclusions(access.session, access.scope, LATEST),
        "lacking": lacking,
        "budget": await costs.allowance_of_agent(access.session, access.agent.id),
    }
