"""What the context is made of: questions whose cost is bounded, however large the graph has grown.

What rests on retracted pages alone is not shown; only the counts know of it.
"""

from dataclasses import dataclass
from datetime import datetime
from functools import cache
from typing import Any
from uuid import UUID

from sqlalchemy import (
    ColumnElement,
    Select,
    and_,
    desc,
    func,
    select,
    true,
    union_all,
)
from sqlalchemy.orm import InstrumentedAttribute

from shared.graph.context.listed import MOST
from shared.graph.scope import OWNED, Scope
from shared.graph.standing import is_supported
from shared.graph.types import MAX_TYPES
from shared.store.direct import Direct
from shared.store.round_trip import Asked
from shared.store.tables import (
    GraphEdge,
    GraphEdgeType,
    GraphNode,
    GraphNodeType,
)

COUNT_LIMIT = 500
"""Of a type, no more nodes or edges than this are counted."""
DEGREE_LIMIT = 500
"""Of a node, no more edges than this are counted, in each direction."""
_EDGES_SAMPLED = 1_000
"""The best connected nodes are looked for among the newest edges, so that the search does not grow with the graph."""


@dataclass(frozen=True)
class NodeTypeFacts:
    name: str
    description: str
    count: int
    newest_id: UUID | None
    newest_name: str | None
    newest_at: datetime | None


@dataclass(frozen=True)
class EdgeTypeFacts:
    name: str
    description: str
    count: int


@dataclass(frozen=True)
class ConnectedNode:
    id: UUID
    type: str
    name: str
    edges: int


def node_types(scope: Scope) -> Asked[list[NodeTypeFacts]]:
    return Asked(_node_types(), scope.bound, lambda rows: [NodeTypeFacts(*row) for row in rows])


# Statements are put together once: that takes longer than PostgreSQL takes to answer.
@cache
def _node_types() -> Direct:
    of_type = and_(
        GraphNode.agent_id == GraphNodeType.agent_id, GraphNode.type == GraphNodeType.name
    )
    counted = select(1).select_from(GraphNode).where(of_type).correlate(GraphNodeType)
    newest = (
        select(GraphNode.id, GraphNode.name.label("node_name"), GraphNode.updated_at)
        .where(of_type, is_supported(GraphNode))
        .correlate(GraphNodeType)
        .order_by(GraphNode.updated_at.desc())
        .limit(1)
        .lateral()
    )
    return Direct(
        select(
            GraphNodeType.name,
            GraphNodeType.description,
            _at_most(counted, COUNT_LIMIT),
            newest.c.id,
            newest.c.node_name,
            newest.c.updated_at,
        )
        .join(newest, true(), isouter=True)
        .where(GraphNodeType.agent_id == OWNED)
        .order_by(GraphNodeType.name)
        .limit(MAX_TYPES)
    )


def edge_types(scope: Scope) -> Asked[list[EdgeTypeFacts]]:
    return Asked(_edge_types(), scope.bound, lambda rows: [EdgeTypeFacts(*row) for row in rows])


@cache
def _edge_types() -> Direct:
    counted = (
        select(1)
        .select_from(GraphEdge)
        .where(GraphEdge.agent_id == GraphEdgeType.agent_id, GraphEdge.type == GraphEdgeType.name)
        .correlate(GraphEdgeType)
    )
    return Direct(
        select(GraphEdgeType.name, GraphEdgeType.description, _at_most(counted, COUNT_LIMIT))
        .where(GraphEdgeType.agent_id == OWNED)
        .order_by(GraphEdgeType.name)
        .limit(MAX_TYPES)
    )


def best_connected(scope: Scope, limit: int) -> Asked[list[ConnectedNode]]:
    given = {**scope.bound, "most": limit}
    return Asked(_best_connected(), given, lambda rows: [ConnectedNode(*row) for row in rows])


@cache
def _best_connected() -> Direct:
    recent = (
        select(GraphEdge.source_id, GraphEdge.target_id)
        .where(GraphEdge.agent_id == OWNED)
        .order_by(GraphEdge.updated_at.desc())
        .limit(_EDGES_SAMPLED)
        .cte("recent")
    )
    ends = union_all(
        select(recent.c.source_id.label("node_id")), select(recent.c.target_id)
    ).subquery()
    busiest = (
        select(ends.c.node_id)
        .group_by(ends.c.node_id)
        .order_by(func.count().desc(), ends.c.node_id)
        .limit(MOST)
        .subquery()
    )
    degree = (_degree(GraphEdge.source_id) + _degree(GraphEdge.target_id)).label("degree")
    return Direct(
        select(GraphNode.id, GraphNode.type, GraphNode.name, degree)
        .join(busiest, busiest.c.node_id == GraphNode.id)
        .where(is_supported(GraphNode))
        .order_by(desc("degree"), GraphNode.id)
    )


def _degree(end: InstrumentedAttribute[UUID]) -> ColumnElement[int]:
    touching = select(1).select_from(GraphEdge).where(end == GraphNode.id).correlate(GraphNode)
    return _at_most(touching, DEGREE_LIMIT)


def _at_most(rows: Select[Any], limit: int) -> ColumnElement[int]:
    """How many `rows` there are, counted up to `limit`."""
    bounded = rows.limit(limit).subquery()
    return select(func.count()).select_from(bounded).scalar_subquery()
