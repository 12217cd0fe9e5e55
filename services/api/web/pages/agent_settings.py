"""What an agent's owner decides of it: its name and rhythm, its models, what it may spend, its mission, its end."""

from http import HTTPStatus
from typing import Annotated, Any, Final, Literal

from fastapi import APIRouter, Request
from fastapi import Form as Sent
from starlette.responses import HTMLResponse, RedirectResponse, Response

from services.api.auth.dependencies import AgentAccess, OwnedAgent
from services.api.commands import agents as agent_commands
from services.api.commands.agents import ChangedAgent, NewConfiguration
from services.api.http.dependencies import Afterwards
from services.api.http.problem_details import ProblemError
from services.api.queries import agents, costs
from services.api.routers.budgets import NewBudget
from services.api.web.forms import Anew, Deletion, General, ModelsOfPhases
from services.api.web.rendering import Answering, Page
from shared.agents import agents as store
from shared.billing import budgets as billing_budgets
from shared.enums import PROMPTED, Phase
from shared.runtime.settings import Settings

router = APIRouter(prefix="/agents/{agent}/settings")

Saved = Literal["general", "models", "budget"]
_TAGGED: Final = '"{}.form"'
"""As the ETag of what the form was filled from begins."""


@router.get("")
async def look(
    request: Request, access: OwnedAgent, page: Answering, saved: Saved | None = None
) -> HTMLResponse:
    return await _page(request, access, page, saved=saved)


@router.post("")
async def change(
    request: Request, access: OwnedAgent, page: Answering, wanted: Annotated[General, Sent()]
) -> Response:
    changed = ChangedAgent(**wanted.model_dump(exclude={"version"}))
    try:
        await _change(access, changed, wanted.version)
    except ProblemError as error:
        return await _page(request, access, page, error=error, general=wanted)
    return _saved(access, "general")


@router.post("/models")
async def change_models(
    request: Request, access: OwnedAgent, page: Answering, wanted: Annotated[ModelsOfPhases, Sent()]
) -> Response:
    try:
        await _change(access, ChangedAgent(models=wanted.models), wanted.version)
    except ProblemError as error:
        return await _page(request, access, page, error=error, models=wanted.models)
    return _saved(access, "models")


@router.post("/budget")
async def cap(access: OwnedAgent, wanted: Annotated[NewBudget, Sent()]) -> Response:
    await billing_budgets.cap_agent(access.session, access.agent.id, wanted.caps)
    return _saved(access, "budget")


@router.post("/configure")
async def configure(
    access: OwnedAgent, wanted: Annotated[Anew, Sent()], afterwards: Afterwards
) -> Response:
    """Leads to where it is seen."""
    ordered = await agent_commands.configure(
        access.session, access.owner_id, access.agent.id, NewConfiguration(**wanted.model_dump())
    )
    afterwards.tell(ordered.event)
    return RedirectResponse(f"/agents/{access.agent.id}", HTTPStatus.SEE_OTHER)


@router.post("/delete")
async def delete(
    request: Request, access: OwnedAgent, page: Answering, wanted: Annotated[Deletion, Sent()]
) -> Response:
    """Only by who has typed its name: nothing brings it back."""
    if wanted.name.strip() != access.agent.name:
        told = f"That is not its name: type {access.agent.name} to delete it."
        error = ProblemError(HTTPStatus.UNPROCESSABLE_ENTITY, "other-name", told)
        return await _page(request, access, page, error=error, deleting=wanted.name)
    await store.delete(access.session, access.agent.id)
    return RedirectResponse("/agents", HTTPStatus.SEE_OTHER)


async def _change(access: AgentAccess, wanted: ChangedAgent, version: str) -> None:
    """What is refused leaves the transaction as it was, so that the page can be read in it."""
    async with access.session.begin_nested():
        await agent_commands.change(
            access.session, access.owner_id, access.agent.id, wanted, _TAGGED.format(version)
        )


def _saved(access: AgentAccess, what: Saved) -> Response:
    there = f"/agents/{access.agent.id}/settings?saved={what}#{what}"
    return RedirectResponse(there, HTTPStatus.SEE_OTHER)


async def _page(
    request: Request,
    access: AgentAccess,
    page: Page,
    *,
    saved: Saved | None = None,
    error: ProblemError | None = None,
    general: General | None = None,
    models: dict[Phase, str] | None = None,
    deleting: str | None = None,
) -> HTMLResponse:
    """With `error`, beside the form that was refused, which keeps what was written into it."""
    settings: Settings = request.app.state.settings
    agent = await agent_commands.details(access.session, access.owner_id, access.agent.id)
    return await page.answer(
        "agents/settings.html",
        status=HTTPStatus.OK if error is None else error.status,
        agent=agent,
        version=agent_commands.version_of(agent),
        saved=saved,
        error=error,
        has_changed=error is not None and error.status == HTTPStatus.PRECONDITION_FAILED,
        general=general or agent,
        is_general=general is not None,
        models=agent.models if models is None else models,
        is_models=models is not None,
        deleting=deleting,
        **await _known(access, settings),
    )


async def _known(access: AgentAccess, settings: Settings) -> dict[str, Any]:
    return {
        "phases": list(Phase),
        "prompted": list(PROMPTED),
        "default_model": settings.model,
        "budget": await costs.agent_budget(access.session, access.agent.id),
        "prompts": await agents.current_prompts(access.session, access.agent.id),
    }
