"""Pages of agents: list, new agent, current work."""

from collections.abc import Sequence
from decimal import Decimal
from http import HTTPStatus
from itertools import chain
from math import ceil
from typing import Annotated, Any, Final, NamedTuple
from uuid import UUID

from fastapi import APIRouter, Query, Request
from starlette.responses import HTMLResponse, RedirectResponse, Response

from services.api.auth.dependencies import Access, AgentAccess, OwnedAccess, OwnedAgent
from services.api.commands import agents as agent_commands
from services.api.commands.agents import (
    DEFAULT_ENTAILMENT_SHARE,
)
from services.api.http.dependencies import EventAfterCommit, PageQuery
from services.api.http.problem_details import ProblemError
from services.api.paths import HOME
from services.api.queries import agents as agent_queries
from services.api.queries import conclusions, costs, forecast, graph, iterations
from services.api.queries.agents import AgentState
from services.api.web.forms import (
    INTERVALS,
    UNLESS_BLANK,
    FormState,
    NewAgentForm,
    Submitted,
    submitted,
    validated,
)
from services.api.web.presenters.agents import TREND_ITERATIONS, AgentRow, Learned, learned, trend
from services.api.web.presenters.iterations import Flow, build_flow, group_troubles
from services.api.web.rendering import Page, PageResponse
from shared.billing.budgets import Caps
from shared.durations import format_duration
from shared.enums import AgentStatus
from shared.graph import labels
from shared.runtime.settings import Settings
from shared.schemas.base import AgentDetails, AgentResponse, PageRequest

router = APIRouter()


@router.get("/")
async def redirect_home() -> RedirectResponse:
    return RedirectResponse(HOME, HTTPStatus.SEE_OTHER)


_FIELD_OF_PROBLEM: Final = {
    "short-maximum": "max_interval_seconds",
    "contradictory-domains": "barred_domains",
}
"""The field beside which a problem of a command is shown."""
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
    return await page.answer(
        "agents/list.html",
        rows=await _agent_rows(access, agents_page.items),
        next=agents_page.next,
        states=list(AgentState),
        state=state,
        search=search or "",
    )


async def _agent_rows(access: Access, agents: Sequence[AgentResponse]) -> list[AgentRow]:
    ids = [agent.id for agent in agents]
    counters = await agent_queries.dashboard_counters(access.session, ids)
    recent = await agent_queries.recent_iterations(access.session, ids, TREND_ITERATIONS)
    conclusions_by_agent = await agent_queries.newest_conclusions(access.session, ids)
    return [
        AgentRow(
            agent, counters[agent.id], trend(recent[agent.id]), conclusions_by_agent.get(agent.id)
        )
        for agent in agents
    ]


DEFAULT_INTERVAL_SECONDS: Final = 300


class Example(NamedTuple):
    """A mission that the form offers. `title` and `gist` say in few words what it is for."""

    icon: str
    title: str
    gist: str
    mission: str


EXAMPLES: Final = (
    Example(
        "globe",
        "Economies of a region",
        "What countries export, and who stands out",
        "Watch energy supply and exports of West African economies, and find what investors should know",
    ),
    Example(
        "trending-up",
        "Market opportunities",
        "Who gains and who loses in an industry",
        "Find short-term opportunities among semiconductor suppliers",
    ),
    Example(
        "shield-check",
        "Regulation",
        "New rules, and what they mean",
        "Watch regulation of stablecoins in the EU and the US, and say what it means for issuers",
    ),
    Example(
        "triangle-alert",
        "Supply risks",
        "What limits the output of producers",
        "Follow lithium producers in South America, and warn of what limits their output",
    ),
)
"""Missions that the form offers. The first one gives advice on the sandbox too, from the documents that come with it."""
BUDGET_OF_FORECAST: Final = 2
"""Without a default budget, the form suggests this multiple of the forecast, so that an agent is limited from the start."""
BUDGET_STEP_USD: Final = Decimal("0.5")


@router.get("/agents/new")
async def show_new_agent_form(
    request: Request, page: PageResponse, interval_seconds: str = ""
) -> HTMLResponse:
    """The part `forecast` is for the interval that is typed."""
    if page.part is not None:
        typed = validated(
            NewAgentForm, {"mission": EXAMPLES[0].mission, "interval_seconds": interval_seconds}
        )
        return await _new_agent_page(request, page, typed, typed.model)
    form = FormState.filled(
        interval_seconds=format_duration(DEFAULT_INTERVAL_SECONDS),
        budget_usd_per_day=_suggested_budget(request),
        feedback_rounds=0,
        entailment_usd_per_day=0,
        entailment_share=DEFAULT_ENTAILMENT_SHARE,
    )
    return await _new_agent_page(request, page, form, None)


