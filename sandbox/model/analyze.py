"""The analysis generation phase: a conclusion with citations, or a request for what is missing."""

import re
from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Literal

from sandbox.model.facts import Comparison, NodeFigure, comparisons, figures_of, series
from sandbox.model.graph_view import ID, GraphView, ViewEdge, ViewNode, cite
from sandbox.model.observe.patterns import other_names, statements_on, states_on
from sandbox.model.request import Answer, ChatRequest, ToolCall, finish_call
from sandbox.text.english import join_with_and, shorten
from sandbox.text.tokens import fold, is_significant, topic_stems, words

OBSERVATION = re.compile(r"^Observation:\s*(.+)$", re.MULTILINE)
DIRECTION = re.compile(r"^Synthesis direction:\s*(.+)$", re.MULTILINE)
QUOTED = re.compile(r"“([^”]+)”")
IDS = re.compile(r"^Relevant node ids:\s*(.+)$", re.MULTILINE)


@dataclass(frozen=True, slots=True)
class Insight:
    """An insight. Only `shown_nodes` (`nodes` and their neighbours) and `edges` may be cited."""

    observation: str
    direction: str
    node_ids: tuple[str, ...]
    nodes: tuple[ViewNode, ...]
    shown_nodes: tuple[ViewNode, ...]
    edges: tuple[ViewEdge, ...]
    existing_names: frozenset[str]
    """Names of the known analyses, which are not written again."""

    @property
    def text(self) -> str:
        """Observation and direction as one text."""
        return f"{self.observation} {self.direction}"

    @property
    def theme(self) -> str:
        """The quoted theme; empty if there is none."""
        quoted = QUOTED.search(self.text)
        return quoted.group(1) if quoted else ""

    def bears_on(self, edge_type: str) -> bool:
        """Whether an edge type shares a word with the theme, or there is no theme."""
        return not self.theme or not topic_stems(self.theme).isdisjoint(
            topic_stems(edge_type.replace("_", " "))
        )


def parse_insight(request: ChatRequest) -> Insight:
    """Parse the insight with its nodes and edges, and those of graph queries."""
    section = request.section("insight")
    stated = IDS.search(section)
    ids = tuple(dict.fromkeys(re.findall(rf"\b{ID}\b", stated.group(1)))) if stated else ()
    view = GraphView(request.section("relevant_nodes"))
    nodes = {node.id: node for node in view.nodes}
    edges = {edge.id: edge for edge in view.edges}
    _add_query_results(request, nodes, edges)
    relevant = [node for key, node in nodes.items() if not ids or key in ids]
    return Insight(
        observation=_first_group(OBSERVATION, section) or section,
        direction=_first_group(DIRECTION, section),
        node_ids=ids or tuple(nodes),
        nodes=tuple(relevant or nodes.values()),
        shown_nodes=tuple(nodes.values()),
        edges=tuple(edges.values()),
        existing_names=_existing_names(request),
    )


def _existing_names(request: ChatRequest) -> frozenset[str]:
    """Names of shown analyses, and of rejected ones, which most often exist already."""
    names = [node.name for node in GraphView(request.section("graph_context")).analyses]
    rejected = [
        exchange
        for exchange in request.exchanges
        if exchange.name == "addAgentAnalysisNode" and exchange.error
    ]
    return frozenset([*names, *(str(exchange.arguments.get("name", "")) for exchange in rejected)])


def _add_query_results(
    request: ChatRequest, nodes: dict[str, ViewNode], edges: dict[str, ViewEdge]
) -> None:
    for exchange in request.results("queryGraph"):
        result = exchange.result or {}
        for item in result.get("nodes") or []:
            node = ViewNode(
                str(item.get("id")),
                str(item.get("type")),
                str(item.get("name")),
                item.get("properties") or {},
            )
            nodes.setdefault(node.id, node)
        for item in result.get("edges") or []:
            ends = [nodes.get(str(item.get(end))) for end in ("sourceId", "targetId")]
            if ends[0] and ends[1]:
                edge = ViewEdge(
                    str(item.get("id")), ends[0].name, str(item.get("type")), ends[1].name
                )
                edges.setdefault(edge.id, edge)


def _first_group(pattern: re.Pattern[str], text: str) -> str:
    match = pattern.search(text)
    return match.group(1).strip() if match else ""


