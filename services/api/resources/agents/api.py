"""Agents: create, change, run and delete them; their prompts and configuration."""

from http import HTTPStatus
from typing import Annotated, Final

from fastapi import APIRouter, Body, Query, Request
from pydantic import AfterValidator, BaseModel, ConfigDict
from starlette.responses import Response

from services.api.auth.dependencies import OwnedAccess, OwnedAgent
from services.api.http.dependencies import EventAfterCommit, Page, PageQuery
from services.api.http.etags import UNCHANGED, IfMatch, etag_response
from services.api.http.idempotency import Idempotent
from services.api.http.problem_details import problems
from services.api.http.texts import length_in_schema
from services.api.resources.agents import commands, model
from services.api.resources.agents.commands import ChangedAgent, NewAgent
from services.api.resources.agents.corpora import require_corpus
from services.api.resources.agents.model import AgentState
from shared.agents import configuration
from shared.billing.budgets import Caps
from shared.enums import Phase
from shared.runtime.settings import Settings
from shared.schemas.agents import PromptedPhase, PromptsResponse
from shared.schemas.base import AgentDetails, AgentResponse

agents_router: Final = APIRouter(prefix="/agents", tags=["agents"])
configuration_router: Final = APIRouter(prefix="/agents/{agent}", tags=["configuration"])


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
    """Creates an agent. It is configured, runs once immediately, and then at its interval."""
    settings: Settings = request.app.state.settings
    caps = Caps(settings.budget_usd_per_day, settings.budget_calls_per_day)

    async def make() -> AgentDetails:
        if body.corpus is not None:
            await require_corpus(settings, body.corpus, access.caller)
        return await commands.create_agent(access, body, caps, afterwards)

    return await once.answer(make)


@agents_router.get("", name="list_all")
async def list_agents(
    access: OwnedAccess,
    page_request: PageQuery,
    state: AgentState | None = None,
    search: Annotated[
        str | None, Query(max_length=200, description="Words of the name, or parts of them")
    ] = None,
) -> Page[AgentResponse]:
    """Lists agents by name."""
    return await model.list_agents(access, page_request, state=state, search=search)


@agents_router.get("/{agent}", name="show", response_model=AgentDetails, responses=UNCHANGED)
async def show_agent(access: OwnedAgent, request: Request) -> Response:
    details = await model.get_agent(access, access.agent.id)
    return etag_response(request, details, version=commands.agent_version(details))


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
    """Changes the given fields; with `If-Match`, only if the agent's settings have not changed since."""
    agent = await commands.change_agent(access, body, if_match)
    return etag_response(request, agent, version=commands.agent_version(agent))


agents_router.delete("/{agent}", name="delete", status_code=HTTPStatus.NO_CONTENT)(
    commands.delete_agent
)
agents_router.post("/{agent}/pause", name="pause")(commands.pause_agent)
agents_router.post("/{agent}/resume", name="resume")(commands.resume_agent)
agents_router.post(
    "/{agent}/run",
    name="run",
    status_code=HTTPStatus.ACCEPTED,
    responses=problems(HTTPStatus.CONFLICT),
)(commands.run_agent)


class NewPrompt(BaseModel):
    model_config = ConfigDict(extra="forbid")

    prompt: Annotated[
        str,
        AfterValidator(configuration.validate_prompt),
        length_in_schema(1, configuration.MAX_PROMPT_CHARS),
    ]


configuration_router.post("/configure", status_code=HTTPStatus.ACCEPTED)(commands.configure)
configuration_router.get("/configuration", name="show")(model.get_configuration)
configuration_router.get("/prompts/history", name="list_versions")(model.list_prompt_versions)


@configuration_router.get("/prompts", response_model=PromptsResponse, responses=UNCHANGED)
async def show_prompts(access: OwnedAgent, request: Request) -> Response:
    """The six current system prompts. The ETag is their version, for If-Match."""
    prompts = await model.current_prompts(access)
    return etag_response(request, prompts, version=str(prompts.version))


@configuration_router.put(
    "/prompts/{phase}",
    response_model=PromptsResponse,
    responses=problems(HTTPStatus.CONFLICT, HTTPStatus.PRECONDITION_FAILED),
)
async def edit_prompt(
    access: OwnedAgent,
    phase: PromptedPhase,
    body: Annotated[NewPrompt, Body()],
    request: Request,
    if_match: IfMatch = None,
) -> Response:
    """Replaces a prompt. Running phases keep the previous one; the next run of the phase uses the new one."""
    await commands.edit_prompt(access, Phase(phase), body.prompt, versions=if_match)
    return await show_prompts(access, request)