@router.post("/agents/new")
async def create_agent(
    request: Request,
    access: OwnedAccess,
    page: PageResponse,
    form: Annotated[Submitted[NewAgentForm], submitted(NewAgentForm)],
    afterwards: EventAfterCommit,
) -> Response:
    """Redirects to the new agent's page, which shows its configuration."""
    if form.model is None:
        return await _new_agent_page(request, page, form, None)
    default = _default_caps(request)
    caps = Caps(form.model.budget_usd_per_day, default.calls_per_day)
    try:
        async with access.session.begin_nested():
            result = await agent_commands.create_agent(
                access.session, access.owner_id, form.model, caps
            )
    except ProblemError as error:
        refused = form.refused(error, _FIELD_OF_PROBLEM)
        return await _new_agent_page(request, page, refused, form.model)
    afterwards.publish(result.event)
    return RedirectResponse(f"/agents/{result.agent.id}", HTTPStatus.SEE_OTHER)


async def _new_agent_page(
    request: Request, page: Page, form: FormState, model: NewAgentForm | None
) -> HTMLResponse:
    interval = DEFAULT_INTERVAL_SECONDS if model is None else model.interval_seconds
    is_known = model is not None or "interval_seconds" not in form.errors
    settings: Settings = request.app.state.settings
    return await page.answer(
        "agents/new.html",
        status=form.status if page.part is None else HTTPStatus.OK,
        form=form,
        intervals=INTERVALS,
        examples=EXAMPLES,
        forecast=forecast.day_forecast(settings, interval) if is_known else None,
        starts=forecast.starts_per_day(interval),
        unboxed=forecast.forecast_without_sandbox(settings, interval),
    )


def _default_caps(request: Request) -> Caps:
    """Returns the initial budget of new agents."""
    settings: Settings = request.app.state.settings
    return Caps(settings.budget_usd_per_day, settings.budget_calls_per_day)


def _suggested_budget(request: Request) -> Decimal | None:
    """The default budget; without one, a multiple of the forecast in steps of BUDGET_STEP_USD."""
    default = _default_caps(request).usd_per_day
    if default is not None:
        return default
    day = forecast.day_forecast(request.app.state.settings, DEFAULT_INTERVAL_SECONDS)
    steps = ceil(Decimal(str(day.usd_per_day)) * BUDGET_OF_FORECAST / BUDGET_STEP_USD)
    return steps * BUDGET_STEP_USD if steps else None


LATEST: Final = 3
MAX_CHANGED_VALUES: Final = 6
"""Of nodes and of edges."""
SIDEBAR: Final = "sidebar"
"""The part of the page that changes rarely during an iteration."""
_LATEST_PAGE: Final = PageRequest(LATEST)


@router.get("/agents/{agent}")
async def show_agent(access: OwnedAgent, page: PageResponse) -> HTMLResponse:
    agent = await agent_commands.get_details(access.session, access.owner_id, access.agent.id)
    context: dict[str, Any] = {
        "agent": agent,
        "standing": agent,
        "is_part": page.part is not None,
    }
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
        "trouble": group_troubles(agent.trouble, progress),
        "learned": await _learned(access, agent),
        "named": {} if flow is None else await _conclusion_labels(access, flow),
        "usage": await costs.agent_usage(access.session, agent.id)
        if agent.suspended_until
        else None,
        **await _configuration_context(access, agent),
    }


async def _learned(access: AgentAccess, agent: AgentDetails) -> Learned | None:
    iteration = await iterations.newest_working(access.session, agent.id)
    if iteration is None or agent.last_iteration is None:
        return None
    written = await iterations.written_in_iteration(access.session, iteration.id)
    superseded = await iterations.list_superseded(
        access.session, access.owner_id, agent.id, iteration.id, limit=MAX_CHANGED_VALUES
    )
    return learned(iteration, written, superseded, agent.last_iteration.number)


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
    not_found = await conclusions.list_investigation_requests(
        access.session, access.owner_id, access.agent.id, _LATEST_PAGE, is_incomplete=True
    )
    recent = await agent_queries.recent_iterations(
        access.session, [access.agent.id], TREND_ITERATIONS
    )
    return {
        "trend": trend(recent[access.agent.id]),
        "graph_counts": await graph.counts(access.session, access.scope),
        "counters": counters_by_agent[access.agent.id],
        "latest": await conclusions.newest_conclusions(access.session, access.scope, LATEST),
        "lacking": requests,
        "not_found": not_found,
        "budget": await costs.agent_usage(access.session, access.agent.id),
    }
