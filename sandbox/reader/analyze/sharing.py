"""What several nodes have in common by their edges."""

from collections import defaultdict
from collections.abc import Mapping

from sandbox.reader.analyze.conclusion import Conclusion, cite, cite_edge
from sandbox.reader.analyze.insight import Insight
from sandbox.reader.graph_view import ViewEdge, ViewNode
from sandbox.text.english import listed
from sandbox.text.words import fold

MAX_EDGES = 6
CONFIDENCE = 0.6
SAYS_NOTHING = "mentioned_with"


def compare_edges(insight: Insight) -> Conclusion | None:
    """The edge type and target that most nodes share; None where no two share one."""
    nodes = {fold(node.name): node for node in insight.shown}
    shared: dict[tuple[str, str], list[ViewEdge]] = defaultdict(list)
    for edge in insight.edges:
        if edge.type != SAYS_NOTHING and fold(edge.source) in nodes and fold(edge.target) in nodes:
            shared[edge.type, edge.target].append(edge)
    wide = [edges for edges in shared.values() if len({edge.source for edge in edges}) >= 2]
    ordered = sorted(wide, key=lambda edges: _order(edges, insight))
    found = [
        _concluded(nodes, edges[:MAX_EDGES]) for edges in ordered if insight.bears_on(edges[0].type)
    ]
    return next((one for one in found if one.name not in insight.taken_names), None)


def _order(edges: list[ViewEdge], insight: Insight) -> tuple[bool, int, str, str]:
    """The target that the insight names first, then the most widely shared."""
    edge = edges[0]
    return edge.target not in insight.observation, -len(edges), edge.type, edge.target


def _concluded(nodes: Mapping[str, ViewNode], edges: list[ViewEdge]) -> Conclusion:
    sources = [nodes[fold(edge.source)] for edge in edges]
    target = nodes[fold(edges[0].target)]
    relation = edges[0].type.replace("_", " ")
    names = listed([node.name for node in sources])
    every = "both" if len(sources) == 2 else "all"
    summary = f"{names} are {every} connected to {target.name} by “{relation}”."
    lines = [
        f"- {source.name} — {relation} → {target.name} {cite(source)} {cite_edge(edge)}"
        for source, edge in zip(sources, edges, strict=True)
    ]
    return Conclusion(
        name=f"{relation[:1].upper()}{relation[1:]}: {target.name} shared by {names}",
        type="pattern" if len(sources) >= 3 else "observation",
        summary=summary,
        content="\n".join([f"{summary} {cite(target)}", "", *lines]),
        confidence=CONFIDENCE,
        node_ids=(target.id, *(node.id for node in sources)),
    )
