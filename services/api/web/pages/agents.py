"""Pages of agents: list, current work, settings, prompts."""

from collections.abc import Sequence
from dataclasses import dataclass
from http import HTTPStatus
from itertools import chain
from typing import Annotated, Any, Final, Literal
from uuid import UUID

from fastapi import APIRouter, Form, Query, Request
from starlette.responses import HTMLResponse, RedirectResponse, Response

from services.api.auth.dependencies import AgentAccess, OwnedAccess, OwnedAgent
from services.api.commands import agents as agent_commands
from services.api.commands.agents import ChangedAgent, NewConfiguration
from services.api.http.dependencies import EventAfterCommit, PageQuery
from services.api.http.problem_details import ProblemError, validation_as_problem
from services.api.paths import HOME
from services.api.queries import agents as agent_queries
from services.api.queries import conclusions, costs, forecast, graph, iterations
from services.api.queries.agents import AgentState
from services.api.routers.costs import NewBudget
from services.api.web.forms import (
    UNLESS_BLANK,
    ConfigureForm,
    DeletionForm,
    GeneralForm,
    ModelsForm,
    NewAgentForm,
    PromptForm,
)
from services.api.web.presenters.iterations import Flow, build_flow
from services.api.web.rendering import Page, PageResponse
from services.api.web.text import DiffRun, word_diff
from shared.agents import agents as agent_store
from shared.billing import budgets as billing_budgets
from shared.billing.budgets import Caps
from shared.enums import PROMPTED_PHASES, AgentStatus, Phase
from shared.graph import labels
from shared.runtime.settings import Settings
from shared.schemas.agents import PromptedPhase, PromptResponse
from shared.schemas.base import AgentDetails, PageRequest

router = APIRouter()


@router.get("/")
async def redirect_home() -> RedirectResponse:
    return RedirectResponse(HOME, HTTPStatus.SEE_OTHER)


StateFilter = Annotated[AgentState | None, UNLESS_BLANK, Query()]


@router.get("/agents")
async def list_agents(
    access: OwnedAccess,
    page: PageResponse,
    page_request: PageQuery,
    state: StateFilter = None,
    search: Annotated[str | None, Query(max_length=200)] = None,
) -> HTMLResponse:
    agents_page = await agent_queries.list_agents(
        access.session, access.owner_id, page_request, state=state, search=search
    )
    counters_by_agent = await agent_queries.dashboard_counters(
        access.session, [agent.id for agent in agents_page.items]
    )
    return await page.answer(
        "agents/list.html",
        agents=agents_page.items,
        next=agents_page.next,
        counters_by_agent=counters_by_agent,
        states=list(AgentState),
        state=state,
        search=search or "",
    )


@router.get("/agents/new")
async def show_new_agent_form(request: Request, page: PageResponse) -> HTMLResponse:
    expected = forecast.day_forecast(request.app.state.settings, DEFAULT_INTERVAL_SECONDS)
    return await page.answer(
        "agents/new.html", mission="", wrong=None, caps=_default_caps(request), forecast=expected
    )


@router.post("/agents/new")
async def create_agent(
    request: Request,
    access: OwnedAccess,
    form: Annotated[NewAgentForm, Form()],
    afterwards: EventAfterCommit,
) -> Response:
    """Redirects to the new agent's page, which shows its configuration."""
    result = await agent_commands.create_agent(
        access.session, access.owner_id, form, _default_caps(request)
    )
    afterwards.publish(result.event)
    return RedirectResponse(f"/agents/{result.agent.id}", HTTPStatus.SEE_OTHER)


def _default_caps(request: Request) -> Caps:
    """Returns the initial budget of new agents."""
    settings: Settings = request.app.state.settings
    return Caps(settings.budget_usd_per_day, settings.budget_calls_per_day)


DEFAULT_INTERVAL_SECONDS: Final = 300
LATEST: Final = 3
SIDEBAR: Final = "sidebar"
"""The part of the page that changes rarely during an iteration."""
_LATEST_PAGE: Final = PageRequest(LATEST)


