"""The analysis generation phase: a comparison with citations, or a request for the figures that it needs."""

import re
from collections.abc import Sequence
from dataclasses import dataclass

from sandbox.model.facts import Comparison, NodeFigure, comparisons, figures_of, series
from sandbox.model.graph_view import ID, GraphView, ViewEdge, ViewNode, cite
from sandbox.model.request import Answer, ChatRequest, ToolCall
from sandbox.text.tokens import fold, join_with_and, shorten, topic_stems

OBSERVATION = re.compile(r"^Observation:\s*(.+)$", re.MULTILINE)
IDS = re.compile(r"^Relevant node ids:\s*(.+)$", re.MULTILINE)
QUOTED = re.compile(r"“([^”]+)”")
MAX_NODES = 6
MAX_TRIES = 3
MAX_MISSING = 3
MAX_OBJECTIVE_CHARS = 280
MAX_REASONING_CHARS = 400
EDGES_CONFIDENCE = 0.6
LINK_TYPE = "about"
"""The edge type from an analysis to its subject, which every agent has."""


@dataclass(frozen=True, slots=True)
class Insight:
    """An insight. Only `shown_nodes` (`nodes` and their neighbours) and `edges` may be cited."""

    observation: str
    theme: str
    """The quoted label or relation; empty if there is none."""
    node_ids: Sequence[str]
    nodes: Sequence[ViewNode]
    shown_nodes: Sequence[ViewNode]
    edges: Sequence[ViewEdge]
    existing_names: frozenset[str]
    """Names of the known analyses, which are not written again."""

    def fits(self, label: str) -> int:
        """2 for the theme itself, 1 for a label that shares a word with it or if there is no theme, else 0."""
        if fold(label) == fold(self.theme):
            return 2
        return int(not self.theme or not topic_stems(self.theme).isdisjoint(topic_stems(label)))


@dataclass(frozen=True, slots=True)
class Conclusion:
    """A conclusion; `content` cites all its nodes and edges."""

    name: str
    is_pattern: bool
    summary: str
    content: str
    confidence: float
    subject_id: str


def analyze(request: ChatRequest) -> Answer:
    """Write at most one analysis; query the graph once if the shown nodes do not suffice."""
    insight = parse_insight(request)
    conclusion = compare_figures(insight) or compare_edges(insight)
    called = [exchange.name for exchange in request.exchanges]
    if conclusion is None:
        ids = list(insight.node_ids)
        if ids and "queryGraph" not in called and "queryGraph" in request.callable_tools:
            query = ToolCall.of("queryGraph", nodeIds=ids, neighbours=True, limit=20)
            return Answer(calls=(query,))
        return _ask_for_missing(request, insight)
    is_written = bool(request.results("addAgentAnalysisNode"))
    may_write = "addAgentAnalysisNode" in request.callable_tools
    if is_written or not may_write or called.count("addAgentAnalysisNode") >= MAX_TRIES:
        return Answer("\n".join([conclusion.summary, *request.refusals]))
    analysis = ToolCall.of(
        "addAgentAnalysisNode",
        name=conclusion.name,
        type="pattern" if conclusion.is_pattern else "observation",
        summary=conclusion.summary,
        content=conclusion.content,
        confidence=conclusion.confidence,
    )
    return Answer(calls=(analysis, *_link(request, conclusion), *request.finish_call))


def _link(request: ChatRequest, conclusion: Conclusion) -> tuple[ToolCall, ...]:
    """The edge from the analysis to its first node."""
    if "addGraphEdge" not in request.callable_tools:
        return ()
    ends = {"sourceId": conclusion.name, "targetId": conclusion.subject_id}
    return (ToolCall.of("addGraphEdge", type=LINK_TYPE, **ends),)


def parse_insight(request: ChatRequest) -> Insight:
    """Parse the insight with its nodes and edges, and those of graph queries."""
    section = request.section("insight")
    stated, listed = OBSERVATION.search(section), IDS.search(section)
    ids = list(dict.fromkeys(re.findall(rf"\b{ID}\b", listed[1]))) if listed else []
    view = GraphView(request.section("relevant_nodes"))
    nodes = {node.id: node for node in view.nodes}
    edges = {edge.id: edge for edge in view.edges}
    for exchange in request.results("queryGraph"):
        for item in exchange.items("nodes"):
            node = ViewNode.of_result(item)
            nodes.setdefault(node.id, node)
        for item in exchange.items("edges"):
            source, target = (nodes.get(str(item.get(end))) for end in ("sourceId", "targetId"))
            if source and target:
                kind = str(item.get("type"))
                edge = ViewEdge(str(item.get("id")), source.name, kind, target.name)
                edges.setdefault(edge.id, edge)
    refused = [
        str(exchange.arguments.get("name", ""))
        for exchange in request.exchanges
        if exchange.name == "addAgentAnalysisNode" and exchange.error
    ]
    known = [node.name for node in GraphView(request.section("graph_context")).analyses]
    quoted = QUOTED.search(section)
    shown = list(nodes.values())
    return Insight(
        observation=stated[1].strip() if stated else section,
        theme=quoted[1] if quoted else "",
        node_ids=ids or list(nodes),
        nodes=[node for node in shown if node.id in ids] or shown,
        shown_nodes=shown,
        edges=list(edges.values()),
        existing_names=frozenset([*known, *refused]),
    )


