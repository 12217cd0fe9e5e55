"""Searching the graph: behind the tool queryGraph, and bounded in what it costs and what it returns."""

from collections.abc import Sequence
from datetime import datetime
from typing import Final
from uuid import UUID

from sqlalchemy.ext.asyncio import AsyncSession

from shared.graph import answering, around, paths, search, truth
from shared.graph.answering import MAX_BYTES
from shared.graph.scope import Scope
from shared.graph.search import Found, Sought
from shared.graph.types import node_type
from shared.store.tables import GraphEdge, GraphNode
from shared.tools import Json, ToolRefusalError

__all__ = ["DEEPEST", "MAX_BYTES", "MAX_EDGES", "MAX_NODES", "MAX_TYPES", "query"]

MAX_NODES: Final = 50
MAX_EDGES: Final = 100
MAX_TYPES: Final = 10
"""That one search may name."""
DEEPEST: Final = 2
"""Edges between a node that is found and the farthest that is shown with it."""
_ENDS_OF_A_PATH: Final = 2
_NEIGHBOURS_CUT: Final = (
    "Not all neighbours or edges are shown, but those touched last; ask for fewer nodes, by nodeIds, to see more of "
    "each."
)


async def query(
    session: AsyncSession,
    scope: Scope,
    *,
    text: str | None = None,
    type_name: str | None = None,
    type_names: Sequence[str] = (),
    ids: Sequence[UUID] = (),
    updated_since: datetime | None = None,
    as_of: datetime | None = None,
    neighbours: int = 0,
    between: Sequence[UUID] = (),
    limit: int = 20,
) -> Json:
    """`{"nodes", "edges"}`: the nodes that meet every condition given, best match first, and the edges among them.

    With `neighbours` 1 or 2 also what lies so many edges from them. With `between` two nodes the other conditions do
    not count: it is the shortest `paths` that join the two, and what lies on those. What is more than MAX_NODES,
    MAX_EDGES or MAX_BYTES is left out, and `cut` says so. Refuses a type that does not exist.
    """
    if between:
        return await _between(session, scope, between)
    types = list(dict.fromkeys([*([] if type_name is None else [type_name]), *type_names]))
    for each in types:
        await node_type(session, scope, each)
    sought = Sought(text, types, ids, updated_since, as_of)
    found = await search.find(session, scope, sought, min(limit, MAX_NODES))
    nodes, edges, is_all = await _around(session, scope, found.nodes, min(neighbours, DEEPEST))
    cuts = [*_cuts(found), *([] if is_all else [_NEIGHBOURS_CUT])]
    return answering.bounded(*await _told(session, nodes, edges), cuts)


async def _around(
    session: AsyncSession, scope: Scope, found: Sequence[GraphNode], depth: int
) -> tuple[list[GraphNode], list[GraphEdge], bool]:
    """`found` and what lies within `depth` edges, the nearer first, the edges of all that, and whether it is all."""
    nodes, farthest, is_all = list(found), [node.id for node in found], True
    edges: list[GraphEdge] = []
    for _ in range(depth):
        followed = await around.touching(session, scope, farthest, MAX_EDGES + 1)
        is_all = is_all and len(followed) <= MAX_EDGES
        edges += followed[:MAX_EDGES]
        known = {node.id for node in nodes}
        ends = dict.fromkeys(end for edge in followed for end in (edge.source_id, edge.target_id))
        new = [end for end in ends if end not in known]
        room = MAX_NODES - len(nodes)
        is_all = is_all and len(new) <= room
        further = await search.by_ids(session, scope, new[:room])
        nodes, farthest = nodes + further, [node.id for node in further]
    within = await around.among(session, scope, [node.id for node in nodes], MAX_EDGES + 1)
    is_all = is_all and len(within) <= MAX_EDGES
    each = {edge.id: edge for edge in (*edges, *within)}
    return nodes, list(each.values())[:MAX_EDGES], is_all


async def _between(session: AsyncSession, scope: Scope, ends: Sequence[UUID]) -> Json:
    if len(set(ends)) != _ENDS_OF_A_PATH:
        raise ToolRefusalError("between: give the ids of two different nodes.")
    known = {node.id for node in await search.by_ids(session, scope, ends)}
    for missing in (each for each in ends if each not in known):
        raise ToolRefusalError(f"between: no such node: {missing}; use an id that queryGraph gave.")
    start, goal = dict.fromkeys(ends)
    found = await paths.shortest(session, scope, start, goal)
    node_ids = dict.fromkeys(each for path in found for each in path.nodes) or [start, goal]
    edge_ids = dict.fromkeys(each for path in found for each in path.edges)
    nodes = await search.by_ids(session, scope, list(node_ids))
    edges = await around.by_ids(session, scope, edge_ids)
    told = [
        {
            "nodeIds": [str(each) for each in path.nodes],
            "edgeIds": [str(each) for each in path.edges],
        }
        for path in found
    ]
    cuts = [] if found else [f"No path of at most {paths.LONGEST} edges was found between the two."]
    return answering.bounded(*await _told(session, nodes, edges), cuts, paths=told)


async def _told(
    session: AsyncSession, nodes: Sequence[GraphNode], edges: Sequence[GraphEdge]
) -> tuple[list[Json], list[Json]]:
    of_nodes = await truth.of_nodes(session, [node.id for node in nodes])
    of_edges = await truth.of_edges(session, [edge.id for edge in edges])
    return (
        [answering.node(node, of_nodes.get(node.id)) for node in nodes],
        [answering.edge(edge, of_edges.get(edge.id)) for edge in edges],
    )


def _cuts(found: Found) -> list[str]:
    cuts = []
    if not found.is_all:
        cuts.append(
            "More nodes match than are shown; narrow the search, or raise limit, to see others."
        )
    if found.common:
        cuts.append(
            f"Very many nodes hold {', '.join(found.common)}: for that, only names that hold all of the text and the "
            "nodes touched last were looked through."
        )
    return cuts
