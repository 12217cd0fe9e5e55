"""What lies around a node, for people: bounded, whatever hangs on it."""

from collections.abc import Collection
from typing import Final
from uuid import UUID

from sqlalchemy import select
from sqlalchemy.ext.asyncio import AsyncSession

from shared.graph.around import leading, touching
from shared.graph.pages import edge_view, edges_of
from shared.graph.scope import Scope
from shared.store.reading.graph_shapes import NeighbourhoodView
from shared.store.reading.shapes import EdgeView, NodeView
from shared.store.tables import GraphEdge, GraphNode

DEEPEST: Final = 2
MOST_NODES: Final = 200
EDGES_A_NODE: Final = 4
"""Edges told at most for each node that may be told."""


async def around(
    session: AsyncSession, scope: Scope, node_id: UUID, *, depth: int, limit: int
) -> NeighbourhoodView | None:
    """At most `limit` nodes, the nearer before the farther; None where the agent has no such node."""
    nodes = await _nodes(session, scope, [node_id])
    if not nodes:
        return None
    found, seen, cut = {node_id: nodes[0]}, {node_id}, False
    for _ in range(depth):
        edges = await touching(session, scope, seen, limit * EDGES_A_NODE + 1)
        ends = dict.fromkeys(end for each in edges for end in (each.source_id, each.target_id))
        new = [end for end in ends if end not in found]
        room = limit - len(found)
        cut = cut or len(new) > room or len(edges) > limit * EDGES_A_NODE
        found |= {node.id: node for node in await _nodes(session, scope, new[:room])}
        seen = set(new[:room])
        if not seen:
            break
    among = await _among(session, scope, found, limit * EDGES_A_NODE + 1)
    return NeighbourhoodView(
        depth=depth,
        nodes=list(found.values()),
        edges=among[: limit * EDGES_A_NODE],
        cut=cut or len(among) > limit * EDGES_A_NODE,
    )


async def _nodes(session: AsyncSession, scope: Scope, wanted: Collection[UUID]) -> list[NodeView]:
    rows = await session.scalars(
        select(GraphNode).where(GraphNode.agent_id == scope.agent(), GraphNode.id.in_(wanted))
    )
    by_id = {row.id: NodeView.model_validate(row) for row in rows}
    return [by_id[each] for each in wanted if each in by_id]


async def _among(
    session: AsyncSession, scope: Scope, ids: Collection[UUID], limit: int
) -> list[EdgeView]:
    within = await leading(session, scope, ids, ids, limit)
    newest = GraphEdge.updated_at.desc(), GraphEdge.id.desc()
    statement = edges_of(scope).where(GraphEdge.id.in_([edge.id for edge in within]))
    return [edge_view(*row) for row in await session.execute(statement.order_by(*newest))]