def compare_figures(insight: Insight) -> Conclusion | None:
    """Compare the figures for the key closest to the insight; None if no two nodes have a comparable one."""
    new = [
        each
        for each in comparisons(insight.nodes)
        if insight.fits(each.key) and _comparison_name(each) not in insight.existing_names
    ]
    if not new:
        return None
    best = max(new, key=lambda each: (insight.fits(each.key), len(each.figures)))
    figures = best.figures[:MAX_NODES]
    trends = [trend for figure in figures if (trend := _trend(figure))]
    lines = [
        f"- {figure.node.name} — {figure.label}: {figure.value} {cite('node', figure.node.id)}"
        for figure in figures
    ]
    summary = _figures_summary(best.key, figures)
    return Conclusion(
        name=_comparison_name(best),
        is_pattern=len(figures) >= 3 or len(trends) >= 2,
        summary=summary,
        content="\n".join([summary, "", *lines, *(["", *trends] if trends else [])]),
        confidence=round(min(0.9, 0.5 + 0.08 * len(figures)), 2),
        subject_id=figures[0].node.id,
    )


def _comparison_name(comparison: Comparison) -> str:
    names = join_with_and([node.name for node in comparison.nodes[:MAX_NODES]])
    return f"{comparison.key[:1].upper()}{comparison.key[1:]}: {names} compared"


def _figures_summary(key: str, figures: Sequence[NodeFigure]) -> str:
    """Which nodes are highest and which lowest, or that all are equal, and whether the figures are of one year."""
    highest, lowest = figures[0], figures[-1]
    names = join_with_and([figure.node.name for figure in figures])
    years = {each.year for each in figures}
    note = " The figures are not all from the same year." if len(years) > 1 else ""
    if highest.amount.number == lowest.amount.number:
        return f"{names} have the same reported figure for “{key}”: {highest.value}.{note}"
    most, least = ("higher", "lower") if len(figures) == 2 else ("highest", "lowest")
    times = ""
    if lowest.amount.number > 0 and (ratio := highest.amount.number / lowest.amount.number) >= 1.05:
        times = f" The {most} figure is {float(f'{ratio:.3g}'):,.12g} times the {least}."
    return (
        f"Of {names}, {_having(figures, highest)} the {most} reported figure for “{key}”: {highest.value}; "
        f"{_having(figures, lowest)} the {least}: {lowest.value}.{times}{note}"
    )


def _having(figures: Sequence[NodeFigure], one: NodeFigure) -> str:
    """`Ghana has`, or `Ghana and Togo have`, of the nodes whose figure is as large as `one`."""
    equal = [each.node.name for each in figures if each.amount.number == one.amount.number]
    return f"{join_with_and(equal)} {'has' if len(equal) == 1 else 'have'}"


def _trend(figure: NodeFigure) -> str:
    """The change from the oldest year to the newest, with its citation; empty if there is only one year."""
    stated = series(figure)
    if len(stated) < 2 or stated[0].year == stated[-1].year:
        return ""
    first, last = stated[0], stated[-1]
    change = f"“{figure.key}” is {last.value} as before"
    if last.amount.number != first.amount.number:
        verb = "rose" if last.amount.number > first.amount.number else "fell"
        change = f"“{figure.key}” {verb} from {first.value} to {last.value}"
    return f"{figure.node.name}: {change} {cite('node', figure.node.id)}."


def compare_edges(insight: Insight) -> Conclusion | None:
    """Compare nodes by the edge type and target that most of them share; None if no two share one."""
    nodes = {fold(node.name): node for node in insight.shown_nodes}
    shared: dict[tuple[str, str], dict[str, ViewEdge]] = {}
    for edge in insight.edges:
        if fold(edge.source) in nodes and fold(edge.target) in nodes:
            shared.setdefault((edge.type, edge.target), {}).setdefault(edge.source, edge)
    wide = [list(group.values())[:MAX_NODES] for group in shared.values() if len(group) >= 2]
    wide.sort(key=lambda edges: (edges[0].target not in insight.observation, -len(edges)))
    for edges in wide:
        relation = edges[0].type.replace("_", " ")
        sources = [nodes[fold(edge.source)] for edge in edges]
        target = nodes[fold(edges[0].target)]
        names = join_with_and([node.name for node in sources])
        name = f"{relation[:1].upper()}{relation[1:]}: {target.name} shared by {names}"
        if not insight.fits(relation) or name in insight.existing_names:
            continue
        summary = f"{names} each have an edge “{relation}” to {target.name}."
        lines = [
            f"- {source.name} — {relation} → {target.name} {cite('node', source.id)} {cite('edge', edge.id)}"
            for source, edge in zip(sources, edges, strict=True)
        ]
        content = "\n".join([f"{summary} {cite('node', target.id)}", "", *lines])
        is_pattern = len(sources) >= 3
        return Conclusion(name, is_pattern, summary, content, EDGES_CONFIDENCE, target.id)
    return None


def _ask_for_missing(request: ChatRequest, insight: Insight) -> Answer:
    """Request the missing figures, at most MAX_MISSING."""
    was_requested = any(exchange.name == "requestInvestigation" for exchange in request.exchanges)
    if was_requested or "requestInvestigation" not in request.callable_tools:
        return Answer("No conclusion: the graph has no figures that can be compared.")
    theme = f"“{insight.theme}”" if insight.theme else "comparable"
    bare = [node.name for node in insight.nodes if not figures_of(node)]
    names = bare or [node.name for node in insight.nodes]
    missing = [f"the {theme} figure of {name}" for name in names[:MAX_MISSING]]
    why = f"The analysis of this observation needs it: {insight.observation}"
    calls = [
        ToolCall.of(
            "requestInvestigation",
            objective=shorten(text, MAX_OBJECTIVE_CHARS),
            reasoning=shorten(why, MAX_REASONING_CHARS),
            searchHints=[shorten(text, MAX_OBJECTIVE_CHARS)],
        )
        for text in missing or [f"data on this observation: {insight.observation}"]
    ]
    return Answer(calls=(*calls, *request.finish_call))
