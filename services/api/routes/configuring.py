"""How an agent is made of its mission: its prompts, its types, and having them made anew."""

from http import HTTPStatus
from typing import Annotated

from fastapi import APIRouter, Body, Header, Response
from pydantic import AfterValidator, BaseModel, ConfigDict

from services.api import command
from services.api.access import OwnedAgent
from services.api.command import NewConfiguration
from services.api.hints import Afterwards
from services.api.pages import Page, Paging
from services.api.problems import NotFoundError
from services.api.versions import etag
from shared.graph import types
from shared.store import prompts
from shared.store.reading import configurations
from shared.store.reading.configuring_shapes import (
    ConfigurationDetails,
    EdgeTypeDetails,
    NodeTypeDetails,
    PromptedPhase,
    PromptsView,
    PromptView,
    TypesView,
)
from shared.store.reading.shapes import AgentDetails
from shared.store.words import Phase

router = APIRouter(prefix="/agents/{agent}", tags=["configuration"])


class NewPrompt(BaseModel):
    model_config = ConfigDict(extra="forbid")

    prompt: Annotated[str, AfterValidator(prompts.checked)]


@router.post("/configure", status_code=HTTPStatus.ACCEPTED)
async def configure(
    access: OwnedAgent,
    afterwards: Afterwards,
    wanted: Annotated[NewConfiguration, Body()] = NewConfiguration(),  # noqa: B008  never changed
) -> AgentDetails:
    """Has prompts and types made anew, of another mission where one is given. The agent goes on with those it has
    until the new ones are there; one that could not be configured is tried again. Asked twice, the last wish counts.
    """
    ordered = await command.configure(access.session, access.owner_id, access.agent.id, wanted)
    afterwards.tell(ordered.event)
    return ordered.agent


@router.get("/configuration", responses={404: {"description": "None was ever asked for"}})
async def show(access: OwnedAgent) -> ConfigurationDetails:
    """The last time that it was to be configured, with what was said to the model and what it answered."""
    found = await configurations.newest_details(access.session, access.agent.id)
    if found is None:
        raise NotFoundError("configuration of agent", access.agent.name)
    return found


@router.get("/prompts")
async def show_prompts(access: OwnedAgent, response: Response) -> PromptsView:
    """The six system prompts as they are now. The ETag is their version, for If-Match."""
    found = await configurations.current_prompts(access.session, access.agent.id)
    response.headers["ETag"] = etag(found.version)
    return found


@router.get("/prompts/history")
async def list_versions(
    access: OwnedAgent, paging: Paging, phase: PromptedPhase | None = None
) -> Page[PromptView]:
    """Every prompt that there was, the newest version first."""
    return await configurations.history(access.session, access.agent.id, phase, paging)


@router.put(
    "/prompts/{phase}",
    responses={
        409: {"description": "The agent has no prompts yet"},
        412: {"description": "The prompts have changed since"},
    },
)
async def edit_prompt(
    access: OwnedAgent,
    phase: PromptedPhase,
    wanted: Annotated[NewPrompt, Body()],
    response: Response,
    if_match: Annotated[str | None, Header()] = None,
) -> PromptsView:
    """Replaces one prompt. What runs goes on with the one it began with; the next run of the phase has the new one."""
    await command.edit_prompt(
        access.session, access.agent.id, Phase(phase), wanted.prompt, versions=if_match
    )
    return await show_prompts(access, response)


@router.get("/types")
async def show_types(access: OwnedAgent) -> TypesView:
    """The types of its nodes and edges, each with the JSON Schema of its properties and an example."""
    nodes = await types.node_types(access.session, access.scope)
    edges = await types.edge_types(access.session, access.scope)
    return TypesView(
        node_types=[NodeTypeDetails.model_validate(each) for each in nodes],
        edge_types=[EdgeTypeDetails.model_validate(each) for each in edges],
    )