@dataclass(frozen=True, slots=True)
class Conclusion:
    """A conclusion; `content` cites all its nodes and edges."""

    name: str
    type: Literal["observation", "pattern"]
    summary: str
    content: str
    confidence: float
    node_ids: tuple[str, ...]


def cite_node(node: ViewNode) -> str:
    """The citation of a node."""
    return cite("node", node.id)


def cite_edge(edge: ViewEdge) -> str:
    """The citation of an edge."""
    return cite("edge", edge.id)


MAX_NODES = 6
BASE_CONFIDENCE = 0.5
CONFIDENCE_PER_NODE = 0.08
MAX_CONFIDENCE = 0.9


def compare_figures(insight: Insight) -> Conclusion | None:
    """Compare the figures for the key closest to the insight; None if no two nodes have a comparable one."""
    near = [
        comparison
        for comparison in comparisons(insight.nodes)
        if _nearness(comparison, insight) > 0
    ]
    new = [
        comparison
        for comparison in near
        if _comparison_name(comparison) not in insight.existing_names
    ]
    if not new:
        return None
    best = max(
        new, key=lambda comparison: (_nearness(comparison, insight), len(comparison.figures))
    )
    return _figures_conclusion(Comparison(best.key, best.figures[:MAX_NODES]))


def _figures_conclusion(comparison: Comparison) -> Conclusion:
    moves = [move for figure in comparison.figures if (move := _trend_line(figure))]
    names = [figure.node.name for figure in comparison.figures]
    summary = _figures_summary(comparison)
    return Conclusion(
        name=_comparison_name(comparison),
        type="pattern" if len(names) >= 3 or len(moves) >= 2 else "observation",
        summary=summary,
        content="\n".join(
            [summary, "", *_figure_lines(comparison), *(["", *moves] if moves else [])]
        ),
        confidence=_confidence(len(names)),
        node_ids=tuple(figure.node.id for figure in comparison.figures),
    )


def _figures_summary(comparison: Comparison) -> str:
    """Which node is highest and which lowest, or that all are equal, and whether the figures are of one year."""
    figures = comparison.figures
    highest, lowest = figures[0], figures[-1]
    names, label = join_with_and([figure.node.name for figure in figures]), comparison.key
    note = (
        " The figures are not all from the same year."
        if len({each.year for each in figures}) > 1
        else ""
    )
    if highest.amount.number == lowest.amount.number:
        return f"{names} have the same reported {_label_in_sentence(label)}: {highest.value}.{note}"
    top = [each for each in figures if each.amount.number == highest.amount.number]
    bottom = [each for each in figures if each.amount.number == lowest.amount.number]
    most, least = ("higher", "lower") if len(figures) == 2 else ("highest", "lowest")
    ratio = _ratio(highest, lowest)
    times = f" The {most} figure is {ratio} times the {least}." if ratio else ""
    return (
        f"Of {names}, {_having(top)} the {most} reported {_label_in_sentence(label)}: {highest.value}; "
        f"{_having(bottom)} the {least}: {lowest.value}.{times}{note}"
    )


def _having(figures: Sequence[NodeFigure]) -> str:
    """`Ghana has`, or `Ghana and Togo have`."""
    names = join_with_and([figure.node.name for figure in figures])
    return f"{names} {'has' if len(figures) == 1 else 'have'}"


def _comparison_name(comparison: Comparison) -> str:
    names = join_with_and([node.name for node in comparison.nodes[:MAX_NODES]])
    return f"{comparison.key[:1].upper()}{comparison.key[1:]}: {names} compared"


def _nearness(comparison: Comparison, insight: Insight) -> float:
    """The share of the key's words in the insight; low but not zero if the insight names no figure."""
    if f"“{fold(comparison.key)}”" in fold(insight.text):
        return 2.0
    own = topic_stems(comparison.key)
    share = len(own & topic_stems(insight.text)) / (len(own) or 1)
    return share if share or "“" in insight.text else 0.01


def _figure_lines(comparison: Comparison) -> list[str]:
    return [
        f"- {figure.node.name} — {figure.label}: {figure.value} {cite_node(figure.node)}"
        for figure in comparison.figures
    ]


