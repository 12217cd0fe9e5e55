"""Pages of agents: list, new agent, current work."""

from collections.abc import Sequence
from dataclasses import dataclass
from decimal import Decimal
from http import HTTPStatus
from math import ceil
from typing import Annotated, Final, NamedTuple

from fastapi import APIRouter, Query
from starlette.responses import HTMLResponse, RedirectResponse, Response

from services.api.auth.dependencies import AgentAccess, OwnedAccess, OwnedAgent
from services.api.http.dependencies import EventAfterCommit, PageQuery
from services.api.http.problem_details import ProblemError
from services.api.paths import HOME
from services.api.resources.agents import commands, model, now
from services.api.resources.agents.commands import DEFAULT_ENTAILMENT_SHARE
from services.api.resources.agents.model import (
    AgentState,
    DashboardCounters,
    NewestConclusion,
)
from services.api.resources.costs import forecast
from services.api.resources.iterations import model as iterations
from services.api.resources.iterations.outcomes import StripBar, build_strip
from services.api.web.forms import (
    INTERVALS,
    UNLESS_BLANK,
    FormState,
    NewAgentForm,
    Submitted,
    submitted,
    validated,
)
from services.api.web.rendering import Page, PageResponse
from shared.billing.budgets import Caps
from shared.durations import format_duration
from shared.runtime.settings import Settings
from shared.schemas.base import (
    AgentResponse,
)

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
    listed = await model.list_agents(access, page_request, state=state, search=search)
    ids = [agent.id for agent in listed.items]
    counters = await model.dashboard_counters(access.session, ids)
    recent = await iterations.list_outcomes(access, ids, now.TREND_ITERATIONS)
    newest = await model.newest_conclusions(access.session, ids)
    return await page.answer(
        "agents/list.html",
        rows=[
            AgentRow(agent, counters[agent.id], build_strip(recent[agent.id]), newest.get(agent.id))
            for agent in listed.items
        ],
        next=listed.next,
        states=list(AgentState),
        state=state,
        search=search or "",
    )


@dataclass(frozen=True)
class AgentRow:
    agent: AgentResponse
    counters: DashboardCounters
    trend: Sequence[StripBar]
    conclusion: NewestConclusion | None


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
async def show_new_agent_form(page: PageResponse, interval_seconds: str = "") -> HTMLResponse:
    """The part `forecast` is for the interval that is typed."""
    if page.part is not None:
        typed = validated(
            NewAgentForm, {"mission": EXAMPLES[0].mission, "interval_seconds": interval_seconds}
        )
        return await _new_agent_page(page, typed, typed.model)
    form = FormState.filled(
        interval_seconds=format_duration(DEFAULT_INTERVAL_SECONDS),
        budget_usd_per_day=_suggested_budget(page.settings),
        feedback_rounds=0,
        entailment_share=DEFAULT_ENTAILMENT_SHARE,
    )
    return await _new_agent_page(page, form, None)


@router.post("/agents/new")
async def create_agent(
    access: OwnedAccess,
    page: PageResponse,
    form: Annotated[Submitted[NewAgentForm], submitted(NewAgentForm)],
    afterwards: EventAfterCommit,
) -> Response:
    """Redirects to the new agent's page, which shows its configuration."""
    if form.model is None:
        return await _new_agent_page(page, form, None)
    default = _default_caps(page.settings)
    caps = Caps(form.model.budget_usd_per_day, default.calls_per_day)
    try:
        async with access.session.savepoint():
            agent = await commands.create_agent(access, form.model, caps, afterwards)
    except ProblemError as error:
        refused = form.refused(error, _FIELD_OF_PROBLEM)
        return await _new_agent_page(page, refused, form.model)
    return RedirectResponse(f"/agents/{agent.id}", HTTPStatus.SEE_OTHER)


async def _new_agent_page(page: Page, form: FormState, model: NewAgentForm | None) -> HTMLResponse:
    interval = DEFAULT_INTERVAL_SECONDS if model is None else model.interval_seconds
    is_known = model is not None or "interval_seconds" not in form.errors
    settings = page.settings
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


def _default_caps(settings: Settings) -> Caps:
    """Returns the initial budget of new agents."""
    return Caps(settings.budget_usd_per_day, settings.budget_calls_per_day)


def _suggested_budget(settings: Settings) -> Decimal | None:
    """The default budget; without one, a multiple of the forecast in steps of BUDGET_STEP_USD."""
    default = _default_caps(settings).usd_per_day
    if default is not None:
        return default
    day = forecast.day_forecast(settings, DEFAULT_INTERVAL_SECONDS)
    steps = ceil(Decimal(str(day.usd_per_day)) * BUDGET_OF_FORECAST / BUDGET_STEP_USD)
    return steps * BUDGET_STEP_USD if steps else None


@router.post("/agents/{agent}/run")
async def run_agent(access: OwnedAgent) -> Response:
    await commands.run_agent(access)
    return _to_agent(access)


@router.post("/agents/{agent}/pause")
async def pause_agent(access: OwnedAgent) -> Response:
    await commands.pause_agent(access)
    return _to_agent(access)


@router.post("/agents/{agent}/resume")
async def resume_agent(access: OwnedAgent) -> Response:
    await commands.resume_agent(access)
    return _to_agent(access)


def _to_agent(access: AgentAccess) -> Response:
    return RedirectResponse(f"/agents/{access.agent.id}", HTTPStatus.SEE_OTHER)
