"""Agents: create, change, run and delete them; their prompts and configuration."""

from http import HTTPStatus
from typing import Annotated

from fastapi import APIRouter, Body, Query, Request
from pydantic import AfterValidator, BaseModel, ConfigDict
from starlette.responses import Response

from services.api.auth.dependencies import OwnedAccess, OwnedAgent
from services.api.commands import agents as agent_commands
from services.api.commands.agents import ChangedAgent, NewAgent, NewConfiguration
from services.api.http.dependencies import EventAfterCommit, Page, Paging
from services.api.http.etags import UNCHANGED, IfMatch, etag_response
from services.api.http.idempotency import Idempotent
from services.api.http.openapi import length_in_schema
from services.api.http.problem_details import NotFoundError, problems
from services.api.queries import agents as agent_queries
from services.api.queries.agents import AgentState
from shared.agents import agents as agent_store
from shared.agents import configuration
from shared.billing.budgets import Caps
from shared.enums import Phase
from shared.runtime.settings import Settings
from shared.schemas.agents import ConfigurationDetails, PromptedPhase, PromptsView, PromptView
from shared.schemas.base import AgentDetails, AgentView

agents_router = APIRouter(prefix="/agents", tags=["agents"])
configuration_router = APIRouter(prefix="/agents/{agent}", tags=["configuration"])


@agents_router.post(
    "",
    name="create",
    status_code=HTTPStatus.CREATED,
    response_model=AgentDetails,
    responses=problems(HTTPStatus.CONFLICT),
)
async def create_agent(
    request: Request,
    access: OwnedAccess,
    once: Idempotent,
    body: Annotated[NewAgent, Body()],
    afterwards: EventAfterCommit,
) -> Response:
    """A new agent. It is configured first, then runs at once, and from then on at its interval."""
    settings: Settings = request.app.state.settings
    caps = Caps(settings.budget_usd_per_day, settings.budget_calls_per_day)

    async def make() -> AgentDetails:
        result = await agent_commands.create_agent(access.session, access.owner_id, body, caps)
        afterwards.tell(result.event)
        return result.agent

    return await once.answer(make)


@agents_router.get("", name="list_all")
async def list_agents(
    access: OwnedAccess,
    paging: Paging,
    state: AgentState | None = None,
    search: Annotated[
        str | None, Query(max_length=200, description="Words, or parts of them, of the name")
    ] = None,
) -> Page[AgentView]:
    """By name."""
    return await agent_queries.list_agents(
        access.session, access.owner_id, paging, state=state, search=search
    )


@agents_router.get("/{agent}", name="show", response_model=AgentDetails, responses=UNCHANGED)
async def show_agent(access: OwnedAgent, request: Request) -> Response:
    details = await agent_commands.get_details(access.session, access.owner_id, access.agent.id)
    return etag_response(request, details, version=agent_commands.agent_version(details))


@agents_router.patch(
    "/{agent}",
    name="change",
    response_model=AgentDetails,
    responses=problems(HTTPStatus.CONFLICT, HTTPStatus.PRECONDITION_FAILED),
)
async def change_agent(
    access: OwnedAgent,
    body: Annotated[ChangedAgent, Body()],
    request: Request,
    if_match: IfMatch = None,
) -> Response:
    """What is given is changed; with `If-Match`, only where nobody changed the agent meanwhile. Its work does not count."""
    agent = await agent_commands.change_agent(
        access.session, access.owner_id, access.agent.id, body, if_match
    )
    return etag_response(request, agent, version=agent_commands.agent_version(agent))


@agents_router.delete("/{agent}", name="delete", status_code=HTTPStatus.NO_CONTENT)
async def delete_agent(access: OwnedAgent) -> None:
    """With everything it knows. What it is doing ends with it."""
    await agent_store.delete_agent(access.session, access.agent.id)


@agents_router.post("/{agent}/pause", name="pause")
async def pause_agent(access: OwnedAgent) -> AgentDetails:
    """No iteration is started by the clock any more; one that runs is let end."""
    return await agent_commands.set_active(
        access.session, access.owner_id, access.agent.id, active=False
    )


@agents_router.post("/{agent}/resume", name="resume")
async def resume_agent(access: OwnedAgent) -> AgentDetails:
    return await agent_commands.set_active(
        access.session, access.owner_id, access.agent.id, active=True
    )


@agents_router.post(
    "/{agent}/run",
    name="run",
    status_code=HTTPStatus.ACCEPTED,
    responses=problems(HTTPStatus.CONFLICT),
)
async def run_agent(access: OwnedAgent) -> AgentDetails:
    """Asks for an iteration now, or as soon as the present one has ended; asking twice asks for one.

    An agent that rests because a budget is used up is not asked, nor one that could not be configured.
    """
    return await agent_commands.request_run(access.session, access.owner_id, access.agent.id)


class NewPrompt(BaseModel):
    model_config = ConfigDict(extra="forbid")

    prompt: Annotated[
        str,
        AfterValidator(configuration.validate_prompt),
        length_in_schema(1, configuration.MAX_PROMPT_CHARS),
    ]


@configuration_router.post("/configure", status_code=HTTPStatus.ACCEPTED)
async def configure(
    access: OwnedAgent,
    afterwards: EventAfterCommit,
    body: Annotated[NewConfiguration, Body()] = NewConfiguration(),  # noqa: B008  never changed
) -> AgentDetails:
    """Has prompts and types made anew, of another mission where one is given. The agent goes on with those it has
    until the new ones are there; one that could not be configured is tried again. Asked twice, the last wish counts.
    """
    result = await agent_commands.configure_agent(
        access.session, access.owner_id, access.agent.id, body
    )
    afterwards.tell(result.event)
    return result.agent


@configuration_router.get("/configuration", name="show")
async def show_configuration(access: OwnedAgent) -> ConfigurationDetails:
    """The last time that it was to be configured, with what was said to the model and what it answered."""
    configuration_details = await agent_queries.newest_configuration_details(
        access.session, access.agent.id
    )
    if configuration_details is None:
        raise NotFoundError("configuration of agent", access.agent.name)
    return configuration_details


@configuration_router.get("/prompts", response_model=PromptsView, responses=UNCHANGED)
async def show_prompts(access: OwnedAgent, request: Request) -> Response:
    """The six system prompts as they are now. The ETag says their version, for If-Match."""
    prompts = await agent_queries.current_prompts(access.session, access.agent.id)
    return etag_response(request, prompts, version=str(prompts.version))


@configuration_router.get("/prompts/history")
async def list_versions(
    access: OwnedAgent, paging: Paging, phase: PromptedPhase | None = None
) -> Page[PromptView]:
    """Every prompt that there was, the newest version first."""
    return await agent_queries.list_prompt_versions(access.session, access.agent.id, phase, paging)


@configuration_router.put(
    "/prompts/{phase}",
    response_model=PromptsView,
    responses=problems(HTTPStatus.CONFLICT, HTTPStatus.PRECONDITION_FAILED),
)
async def edit_prompt(
    access: OwnedAgent,
    phase: PromptedPhase,
    body: Annotated[NewPrompt, Body()],
    request: Request,
    if_match: IfMatch = None,
) -> Response:
    """Replaces one prompt. What runs goes on with the one it began with; the next run of the phase has the new one."""
    await agent_commands.edit_prompt(
        access.session, access.agent.id, Phase(phase), body.prompt, versions=if_match
    )
    return await show_prompts(access, request)