@router.get("/agents/{agent}")
async def show_agent(access: OwnedAgent, page: PageResponse) -> HTMLResponse:
    agent = await agent_commands.get_details(access.session, access.owner_id, access.agent.id)
    context: dict[str, Any] = {"agent": agent, "is_part": page.part is not None}
    if page.part in (None, "now"):
        context |= await _progress_context(access, agent)
    if page.part in (None, SIDEBAR):
        context |= await _side_context(access)
    return await page.answer("agents/now.html", **context)


@router.post("/agents/{agent}/run")
async def run_agent(access: OwnedAgent) -> Response:
    await agent_commands.request_run(access.session, access.owner_id, access.agent.id)
    return _to_agent(access)


@router.post("/agents/{agent}/pause")
async def pause_agent(access: OwnedAgent) -> Response:
    await agent_commands.set_active(access.session, access.owner_id, access.agent.id, active=False)
    return _to_agent(access)


@router.post("/agents/{agent}/resume")
async def resume_agent(access: OwnedAgent) -> Response:
    await agent_commands.set_active(access.session, access.owner_id, access.agent.id, active=True)
    return _to_agent(access)


def _to_agent(access: AgentAccess) -> Response:
    return RedirectResponse(f"/agents/{access.agent.id}", HTTPStatus.SEE_OTHER)


async def _progress_context(access: AgentAccess, agent: AgentDetails) -> dict[str, Any]:
    iteration = agent.last_iteration
    progress = (
        None
        if iteration is None
        else await iterations.iteration_progress(access.session, iteration)
    )
    flow = None if progress is None else build_flow(progress)
    return {
        "progress": progress,
        "flow": flow,
        "named": {} if flow is None else await _conclusion_labels(access, flow),
        "usage": await costs.agent_usage(access.session, agent.id)
        if agent.suspended_until
        else None,
        **await _configuration_context(access, agent),
    }


async def _conclusion_labels(access: AgentAccess, flow: Flow) -> dict[UUID, labels.Label]:
    """Returns the labels of the analyses and advice on the cards."""
    step_cards = list(chain.from_iterable(stage.step_cards for stage in flow.stages))
    analyses = [analysis for step_card in step_cards for analysis in step_card.analyses]
    advice = [advice_item for step_card in step_cards for _, advice_item in step_card.advice]
    node_ids = [*analyses, *advice]
    if not node_ids:
        return {}
    return await labels.load_node_labels(access.session, access.scope, node_ids)


async def _configuration_context(access: AgentAccess, agent: AgentDetails) -> dict[str, Any]:
    """Returns the progress of the configuration, until the first iteration has ended."""
    is_new = agent.status != AgentStatus.READY or _is_in_first_iteration(agent)
    if not is_new or agent.configuration is None:
        return {"making": [], "node_types": [], "edge_types": [], "is_new": is_new}
    runs = await iterations.list_runs_of_step(access.session, agent.configuration.step_id)
    nodes = await graph.list_node_types(access.session, access.scope, PageRequest())
    edges = await graph.list_edge_types(access.session, access.scope, PageRequest())
    return {
        "making": runs,
        "node_types": nodes.items,
        "edge_types": edges.items,
        "is_new": is_new,
    }


def _is_in_first_iteration(agent: AgentDetails) -> bool:
    last = agent.last_iteration
    return last is None or (last.number == 1 and last.ended_at is None)


async def _side_context(access: AgentAccess) -> dict[str, Any]:
    counters_by_agent = await agent_queries.dashboard_counters(access.session, [access.agent.id])
    requests = await conclusions.list_investigation_requests(
        access.session, access.owner_id, access.agent.id, _LATEST_PAGE, is_open=True
    )
    return {
        "counters": counters_by_agent[access.agent.id],
        "latest": await conclusions.newest_conclusions(access.session, access.scope, LATEST),
        "lacking": requests,
        "budget": await costs.agent_usage(access.session, access.agent.id),
    }


SavedSection = Literal["general", "models", "budget"]
_ETAG_OF_FORM: Final = '"{}.form"'
"""The start of the ETag of the form's version."""