def _trend_line(figure: NodeFigure) -> str:
    """The change from the oldest year to the newest; empty if there is only one year."""
    stated = series(figure)
    if len(stated) < 2 or stated[0].year == stated[-1].year:
        return ""
    first, last = stated[0], stated[-1]
    if last.amount.number == first.amount.number:
        change = f"the first and last figures for “{figure.key}” are equal: {last.value}"
    else:
        verb = "rose" if last.amount.number > first.amount.number else "fell"
        change = f"{_label_in_sentence(figure.key)} {verb} from {first.value} to {last.value}"
    return f"{figure.node.name}: {change} {cite_node(figure.node)}."


def _ratio(highest: NodeFigure, lowest: NodeFigure) -> str:
    """How many times the lowest the highest is, to three digits; empty if they hardly differ or cannot be divided."""
    if lowest.amount.number <= 0 or highest.amount.number / lowest.amount.number < 1.05:
        return ""
    return _three_digits(highest.amount.number / lowest.amount.number)


def _three_digits(ratio: float) -> str:
    """The ratio rounded to three digits, without an exponent."""
    return f"{float(f'{ratio:.3g}'):,.12g}"


def _label_in_sentence(key: str) -> str:
    """A label inside a sentence; acronyms and names in longer labels keep their capitals."""
    if "," in key or " - " in key or key[:1].islower():
        return f"figure for “{key}”"
    if len(key.split()) <= 3:
        return " ".join(word if word[1:2].isupper() else word.lower() for word in key.split())
    return key if key[1:2].isupper() else key[:1].lower() + key[1:]


def _confidence(nodes: int) -> float:
    return round(min(MAX_CONFIDENCE, BASE_CONFIDENCE + CONFIDENCE_PER_NODE * nodes), 2)


MAX_EDGES = 6
CONFIDENCE = 0.6
UNSPECIFIC_EDGE = "mentioned_with"


def compare_edges(insight: Insight) -> Conclusion | None:
    """Compare nodes by the edge type and target that most of them share; None if no two share one."""
    nodes = {fold(node.name): node for node in insight.shown_nodes}
    shared: dict[tuple[str, str], list[ViewEdge]] = defaultdict(list)
    for edge in insight.edges:
        if (
            edge.type != UNSPECIFIC_EDGE
            and fold(edge.source) in nodes
            and fold(edge.target) in nodes
        ):
            shared[edge.type, edge.target].append(edge)
    wide = [edges for edges in shared.values() if len({edge.source for edge in edges}) >= 2]
    by_rank = sorted(wide, key=lambda edges: _sort_key(edges, insight))
    conclusions = [
        _edges_conclusion(nodes, edges[:MAX_EDGES])
        for edges in by_rank
        if insight.bears_on(edges[0].type)
    ]
    return next(
        (conclusion for conclusion in conclusions if conclusion.name not in insight.existing_names),
        None,
    )


def _sort_key(edges: list[ViewEdge], insight: Insight) -> tuple[bool, int, str, str]:
    """Sort key: targets in the insight first, then the most shared."""
    edge = edges[0]
    return edge.target not in insight.observation, -len(edges), edge.type, edge.target


def _edges_conclusion(nodes: Mapping[str, ViewNode], edges: list[ViewEdge]) -> Conclusion:
    sources = [nodes[fold(edge.source)] for edge in edges]
    target = nodes[fold(edges[0].target)]
    relation = edges[0].type.replace("_", " ")
    names = join_with_and([node.name for node in sources])
    every = "both" if len(sources) == 2 else "all"
    summary = f"{names} {every} have “{relation}” edges to {target.name}."
    lines = [
        f"- {source.name} — {relation} → {target.name} {cite_node(source)} {cite_edge(edge)}"
        for source, edge in zip(sources, edges, strict=True)
    ]
    return Conclusion(
        name=f"{relation[:1].upper()}{relation[1:]}: {target.name} shared by {names}",
        type="pattern" if len(sources) >= 3 else "observation",
        summary=summary,
        content="\n".join([f"{summary} {cite_node(target)}", "", *lines]),
        confidence=CONFIDENCE,
        node_ids=(target.id, *(node.id for node in sources)),
    )


MENTIONED_TOGETHER = re.compile(r"^The sources mention (?P<hub>.+?) together with ")
STATED_ON = re.compile(r"^The sources mention “(?P<topic>[^”]+)”(?: in statements about |\.$)")


