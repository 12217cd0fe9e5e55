"""What the context is made of: questions whose cost is bounded, however large the graph has grown.

What rests on retracted pages alone is not shown; only the counts know of it.
"""

from dataclasses import dataclass
from datetime import datetime
from typing import Any
from uuid import UUID

from sqlalchemy import ColumnElement, Select, and_, desc, func, select, true, union_all
from sqlalchemy.ext.asyncio import AsyncSession
from sqlalchemy.orm import InstrumentedAttribute, aliased

from shared.graph.scope import Scope
from shared.graph.standing import is_supported
from shared.graph.types import MAX_TYPES, RESERVED_TYPES
from shared.store.tables import (
    GraphEdge,
    GraphEdgeType,
    GraphNode,
    GraphNodeType,
)
from shared.tools import Json

COUNT_LIMIT = 2_000
"""Of a type, no more nodes or edges than this are counted."""
_EDGES_SAMPLED = 2_000
"""The best connected nodes are looked for among the newest edges, so that the search does not grow with the graph."""
_DEGREE_LIMIT = 1_000
"""Of a node, no more edges than this are counted, in each direction."""


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
class NodeFacts:
    id: UUID
    type: str
    name: str
    properties: Json
    updated_at: datetime


@dataclass(frozen=True)
class ConnectedNode:
    id: UUID
    type: str
    name: str
    edges: int


@dataclass(frozen=True)
class EdgeFacts:
    id: UUID
    type: str
    source_id: UUID
    source: str
    target_id: UUID
    target: str
    properties: Json


async def node_types(session: AsyncSession, scope: Scope) -> list[NodeTypeFacts]:
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
    rows = await session.execute(
        select(
            GraphNodeType.name,
            GraphNodeType.description,
            _at_most(counted, COUNT_LIMIT),
            newest.c.id,
            newest.c.node_name,
            newest.c.updated_at,
        )
        .join(newest, true(), isouter=True)
        .where(GraphNodeType.agent_id == scope.agent())
        .order_by(GraphNodeType.name)
        .limit(MAX_TYPES)
    )
    return [NodeTypeFacts(*row) for row in rows]


async def edge_types(session: AsyncSession, scope: Scope) -> list[EdgeTypeFacts]:
    counted = (
        select(1)
        .select_from(GraphEdge)
        .where(GraphEdge.agent_id == GraphEdgeType.agent_id, GraphEdge.type == GraphEdgeType.name)
        .correlate(GraphEdgeType)
    )
    rows = await session.execute(
        select(GraphEdgeType.name, GraphEdgeType.description, _at_most(counted, COUNT_LIMIT))
        .where(GraphEdgeType.agent_id == scope.agent())
        .order_by(GraphEdgeType.name)
        .limit(MAX_TYPES)
    )
    return [EdgeTypeFacts(*row) for row in rows]


async def newest_facts(session: AsyncSession, scope: Scope, limit: int) -> list[NodeFacts]:
    """The nodes touched last, conclusions apart."""
    return await nodes_where(session, scope, GraphNode.type.not_in(RESERVED_TYPES), limit)


async def newest_of_type(
    session: AsyncSession, scope: Scope, type_name: str, limit: int
) -> list[NodeFacts]:
    return await nodes_where(session, scope, GraphNode.type == type_name, limit)


async def nodes_where(
    session: AsyncSession, scope: Scope, condition: ColumnElement[bool], limit: int
) -> list[NodeFacts]:
    """The nodes touched last."""
    rows = await session.execute(
        select(
            GraphNode.id,
            GraphNode.type,
            GraphNode.name,
            GraphNode.properties,
            GraphNode.updated_at,
        )
        .where(GraphNode.agent_id == scope.agent(), is_supported(GraphNode), condition)
        .order_by(GraphNode.updated_at.desc(), GraphNode.id)
        .limit(limit)
    )
    return [NodeFacts(*row) for row in rows]


async def best_connected(session: AsyncSession, scope: Scope, limit: int) -> list[ConnectedNode]:
    recent = (
        select(GraphEdge.source_id, GraphEdge.target_id)
        .where(GraphEdge.agent_id == scope.agent())
        .order_by(GraphEdge.updated_at.desc(), GraphEdge.id)
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
        .limit(limit)
        .subquery()
    )
    degree = (_degree(GraphEdge.source_id) + _degree(GraphEdge.target_id)).label("degree")
    rows = await session.execute(
        select(GraphNode.id, GraphNode.type, GraphNode.name, degree)
        .join(busiest, busiest.c.node_id == GraphNode.id)
        .where(is_supported(GraphNode))
        .order_by(desc("degree"), GraphNode.id)
    )
    return [ConnectedNode(*row) for row in rows]


def _degree(end: InstrumentedAttribute[UUID]) -> ColumnElement[int]:
    touching = select(1).select_from(GraphEdge).where(end == GraphNode.id).correlate(GraphNode)
    return _at_most(touching, _DEGREE_LIMIT)


async def newest_edges(session: AsyncSession, scope: Scope, limit: int) -> list[EdgeFacts]:
    return await edges_where(session, scope, true(), limit)


async def edges_where(
    session: AsyncSession, scope: Scope, condition: ColumnElement[bool], limit: int
) -> list[EdgeFacts]:
    """The edges touched last, with the names of their ends."""
    newest = (
        select(GraphEdge)
        .where(GraphEdge.agent_id == scope.agent(), is_supported(GraphEdge), condition)
        .order_by(GraphEdge.updated_at.desc(), GraphEdge.id)
        .limit(limit)
        .subquery()
    )
    source, target = aliased(GraphNode), aliased(GraphNode)
    rows = await session.execute(
        select(
            newest.c.id,
            newest.c.type,
            source.id,
            source.name,
            target.id,
            target.name,
            newest.c.properties,
        )
        .join(source, source.id == newest.c.source_id)
        .join(target, target.id == newest.c.target_id)
        .order_by(newest.c.updated_at.desc(), newest.c.id)
    )
    return [EdgeFacts(*row) for row in rows]


def _at_most(rows: Select[Any], limit: int) -> ColumnElement[int]:
    """How many `rows` there are, counted up to `limit`."""
    bounded = rows.limit(limit).subquery()
    return select(func.count()).select_from(bounded).scalar_subquery()