@router.get("/agents/{agent}/settings")
async def show_settings(
    request: Request, access: OwnedAgent, page: PageResponse, saved: SavedSection | None = None
) -> HTMLResponse:
    return await _settings_page(request, access, page, saved=saved)


@router.post("/agents/{agent}/settings")
async def change_agent(
    request: Request, access: OwnedAgent, page: PageResponse, form: Annotated[GeneralForm, Form()]
) -> Response:
    try:
        with validation_as_problem():
            changes = ChangedAgent(**form.model_dump(exclude={"version"}))
        await _apply_change(access, changes, form.version)
    except ProblemError as error:
        return await _settings_page(request, access, page, error=error, general=form)
    return _to_settings(access, "general")


@router.post("/agents/{agent}/settings/models")
async def change_models(
    request: Request, access: OwnedAgent, page: PageResponse, form: Annotated[ModelsForm, Form()]
) -> Response:
    try:
        await _apply_change(access, ChangedAgent(models=form.models), form.version)
    except ProblemError as error:
        return await _settings_page(request, access, page, error=error, models=form.models)
    return _to_settings(access, "models")


@router.post("/agents/{agent}/settings/budget")
async def set_budget(access: OwnedAgent, form: Annotated[NewBudget, Form()]) -> Response:
    await billing_budgets.cap_agent(access.session, access.agent.id, form.caps)
    return _to_settings(access, "budget")


@router.post("/agents/{agent}/settings/configure")
async def configure_agent(
    access: OwnedAgent, form: Annotated[ConfigureForm, Form()], afterwards: EventAfterCommit
) -> Response:
    """Redirects to the agent's page, which shows the progress."""
    result = await agent_commands.configure_agent(
        access.session, access.owner_id, access.agent.id, NewConfiguration(**form.model_dump())
    )
    afterwards.publish(result.event)
    return RedirectResponse(f"/agents/{access.agent.id}", HTTPStatus.SEE_OTHER)


@router.post("/agents/{agent}/settings/delete")
async def delete_agent(
    request: Request,
    access: OwnedAgent,
    page: PageResponse,
    form: Annotated[DeletionForm, Form()],
) -> Response:
    """Deletes the agent if its name was typed correctly: this cannot be undone."""
    if form.name.strip() != access.agent.name:
        detail = f"That is not its name: type {access.agent.name} to delete it."
        error = ProblemError(HTTPStatus.UNPROCESSABLE_ENTITY, "other-name", detail)
        return await _settings_page(request, access, page, error=error, deleting=form.name)
    await agent_store.delete_agent(access.session, access.agent.id)
    return RedirectResponse("/agents", HTTPStatus.SEE_OTHER)


async def _apply_change(access: AgentAccess, changes: ChangedAgent, version: str) -> None:
    """Runs in a savepoint, so that after a rejection the page can be rendered in the same transaction."""
    async with access.session.begin_nested():
        await agent_commands.change_agent(
            access.session, access.owner_id, access.agent.id, changes, _ETAG_OF_FORM.format(version)
        )


def _to_settings(access: AgentAccess, section: SavedSection) -> Response:
    url = f"/agents/{access.agent.id}/settings?saved={section}#{section}"
    return RedirectResponse(url, HTTPStatus.SEE_OTHER)


async def _settings_page(
    request: Request,
    access: AgentAccess,
    page: Page,
    *,
    saved: SavedSection | None = None,
    error: ProblemError | None = None,
    general: GeneralForm | None = None,
    models: dict[Phase, str] | None = None,
    deleting: str | None = None,
) -> HTMLResponse:
    """With `error`, the rejected form is shown with its input and the error."""
    settings: Settings = request.app.state.settings
    agent = await agent_commands.get_details(access.session, access.owner_id, access.agent.id)
    return await page.answer(
        "agents/settings.html",
        status=HTTPStatus.OK if error is None else error.status,
        agent=agent,
        version=agent_commands.agent_version(agent),
        saved=saved,
        error=error,
        has_changed=error is not None and error.status == HTTPStatus.PRECONDITION_FAILED,
        general=general or agent,
        is_general=general is not None,
        models=agent.models if models is None else models,
        is_models=models is not None,
        deleting=deleting,
        **await _settings_context(access, settings),
    )


