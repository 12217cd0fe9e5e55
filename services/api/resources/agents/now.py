"""The page Now of an agent: what it does, what it has learned, and what it has."""

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final
from uuid import UUID

from fastapi import APIRouter
from starlette.responses import HTMLResponse

from services.api.auth.dependencies import AgentAccess, OwnedAgent
from services.api.resources.agents import model
from services.api.resources.conclusions import model as conclusions
from services.api.resources.conclusions.model import LatestConclusion, Questions
from services.api.resources.graph import model as graph
from services.api.resources.iterations import model as iterations
from services.api.resources.iterations.flow import (
    Flow,
    TroubleGroup,
    build_flow,
    group_troubles,
)
from services.api.resources.iterations.outcomes import StripBar, build_strip
from services.api.web.filters import plain
from services.api.web.rendering import PageResponse
from shared.enums import ADVICE_TYPE, ANALYSIS_TYPE, AgentStatus
from shared.graph import labels
from shared.graph.system_types import ABOUT_TYPE
from shared.schemas.base import AgentDetails, GraphCounts, IterationSummary, PageRequest
from shared.schemas.graph import EdgeTypeDetails, NodeTypeDetails
from shared.schemas.iterations import (
    IterationProgress,
    PhaseRunResponse,
    SupersededValue,
    WrittenElement,
)

router = APIRouter()

TREND_ITERATIONS: Final = 24
LATEST: Final = 3
MAX_CHANGED_VALUES: Final = 12
"""Most changed values that are shown of nodes, and of edges."""
WORK: Final = "now"
"""The part of the page that changes with each event."""
RESULTS: Final = "sidebar"
"""The part of the page that changes rarely during an iteration."""


@router.get("/agents/{agent}")
async def show_agent(access: OwnedAgent, page: PageResponse) -> HTMLResponse:
    agent = await model.get_agent(access, access.agent.id)
    context: dict[str, Any] = {"agent": agent, "standing": agent, "is_part": page.part is not None}
    if page.part in (None, RESULTS) or agent.suspended_until:
        counters = await model.dashboard_counters(access.session, [agent.id])
        context["today"] = counters[agent.id]
    if page.part in (None, WORK):
        context |= vars(await load_work(access, agent))
    if page.part in (None, RESULTS):
        context |= vars(await load_results(access))
    return await page.answer("agents/now.html", **context)


@dataclass(frozen=True)
class Making:
    """The configuration of a new agent: its phase runs, and the types of its graph."""

    runs: Sequence[PhaseRunResponse]
    node_types: Sequence[NodeTypeDetails]
    edge_types: Sequence[EdgeTypeDetails]


@dataclass(frozen=True)
class AgentWork:
    """Content of the page's main column: the newest iteration, what it added, and the configuration while that is new."""

    progress: IterationProgress | None
    flow: Flow | None
    trouble: Sequence[TroubleGroup]
    learned: "Learned | None"
    named: Mapping[UUID, labels.Label]
    """Labels of the analyses and advice on the cards."""
    making: Making | None
    """None after the first iteration."""


async def load_work(access: AgentAccess, agent: AgentDetails) -> AgentWork:
    session, last = access.session, agent.last_iteration
    progress = flow = found = None
    named: Mapping[UUID, labels.Label] = {}
    if last is not None:
        progress = await iterations.load_progress(session, last, agent.running_calls)
        flow = build_flow(progress)
        found = await _load_learned(access, last.number)
        if flow.conclusion_ids:
            named = await labels.load_node_labels(session, access.scope, flow.conclusion_ids)
    is_in_first = last is None or (last.number == 1 and last.ended_at is None)
    is_new = agent.status != AgentStatus.READY or is_in_first
    return AgentWork(
        progress=progress,
        flow=flow,
        trouble=group_troubles(agent.trouble, progress),
        learned=found,
        named=named,
        making=await _load_making(access, agent) if is_new else None,
    )


async def _load_making(access: AgentAccess, agent: AgentDetails) -> Making:
    made, everything = agent.configuration, PageRequest()
    if made is None:
        return Making((), (), ())
    return Making(
        await iterations.list_runs(access.session, made.step_id),
        (await graph.list_node_types(access, everything)).items,
        (await graph.list_edge_types(access, everything)).items,
    )


async def _load_learned(access: AgentAccess, newest_number: int) -> "Learned | None":
    lately = await iterations.working_lately(access.session, access.agent.id)
    if not lately:
        return None
    ids = [each.id for each in lately]
    written = await iterations.written_in_iterations(access.session, ids)
    superseded = await iterations.list_superseded(access, *ids, limit=MAX_CHANGED_VALUES)
    return learned(lately, written, superseded, newest_number)


@dataclass(frozen=True)
class AgentResults:
    """Content of the page's sidebar: counts of the graph, unread items, latest conclusions, open questions."""

    trend: Sequence[StripBar]
    graph_counts: GraphCounts
    latest: Sequence[LatestConclusion]
    questions: Questions


async def load_results(access: AgentAccess) -> AgentResults:
    agent_id = access.agent.id
    outcomes = await iterations.list_outcomes(access, [agent_id], TREND_ITERATIONS)
    return AgentResults(
        trend=build_strip(outcomes[agent_id]),
        graph_counts=(await graph.count_by_type(access)).totals,
        latest=await conclusions.newest_conclusions(access, LATEST),
        questions=await conclusions.newest_questions(access, LATEST),
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
    """Elements and values that the iterations of the last 24 hours added to the graph, or the newest one with changes."""

    iteration: IterationSummary
    """The newest one."""
    first: IterationSummary
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
    lately: Sequence[IterationSummary],
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
        iteration=lately[0],
        first=lately[-1],
        conclusions=sorted(conclusions, key=lambda element: _CONCLUSIONS.index(element.type)),
        nodes=[
            NewNodes(name, nodes[:MAX_NAMES_PER_TYPE], max(0, len(nodes) - MAX_NAMES_PER_TYPE))
            for name, nodes in sorted(by_type.items(), key=lambda item: (-len(item[1]), item[0]))
        ],
        edges=sum(element.kind == "edge" and element.type != ABOUT_TYPE for element in written),
        superseded=[value for value in superseded if not _is_text(value)],
        texts=sum(_is_text(value) for value in superseded),
        quiet_since=newest_number - lately[0].number,
    )


def _is_text(value: SupersededValue) -> bool:
    return any(len(plain(side)) > MAX_VALUE_CHARS for side in (value.before, value.after))
