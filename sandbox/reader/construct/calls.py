"""The calls of each stage of graph construction."""

from collections.abc import Mapping

from sandbox.reader.answer import ToolCall
from sandbox.reader.construct.evidence import of_mention, of_properties
from sandbox.reader.construct.existing import Existing
from sandbox.reader.construct.links import PlannedEdge
from sandbox.reader.construct.plan import GraphPlan, PlannedNode
from sandbox.reader.construct.properties import NODE_SCHEMA, example_properties

LOOKUP_LIMIT = 5


def look(names: list[str]) -> list[ToolCall]:
    """What types there are, and which of the main names have nodes."""
    return [
        ToolCall.of("listNodeTypes"),
        ToolCall.of("listEdgeTypes"),
        *(ToolCall.of("queryGraph", text=name, limit=LOOKUP_LIMIT) for name in names),
    ]


def create_node_types(plan: GraphPlan, existing: Existing) -> list[ToolCall]:
    """Each type that a planned node needs and the graph lacks, with that node as its example."""
    lacking: dict[str, PlannedNode] = {}
    for node in plan.nodes:
        if node.kind.name not in existing.node_types:
            lacking.setdefault(node.kind.name, node)
    return [
        ToolCall.of(
            "createNodeType",
            name=name,
            description=node.kind.description,
            propertiesSchema=NODE_SCHEMA,
            exampleProperties=example_properties(node.properties),
            justification=f"No type that there is says what {node.name} is.",
        )
        for name, node in lacking.items()
    ]


def create_edge_types(plan: GraphPlan, existing: Existing) -> list[ToolCall]:
    """Each type that a planned edge needs and the graph lacks."""
    lacking = {
        edge.type: edge for edge in reversed(plan.edges) if edge.type not in existing.edge_types
    }
    return [
        ToolCall.of(
            "createEdgeType",
            name=name,
            description=lacking[name].description,
            justification="No type that there is says how the sentence relates the two.",
        )
        for name in sorted(lacking)
    ]


def add_nodes(plan: GraphPlan, existing: Existing) -> list[ToolCall]:
    """All in one message: a round is dearer than a call."""
    return [
        ToolCall.of(
            "addGraphNode",
            type=existing.type_called(node.kind.name),
            name=node.name,
            properties=node.properties,
            evidence=of_properties(node.told),
        )
        for node in plan.nodes
    ]


def add_edges(plan: GraphPlan, ids: Mapping[str, str], existing: Existing) -> list[ToolCall]:
    """Edges whose ends both exist and are of types that the edge's type allows."""
    kinds = {key: node.type for key, node in plan.known.items()}
    kinds |= {node.key: node.kind.name for node in plan.nodes}
    return [
        ToolCall.of(
            "addGraphEdge",
            type=existing.type_called(edge.type),
            sourceId=ids[edge.source],
            targetId=ids[edge.target],
            properties={"figure": edge.figure} if edge.figure else {},
            evidence=[of_mention(edge.mention)],
        )
        for edge in plan.edges
        if edge.mention.source.url
        and edge.source in ids
        and edge.target in ids
        and _allowed(edge, kinds, existing)
    ]


def _allowed(edge: PlannedEdge, kinds: Mapping[str, str], existing: Existing) -> bool:
    stated = existing.edge_types.get(edge.type, {})
    sources, targets = stated.get("sourceTypes") or [], stated.get("targetTypes") or []
    return (not sources or kinds.get(edge.source) in sources) and (
        not targets or kinds.get(edge.target) in targets
    )
