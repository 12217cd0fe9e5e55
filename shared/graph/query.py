"""Searching the graph: behind the tool queryGraph, and bounded in what it costs and what it returns."""

from collections.abc import Sequence
from dataclasses import replace
from datetime import datetime
from typing import Final
from uuid import UUID

from sqlalchemy.ext.asyncio import AsyncSession

from shared.graph import answering, around, facts, given, paths, search
from shared.graph.answering import MAX_BYTES
from shared.graph.around import Link
from shared.graph.meaning import Near
from shared.graph.scope import Scope
from shared.graph.search import Found, Sought
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
    near: Near | None = None,
) -> Json:
    """`{"nodes", "edges"}`: the nodes that meet every condition given, best match first, and the edges among them.

    With `neighbours` 1 or 2 also what lies so many edges from them. With `between` two nodes the other conditions do
    not count: it is the shortest `paths` that join the two, and what lies on those. What is more than MAX_NODES,
    MAX_EDGES or MAX_BYTES is left out, and `cut` says so. What rests on retracted pages alone is not found. Refuses a
    type that does not exist.
    """
    if between:
        return await _between(session, scope, await given.checked(session, scope, between))
    types = list(dict.fromkeys([*([] if type_name is None else [type_name]), *type_names]))
    sought = Sought(text, types, ids, updated_since, as_of, near)
    found = await _found(session, scope, sought, min(limit, MAX_NODES))
    unread = 0
    if neighbours:
        node_ids, edge_ids, is_all = await _around(
            session, scope, found.ids, min(neighbours, DEEPEST)
        )
        nodes, edges, unread = await _shown(session, scope, node_ids, edge_ids)
    else:
        nodes, edges = await facts.shown_among(session, scope, found.ids, MAX_EDGES + 1)
        is_all = len(edges) <= MAX_EDGES
    cuts = [*_cuts(found), *([] if is_all else [_NEIGHBOURS_CUT])]
    return answering.bounded(nodes, edges[:MAX_EDGES], cuts, unread)


async def _found(session: AsyncSession, scope: Scope, sought: Sought, limit: int) -> Found:
    """As `search.find`, with ids that a merge has moved followed first."""
    found = None
    if sought.ids and not sought.types:
        found = await search.find(session, scope, sought, limit)
        if len(found.ids) == len(set(sought.ids)):
            return found  # what is there has not been moved
    ids = await given.checked(session, scope, sought.ids, sought.types)
    if found is not None and ids == list(sought.ids):
        return found
    return await search.find(session, scope, replace(sought, ids=ids), limit)


async def _shown(
    session: AsyncSession, scope: Scope, node_ids: Sequence[UUID], edge_ids: Sequence[UUID]
) -> tuple[list[Json], list[Json], int]:
    """Nodes and edges, and how many edges were not read.

    So many nodes as can be mostly leave no room for edges, which are two thirds of what it takes to read both.
    """
    if len(node_ids) < MAX_NODES:
        return *await facts.shown(session, scope, node_ids, edge_ids), 0
    nodes, _ = await facts.shown(session, scope, node_ids, ())
    if not answering.has_room_behind(nodes):
        return nodes, [], len(edge_ids)
    _, edges = await facts.shown(session, scope, (), edge_ids)
    return nodes, edges, 0


async def _around(
    session: AsyncSession, scope: Scope, found: Sequence[UUID], depth: int
) -> tuple[list[UUID], list[UUID], bool]:
    """`found` and what lies within `depth` edges, the nearer first, the edges of all that, and whether it is all."""
    known, edges, is_all = dict.fromkeys(found), dict[UUID, Link](), True
    if len(known) > 1:
        among = await around.leading(session, scope, known, known, MAX_EDGES + 1)
        edges |= {edge.id: edge for edge in among}
    farthest = list(known)
    for _ in range(depth):
        if len(known) == MAX_NODES and len(edges) > MAX_EDGES:
            break  # nothing farther would be shown
        followed = await around.touching(session, scope, farthest, MAX_EDGES + 1)
        edges |= {edge.id: edge for edge in followed}
        ends = dict.fromkeys(end for edge in followed for end in (edge.source_id, edge.target_id))
        new = [end for end in ends if end not in known]
        farthest = new[: MAX_NODES - len(known)]
        is_all = is_all and len(farthest) == len(new)
        known |= dict.fromkeys(farthest)
    return list(known), list(edges)[:MAX_EDGES], is_all and len(edges) <= MAX_EDGES


async def _between(session: AsyncSession, scope: Scope, ends: Sequence[UUID]) -> Json:
    if len(set(ends)) != _ENDS_OF_A_PATH:
        raise ToolRefusalError("between: give the ids of two different nodes.")
    found = await paths.shortest(session, scope, *ends)
    node_ids = dict.fromkeys(each for path in found for each in path.nodes) or ends
    edge_ids = dict.fromkeys(each.id for path in found for each in path.edges)
    nodes, edges = await facts.shown(session, scope, node_ids, edge_ids)
    known = {node["id"] for node in nodes}
    for missing in (each for each in ends if str(each) not in known):
        raise ToolRefusalError(f"between: no such node: {missing}; use an id that queryGraph gave.")
    told = [
        {
            "nodeIds": [str(each) for each in path.nodes],
            "edgeIds": [str(each.id) for each in path.edges],
        }
        for path in found
    ]
    cuts = [] if found else [f"No path of at most {paths.LONGEST} edges was found between the two."]
    return answering.bounded(nodes, edges, cuts, paths=told)


def _cuts(found: Found) -> list[str]:
    cuts = []
    if not found.is_all:
        cuts.append(
            "More nodes match than are shown; narrow the search, or raise limit, to see others."
        )
    if found.common:
        cuts.append(
            f"Very many nodes hold {', '.join(found.common)}: alone, such words were looked for only among the nodes "
            "touched last."
        )
    return cuts