def collect_statements(insight: Insight) -> Conclusion | None:
    """What the sources state on the topic of the insight, in their words; None if it asks for something else."""
    match = STATED_ON.match(insight.observation)
    nodes = [node for node in insight.nodes if match and states_on(node, match["topic"])]
    if match is None or not nodes:
        return None
    by_statement: dict[str, list[ViewNode]] = defaultdict(list)
    for node in nodes[:MAX_NODES]:
        by_statement[str(node.properties["summary"])].append(node)
    cited = [node for group in by_statement.values() for node in group]
    names, topic = [node.name for node in cited], match["topic"]
    others = join_with_and(other_names(topic, names))
    summary = statements_on(topic, names)
    lines = [
        f"- {join_with_and([node.name for node in group])}: “{statement.strip('“”')}” "
        f"{' '.join(map(cite_node, group))}"
        for statement, group in by_statement.items()
    ]
    return Conclusion(
        name=f"{topic[:1].upper()}{topic[1:]}: what the sources say{f' about {others}' if others else ''}",
        type="observation",
        summary=summary,
        content="\n".join([summary, "", *lines]),
        confidence=CONFIDENCE,
        node_ids=tuple(node.id for node in cited),
    )


def collect_mentions(insight: Insight) -> Conclusion | None:
    """What a node is mentioned together with; None if the insight asks for something else, or no edge shows it."""
    match = MENTIONED_TOGETHER.match(insight.observation)
    nodes = {fold(node.name): node for node in insight.shown_nodes}
    hub = nodes.get(fold(match["hub"])) if match else None
    if hub is None:
        return None
    edges: dict[str, ViewEdge] = {}
    for edge in insight.edges:
        ends = {fold(edge.source), fold(edge.target)}
        others = ends - {fold(hub.name)}
        if fold(hub.name) in ends and len(others) == 1 and others <= nodes.keys():
            edges.setdefault(others.pop(), edge)
    shown = dict(list(edges.items())[: MAX_EDGES - 1])
    if not shown:
        return None
    names = join_with_and([nodes[other].name for other in shown])
    summary = f"The sources mention {hub.name} together with {names}."
    lines = [
        f"- {edge.source} — {edge.type.replace('_', ' ')} → {edge.target} {cite_node(nodes[other])} {cite_edge(edge)}"
        for other, edge in shown.items()
    ]
    statement = str(hub.properties.get("summary", "")).strip("“”")
    described = [f"- {hub.name}: “{statement}” {cite_node(hub)}"] if statement else []
    return Conclusion(
        name=f"{hub.name}: mentioned together with {names}",
        type="pattern" if len(shown) >= 3 else "observation",
        summary=summary,
        content="\n".join([f"{summary} {cite_node(hub)}", "", *lines, *described]),
        confidence=CONFIDENCE,
        node_ids=(hub.id, *(nodes[other].id for other in shown)),
    )


MAX_LINES = 3
MAX_THEME_WORDS = 6
MAX_HINT_WORDS = 8
MAX_OBJECTIVE_CHARS = 280
MAX_REASONING_CHARS = 400


def ask_for_missing(request: ChatRequest, insight: Insight) -> Answer:
    """Request what is missing: with the tool if it is offered, else as lines of text."""
    if "requestInvestigation" not in request.offered_tools:
        return Answer("\n".join(f"MISSING: {text}" for text in _missing(insight)))
    was_requested = any(exchange.name == "requestInvestigation" for exchange in request.exchanges)
    if was_requested or "requestInvestigation" not in request.callable_tools:
        return Answer("No conclusion yet: the missing data has been requested.")
    calls = tuple(_investigation_call(text, insight) for text in _missing(insight))
    return Answer(calls=(*calls, *finish_call(request)))


def _investigation_call(missing: str, insight: Insight) -> ToolCall:
    hint = " ".join([word for word in words(missing) if is_significant(word)][:MAX_HINT_WORDS])
    why = f"The analysis of this observation needs it: {insight.observation}"
    return ToolCall.of(
        "requestInvestigation",
        objective=shorten(missing, MAX_OBJECTIVE_CHARS),
        reasoning=shorten(why, MAX_REASONING_CHARS),
        searchHints=[hint] if hint else [],
    )


def _missing(insight: Insight) -> list[str]:
    """The missing figures and nodes; at most three."""
    if not insight.nodes:
        return [f"data on this observation: {insight.observation}"]
    theme = _theme(insight)
    bare = [node.name for node in insight.nodes if not figures_of(node)]
    if bare:
        return [f"the {theme} figure for {name}" for name in bare[:MAX_LINES]]
    names = [node.name for node in insight.nodes[:MAX_LINES]]
    kind = "a newer" if _has_comparison(insight) else "a comparable"
    return [f"{kind} {theme} figure for {name}" for name in names]


