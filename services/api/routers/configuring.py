"""How an agent is made of its mission: its prompts, its types, and having them made anew."""

from http import HTTPStatus
from typing import Annotated

from fastapi import APIRouter, Body, Request
from pydantic import AfterValidator, BaseModel, ConfigDict
from starlette.responses import Response

from services.api.auth.dependencies import OwnedAgent
from services.api.commands import agents as agent_commands
from services.api.commands.agents import NewConfiguration
from services.api.http.dependencies import Afterwards, Page, Paging
from services.api.http.etags import UNCHANGED, IfMatch, tagged
from services.api.http.openapi import length_told
from services.api.http.problem_details import NotFoundError, problems
from services.api.queries import agents
from shared.agents import configuration
from shared.enums import Phase
from shared.schemas.agents import ConfigurationDetails, PromptedPhase, PromptsView, PromptView
from shared.schemas.base import AgentDetails

router = APIRouter(prefix="/agents/{agent}", tags=["configuration"])


class NewPrompt(BaseModel):
    model_config = ConfigDict(extra="forbid")

    prompt: Annotated[
        str,
        AfterValidator(configuration.checked),
        length_told(1, configuration.LONGEST_PROMPT_CHARACTERS),
    ]


@router.post("/configure", status_code=HTTPStatus.ACCEPTED)
async def configure(
    access: OwnedAgent,
    afterwards: Afterwards,
    wanted: Annotated[NewConfiguration, Body()] = NewConfiguration(),  # noqa: B008  never changed
) -> AgentDetails:
    """Has prompts and types made anew, of another mission where one is given. The agent goes on with those it has
    until the new ones are there; one that could not be configured is tried again. Asked twice, the last wish counts.
    """
    ordered = await agent_commands.configure(
        access.session, access.owner_id, access.agent.id, wanted
    )
    afterwards.tell(ordered.event)
    return ordered.agent


@router.get("/configuration")
async def show(access: OwnedAgent) -> ConfigurationDetails:
    """The last time that it was to be configured, with what was said to the model and what it answered."""
    found = await agents.newest_details(access.session, access.agent.id)
    if found is None:
        raise NotFoundError("configuration of agent", access.agent.name)
    return found


@router.get("/prompts", response_model=PromptsView, responses=UNCHANGED)
async def show_prompts(access: OwnedAgent, request: Request) -> Response:
    """The six system prompts as they are now. The ETag says their version, for If-Match."""
    found = await agents.current_prompts(access.session, access.agent.id)
    return tagged(request, found, version=str(found.version))


@router.get("/prompts/history")
async def list_versions(
    access: OwnedAgent, paging: Paging, phase: PromptedPhase | None = None
) -> Page[PromptView]:
    """Every prompt that there was, the newest version first."""
    return await agents.history(access.session, access.agent.id, phase, paging)


@router.put(
    "/prompts/{phase}",
    response_model=PromptsView,
    responses=problems(HTTPStatus.CONFLICT, HTTPStatus.PRECONDITION_FAILED),
)
async def edit_prompt(
    access: OwnedAgent,
    phase: PromptedPhase,
    wanted: Annotated[NewPrompt, Body()],
    request: Request,
    if_match: IfMatch = None,
) -> Response:
    """Replaces one prompt. What runs goes on with the one it began with; the next run of the phase has the new one."""
    await agent_commands.edit_prompt(
        access.session, access.agent.id, Phase(phase), wanted.prompt, versions=if_match
    )
    return await show_prompts(access, request)