async def _settings_context(access: AgentAccess, settings: Settings) -> dict[str, Any]:
    return {
        "phases": list(Phase),
        "prompted": list(PROMPTED_PHASES),
        "default_model": settings.model,
        "budget": await costs.agent_budget(access.session, access.agent.id),
        "prompts": await agent_queries.current_prompts(access.session, access.agent.id),
    }


VERSIONS_PER_PAGE: Final = 10


@dataclass(frozen=True)
class PromptVersion:
    """`changes` is the diff to the previous version; None for the first."""

    prompt: PromptResponse
    changes: Sequence[DiffRun] | None


@router.get("/agents/{agent}/settings/prompts/{phase}")
async def show_prompt(
    access: OwnedAgent,
    page: PageResponse,
    phase: PromptedPhase,
    cursor: str | None = None,
    saved: bool = False,
) -> HTMLResponse:
    return await _prompt_page(access, page, phase, cursor=cursor, saved=saved)


@router.post("/agents/{agent}/settings/prompts/{phase}")
async def edit_prompt(
    access: OwnedAgent,
    page: PageResponse,
    phase: PromptedPhase,
    form: Annotated[PromptForm, Form()],
) -> Response:
    """Saves the prompt. If somebody else has changed it since, shows both versions instead."""
    await agent_store.lock_agent(access.session, access.agent.id)
    present = await _current_prompt(access, phase)
    if present is not None and present.version != form.version:
        return await _prompt_page(access, page, phase, edited=form.prompt)
    await agent_commands.edit_prompt(
        access.session, access.agent.id, Phase(phase), form.prompt, versions=None
    )
    url = f"/agents/{access.agent.id}/settings/prompts/{phase}?saved=true"
    return RedirectResponse(url, HTTPStatus.SEE_OTHER)


async def _prompt_page(
    access: AgentAccess,
    page: Page,
    phase: PromptedPhase,
    *,
    cursor: str | None = None,
    saved: bool = False,
    edited: str | None = None,
) -> HTMLResponse:
    """With `edited`, shows that text as not saved because the prompt has changed."""
    present = await _current_prompt(access, phase)
    versions, next_cursor = await _versions(access, phase, cursor)
    clash = None if edited is None or present is None else word_diff(present.prompt, edited)
    return await page.answer(
        "agents/prompt.html",
        status=HTTPStatus.OK if edited is None else HTTPStatus.PRECONDITION_FAILED,
        agent=access.agent,
        phase=phase,
        present=present,
        edited=edited,
        clash=clash,
        saved=saved,
        versions=versions,
        next=next_cursor,
    )


async def _current_prompt(access: AgentAccess, phase: PromptedPhase) -> PromptResponse | None:
    """None before the agent is configured."""
    prompts = await agent_queries.current_prompts(access.session, access.agent.id)
    return next((row for row in prompts.items if row.phase == phase), None)


async def _versions(
    access: AgentAccess, phase: PromptedPhase, cursor: str | None
) -> tuple[list[PromptVersion], str | None]:
    """Returns versions, newest first. The version before the oldest is read too, for its diff."""
    page_request = PageRequest(VERSIONS_PER_PAGE, cursor)
    prompt_versions_page = await agent_queries.list_prompt_versions(
        access.session, access.agent.id, phase, page_request
    )
    previous_versions = [
        *prompt_versions_page.items[1:],
        await _first_of_next_page(access, phase, prompt_versions_page.next),
    ]
    versions = [
        PromptVersion(row, None if previous is None else word_diff(previous.prompt, row.prompt))
        for row, previous in zip(prompt_versions_page.items, previous_versions, strict=False)
    ]
    return versions, prompt_versions_page.next


async def _first_of_next_page(
    access: AgentAccess, phase: PromptedPhase, cursor: str | None
) -> PromptResponse | None:
    if cursor is None:
        return None
    prompt_versions_page = await agent_queries.list_prompt_versions(
        access.session, access.agent.id, phase, PageRequest(1, cursor)
    )
    return next(iter(prompt_versions_page.items), None)
