"""Pages of agents: list, new agent, current work."""

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from decimal import Decimal
from functools import partial
from http import HTTPStatus
from math import ceil
from typing import Annotated, Any, Final, NamedTuple
from uuid import UUID

from fastapi import APIRouter, Query
from starlette.responses import HTMLResponse, RedirectResponse, Response

from services.api.auth.dependencies import AgentAccess, OwnedAccess, OwnedAgent
from services.api.http.dependencies import EventAfterCommit, PageQuery
from services.api.http.problem_details import ProblemError
from services.api.paths import HOME
from services.api.resources.agents import commands, model
from services.api.resources.agents.commands import DEFAULT_ENTAILMENT_SHARE
from services.api.resources.agents.model import (
    AgentState,
    DashboardCounters,
    NewestConclusion,
)
from services.api.resources.conclusions import model as conclusions
from services.api.resources.conclusions.model import LatestConclusion
from services.api.resources.costs import forecast
from services.api.resources.costs import model as costs
from services.api.resources.graph import model as graph
from services.api.resources.inbox import model as inbox
from services.api.resources.iterations import model as iterations
from services.api.resources.iterations.flow import (
    Flow,
    TroubleGroup,
    build_flow,
    group_troubles,
)
from services.api.resources.iterations.outcomes import StripBar, build_strip
from services.api.web.filters import plain
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
from shared.database.tables import Interaction
from shared.durations import format_duration
from shared.enums import ADVICE_TYPE, ANALYSIS_TYPE, AgentStatus, InboxView
from shared.graph import labels
from shared.graph.system_types import ABOUT_TYPE
from shared.runtime.settings import Settings
from shared.schemas.base import (
    AgentDetails,
    AgentResponse,
    GraphCounts,
    IterationSummary,
    PageRequest,
)
from shared.schemas.base import Page as ListPage
from shared.schemas.conclusions import InvestigationRequestResponse
from shared.schemas.graph import EdgeTypeDetails, NodeTypeDetails
from shared.schemas.iterations import (
    IterationProgress,
    PhaseRunResponse,
    SupersededValue,
    WrittenElement,
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
    recent = await iterations.list_outcomes(access, ids, TREND_ITERATIONS)
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


TREND_ITERATIONS: Final = 24


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
        entailment_usd_per_day=0,
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


LATEST: Final = 3
MAX_CHANGED_VALUES: Final = 6
"""Of nodes and of edges."""
SIDEBAR: Final = "sidebar"
"""The part of the page that changes rarely during an iteration."""
_LATEST_PAGE: Final = PageRequest(LATEST)


@router.get("/agents/{agent}")
async def show_agent(access: OwnedAgent, page: PageResponse) -> HTMLResponse:
    agent = await model.get_agent(access, access.agent.id)
    context: dict[str, Any] = {}
    if page.part in (None, SIDEBAR) or agent.suspended_until:
        context["budget"] = await costs.budget_usage(access.session, agent.id)
    if page.part in (None, "now"):
        context |= vars(await load_work(access, agent))
    if page.part in (None, SIDEBAR):
        context |= vars(await load_results(access))
    return await page.answer(
        "agents/now.html", agent=agent, standing=agent, is_part=page.part is not None, **context
    )


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


@dataclass(frozen=True)
class AgentWork:
    """What the agent does: its newest iteration, what it learned, and its configuration while that is new."""

    progress: IterationProgress | None
    flow: Flow | None
    trouble: Sequence[TroubleGroup]
    learned: "Learned | None"
    named: Mapping[UUID, labels.Label]
    """Labels of the analyses and advice on the cards."""
    is_new: bool
    """Whether the first iteration has not ended yet."""
    making: Sequence[PhaseRunResponse] = ()
    """Phase runs of the configuration. These and the types are loaded only for a new agent."""
    node_types: Sequence[NodeTypeDetails] = ()
    edge_types: Sequence[EdgeTypeDetails] = ()


async def load_work(access: AgentAccess, agent: AgentDetails) -> AgentWork:
    session, last, made = access.session, agent.last_iteration, agent.configuration
    progress = None if last is None else await iterations.load_progress(session, last)
    flow = None if progress is None else build_flow(progress)
    concluded = [] if flow is None else flow.conclusion_ids
    is_in_first = last is None or (last.number == 1 and last.ended_at is None)
    work = AgentWork(
        progress=progress,
        flow=flow,
        trouble=group_troubles(agent.trouble, progress),
        learned=None if last is None else await _load_learned(access, last.number),
        named=await labels.load_node_labels(session, access.scope, concluded) if concluded else {},
        is_new=agent.status != AgentStatus.READY or is_in_first,
    )
    if not work.is_new or made is None:
        return work
    return replace(
        work,
        making=await iterations.list_runs(session, Interaction.step_id == made.step_id),
        node_types=(await graph.list_node_types(access, PageRequest())).items,
        edge_types=(await graph.list_edge_types(access, PageRequest())).items,
    )


async def _load_learned(access: AgentAccess, newest_number: int) -> "Learned | None":
    iteration = await iterations.newest_working(access.session, access.agent.id)
    if iteration is None:
        return None
    written = await iterations.written_in_iteration(access.session, iteration.id)
    superseded = await iterations.list_superseded(access, iteration.id, limit=MAX_CHANGED_VALUES)
    return learned(iteration, written, superseded, newest_number)


@dataclass(frozen=True)
class AgentResults:
    """What the agent has, and what needs its owner: the sidebar."""

    trend: Sequence[StripBar]
    graph_counts: GraphCounts
    unread_of_agent: int
    """Unread inbox items."""
    latest: Sequence[LatestConclusion]
    lacking: ListPage[InvestigationRequestResponse]
    """Open investigation requests."""
    not_found: ListPage[InvestigationRequestResponse]


async def load_results(access: AgentAccess) -> AgentResults:
    agent_id = access.agent.id
    list_requests = partial(conclusions.list_investigation_requests, access, _LATEST_PAGE)
    outcomes = await iterations.list_outcomes(access, [agent_id], TREND_ITERATIONS)
    views = await inbox.count_by_view(access, agent_id=agent_id)
    return AgentResults(
        trend=build_strip(outcomes[agent_id]),
        graph_counts=(await graph.count_by_type(access)).totals,
        unread_of_agent=views[InboxView.UNREAD],
        latest=await conclusions.newest_conclusions(access, LATEST),
        lacking=await list_requests(is_open=True),
        not_found=await list_requests(is_incomplete=True),
    )


MAX_NAMES_PER_TYPE: Final = 6
MAX_VALUE_CHARS: Final = 40
_CONCLUSIONS: Final = (ADVICE_TYPE, ANALYSIS_TYPE)
"""In the order in which they are shown."""


@dataclass(frozen=True)
class NewNodes:
    """New nodes of one type: the first ones, and how many more there are."""

    type: str
    nodes: Sequence[WrittenElement]
    more: int

    @property
    def count(self) -> int:
        return len(self.nodes) + self.more


@dataclass(frozen=True)
class Learned:
    """What the newest iteration that was not quiet added to the graph."""

    iteration: IterationSummary
    conclusions: Sequence[WrittenElement]
    """Advice first."""
    nodes: Sequence[NewNodes]
    """The types with the most nodes first."""
    edges: int
    superseded: Sequence[SupersededValue]
    """Short values, which can be compared at a glance."""
    texts: int
    """The number of longer texts that changed."""
    quiet_since: int
    """The number of quiet iterations after it."""

    @property
    def is_empty(self) -> bool:
        return not (self.conclusions or self.nodes or self.edges or self.superseded or self.texts)


def learned(
    iteration: IterationSummary,
    written: Sequence[WrittenElement],
    superseded: Sequence[SupersededValue],
    newest_number: int,
) -> Learned:
    conclusions = [element for element in written if element.type in _CONCLUSIONS]
    by_type: defaultdict[str, list[WrittenElement]] = defaultdict(list)
    for element in written:
        if element.kind == "node" and element.type not in _CONCLUSIONS:
            by_type[element.type].append(element)
    return Learned(
        iteration=iteration,
        conclusions=sorted(conclusions, key=lambda element: _CONCLUSIONS.index(element.type)),
        nodes=[
            NewNodes(name, nodes[:MAX_NAMES_PER_TYPE], max(0, len(nodes) - MAX_NAMES_PER_TYPE))
            for name, nodes in sorted(by_type.items(), key=lambda item: (-len(item[1]), item[0]))
        ],
        edges=sum(element.kind == "edge" and element.type != ABOUT_TYPE for element in written),
        superseded=[value for value in superseded if not _is_text(value)],
        texts=sum(_is_text(value) for value in superseded),
        quiet_since=newest_number - iteration.number,
    )


def _is_text(value: SupersededValue) -> bool:
    return any(len(plain(side)) > MAX_VALUE_CHARS for side in (value.before, value.after))
