"""The insight to work out, and the nodes and edges shown for it."""

import re
from dataclasses import dataclass

from sandbox.reader.graph_view import ID, GraphView, ViewEdge, ViewNode
from sandbox.reader.request import ChatRequest
from sandbox.text.words import topic_stems

OBSERVATION = re.compile(r"^Observation:\s*(.+)$", re.MULTILINE)
DIRECTION = re.compile(r"^Synthesis direction:\s*(.+)$", re.MULTILINE)
QUOTED = re.compile(r"“([^”]+)”")
IDS = re.compile(r"^Relevant node ids:\s*(.+)$", re.MULTILINE)


@dataclass(frozen=True, slots=True)
class Insight:
    """`nodes` are those that it names, `shown` also their neighbours; only what was shown may be cited."""

    observation: str
    direction: str
    node_ids: tuple[str, ...]
    nodes: tuple[ViewNode, ...]
    shown: tuple[ViewNode, ...]
    edges: tuple[ViewEdge, ...]
    taken_names: frozenset[str]
    """Names of analyses that there are, as far as is known: none is drawn twice."""

    @property
    def text(self) -> str:
        """What was observed and what is wanted of it."""
        return f"{self.observation} {self.direction}"

    @property
    def theme(self) -> str:
        """What the insight puts in quotes; empty where it names nothing so."""
        quoted = QUOTED.search(self.text)
        return quoted.group(1) if quoted else ""

    def bears_on(self, edge_type: str) -> bool:
        """Whether an edge type has a word of the theme, or there is no theme."""
        return not self.theme or not topic_stems(self.theme).isdisjoint(
            topic_stems(edge_type.replace("_", " "))
        )


def parse_insight(request: ChatRequest) -> Insight:
    """The relevant nodes, those that a query of the graph has added, and their edges."""
    section = request.section("insight")
    stated = IDS.search(section)
    ids = tuple(dict.fromkeys(re.findall(ID, stated.group(1)))) if stated else ()
    view = GraphView(request.section("relevant_nodes"))
    nodes = {node.id: node for node in view.nodes}
    edges = {edge.id: edge for edge in view.edges}
    _add_asked(request, nodes, edges)
    wanted = [node for key, node in nodes.items() if not ids or key in ids]
    return Insight(
        observation=_first(OBSERVATION, section) or section,
        direction=_first(DIRECTION, section),
        node_ids=ids or tuple(nodes),
        nodes=tuple(wanted or nodes.values()),
        shown=tuple(nodes.values()),
        edges=tuple(edges.values()),
        taken_names=_taken_names(request),
    )


def _taken_names(request: ChatRequest) -> frozenset[str]:
    """Those shown, and those that were refused when written: most often because another wrote them first."""
    shown = [node.name for node in GraphView(request.section("graph_context")).analyses]
    tried = [one for one in request.exchanges if one.name == "addAgentAnalysisNode" and one.refused]
    return frozenset([*shown, *(str(one.arguments.get("name", "")) for one in tried)])


def _add_asked(
    request: ChatRequest, nodes: dict[str, ViewNode], edges: dict[str, ViewEdge]
) -> None:
    for exchange in request.results("queryGraph"):
        result = exchange.result or {}
        for one in result.get("nodes") or []:
            node = ViewNode(
                str(one.get("id")),
                str(one.get("type")),
                str(one.get("name")),
                one.get("properties") or {},
            )
            nodes.setdefault(node.id, node)
        for one in result.get("edges") or []:
            ends = [nodes.get(str(one.get(end))) for end in ("sourceId", "targetId")]
            if ends[0] and ends[1]:
                edge = ViewEdge(
                    str(one.get("id")), ends[0].name, str(one.get("type")), ends[1].name
                )
                edges.setdefault(edge.id, edge)


def _first(pattern: re.Pattern[str], text: str) -> str:
    match = pattern.search(text)
    return match.group(1).strip() if match else ""