def _has_comparison(insight: Insight) -> bool:
    """Whether comparable figures exist, but all conclusions from them are drawn."""
    return compare_figures(replace(insight, existing_names=frozenset())) is not None


def _theme(insight: Insight) -> str:
    """The quoted theme, else the first significant words of the observation."""
    if insight.theme:
        return f"“{insight.theme}”"
    names = {word for node in insight.nodes for word in words(node.name)}
    terms = [
        word for word in words(insight.observation) if is_significant(word) and word not in names
    ]
    return " ".join(terms[:MAX_THEME_WORDS]) or "what the insight asks for"


EDGE_INSIGHT = re.compile(r"\bhave an edge\b|\bshare", re.IGNORECASE)
MAX_TRIES = 3
LINK_TYPES = ("about", "concerns", "analyzes", "supports", "derived_from", "based_on")
"""Possible edge types from an analysis to its subject."""


def analyze(request: ChatRequest) -> Answer:
    """Write at most one analysis; query the graph once if the shown nodes do not suffice."""
    insight = parse_insight(request)
    conclusion = _conclude(insight)
    if conclusion is None and _may_query(request, insight):
        return Answer(calls=(_query_call(insight),))
    if conclusion is None:
        return ask_for_missing(request, insight)
    additions = request.results("addAgentAnalysisNode")
    tries = sum(exchange.name == "addAgentAnalysisNode" for exchange in request.exchanges)
    if not additions and tries < MAX_TRIES and "addAgentAnalysisNode" in request.callable_tools:
        finish = finish_call(request)
        links = _links(request, conclusion, conclusion.name) if finish else ()
        return Answer(calls=(_analysis_call(conclusion), *links, *finish))
    links = _link_calls(request, conclusion)
    return Answer(calls=links) if links else Answer(_report(request, conclusion))


def _conclude(insight: Insight) -> Conclusion | None:
    """Compare edges first if the insight mentions an edge, else figures first."""
    other = collect_statements(insight) or collect_mentions(insight)
    if other is not None:
        return None if other.name in insight.existing_names else other
    if EDGE_INSIGHT.search(insight.observation):
        return compare_edges(insight) or compare_figures(insight)
    return compare_figures(insight) or compare_edges(insight)


def _may_query(request: ChatRequest, insight: Insight) -> bool:
    was_queried = any(exchange.name == "queryGraph" for exchange in request.exchanges)
    return bool(insight.node_ids) and not was_queried and "queryGraph" in request.callable_tools


def _query_call(insight: Insight) -> ToolCall:
    return ToolCall.of("queryGraph", nodeIds=list(insight.node_ids), neighbours=True, limit=20)


def _analysis_call(conclusion: Conclusion) -> ToolCall:
    return ToolCall.of(
        "addAgentAnalysisNode",
        name=conclusion.name,
        type=conclusion.type,
        summary=conclusion.summary,
        content=conclusion.content,
        confidence=conclusion.confidence,
    )


def _link_calls(request: ChatRequest, conclusion: Conclusion) -> tuple[ToolCall, ...]:
    """The edge from the analysis that was added to its first node."""
    additions = request.results("addAgentAnalysisNode")
    was_linked = any(exchange.name == "addGraphEdge" for exchange in request.exchanges)
    if not additions or was_linked:
        return ()
    return _links(request, conclusion, str((additions[-1].result or {}).get("nodeId", "")))


def _links(request: ChatRequest, conclusion: Conclusion, source: str) -> tuple[ToolCall, ...]:
    """The edge to the first node, if the agent has a type for it."""
    type_names = GraphView(request.section("graph_context")).edge_types
    link = next((name for name in LINK_TYPES if name in type_names), None)
    if not link or "addGraphEdge" not in request.callable_tools:
        return ()
    return (
        ToolCall.of("addGraphEdge", type=link, sourceId=source, targetId=conclusion.node_ids[0]),
    )


def _report(request: ChatRequest, conclusion: Conclusion) -> str:
    errors = [
        f"{exchange.name} was refused: {exchange.error}"
        for exchange in request.exchanges
        if exchange.error
    ]
    return "\n".join([conclusion.summary, *errors])
