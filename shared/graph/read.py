"""What people get to see of a graph: the one place the api and the command line read it from."""

from dataclasses import dataclass
from datetime import datetime
from typing import TypeVarTuple
from uuid import UUID

from sqlalchemy import ColumnElement, Select, func, or_, select, true
from sqlalchemy.ext.asyncio import AsyncSession
from sqlalchemy.orm import InstrumentedAttribute, aliased

from shared.graph.citations import Citation, parse
from shared.graph.scope import Scope
from shared.graph.types import EdgeType, NodeType, edge_types, node_types
from shared.store.tables import GraphEdge, GraphNode
from shared.store.words import ADVICE_TYPE, ANALYSIS_TYPE
from shared.tools import Json

Row = TypeVarTuple("Row")

MAX_LIMIT = 1_000
MAX_EDGES_OF_A_NODE = 500


@dataclass(frozen=True)
class Counts:
    """`nodes` counts them all, analyses and advice too."""

    nodes: int
    edges: int
    analyses: int
    advice: int


@dataclass(frozen=True)
class Node:
    id: UUID
    type: str
    name: str
    properties: Json
    iteration_id: UUID | None
    step_id: UUID | None
    created_at: datetime
    updated_at: datetime


@dataclass(frozen=True)
class Edge:
    id: UUID
    type: str
    source_id: UUID
    source_name: str
    target_id: UUID
    target_name: str
    properties: Json
    iteration_id: UUID | None
    step_id: UUID | None
    created_at: datetime
    updated_at: datetime


@dataclass(frozen=True)
class NodeWithEdges:
    node: Node
    edges: list[Edge]
    """At most MAX_EDGES_OF_A_NODE, those touched last first."""


@dataclass(frozen=True)
class Conclusion:
    """An analysis or advice. `word` is the analysis's type or the advice's action."""

    id: UUID
    word: str
    name: str
    summary: str
    content: str
    confidence: float | None
    generated_at: str
    citations: tuple[Citation, ...]
    iteration_id: UUID | None
    step_id: UUID | None
    created_at: datetime


@dataclass(frozen=True)
class Types:
    nodes: list[NodeType]
    edges: list[EdgeType]


async def counts(session: AsyncSession, scope: Scope) -> Counts:
    by_type = await session.execute(
        select(GraphNode.type, func.count())
        .where(GraphNode.agent_id == scope.agent())
        .group_by(GraphNode.type)
    )
    nodes: dict[str, int] = {row.type: row[1] for row in by_type}
    edges = await session.scalar(
        select(func.count()).select_from(GraphEdge).where(GraphEdge.agent_id == scope.agent())
    )
    return Counts(
        nodes=sum(nodes.values()),
        edges=edges or 0,
        analyses=nodes.get(ANALYSIS_TYPE, 0),
        advice=nodes.get(ADVICE_TYPE, 0),
    )


async def types(session: AsyncSession, scope: Scope) -> Types:
    return Types(await node_types(session, scope), await edge_types(session, scope))


async def nodes(
    session: AsyncSession, scope: Scope, *, type_name: str | None = None, limit: int = 100
) -> list[Node]:
    """Those touched last first."""
    statement = select(GraphNode).where(GraphNode.agent_id == scope.agent())
    if type_name is not None:
        statement = statement.where(GraphNode.type == type_name)
    rows = await session.scalars(
        _newest_first(statement, GraphNode.updated_at, GraphNode.id, limit)
    )
    return [_node(row) for row in rows]


async def edges(
    session: AsyncSession, scope: Scope, *, type_name: str | None = None, limit: int = 100
) -> list[Edge]:
    """Those touched last first."""
    return await _edges(
        session, scope, true() if type_name is None else GraphEdge.type == type_name, limit
    )


async def node(session: AsyncSession, scope: Scope, node_id: UUID) -> NodeWithEdges | None:
    """None where the agent has no such node."""
    row = await session.scalar(
        select(GraphNode).where(GraphNode.agent_id == scope.agent(), GraphNode.id == node_id)
    )
    if row is None:
        return None
    touching = or_(GraphEdge.source_id == node_id, GraphEdge.target_id == node_id)
    return NodeWithEdges(_node(row), await _edges(session, scope, touching, MAX_EDGES_OF_A_NODE))


async def analyses(session: AsyncSession, scope: Scope, *, limit: int = 100) -> list[Conclusion]:
    """The newest first; `word` is `observation` or `pattern`."""
    return await _conclusions(session, scope, ANALYSIS_TYPE, "type", limit)


async def advice(session: AsyncSession, scope: Scope, *, limit: int = 100) -> list[Conclusion]:
    """The newest first; `word` is `BUY`, `SELL` or `HOLD`."""
    return await _conclusions(session, scope, ADVICE_TYPE, "action", limit)


async def _conclusions(
    session: AsyncSession, scope: Scope, type_name: str, word: str, limit: int
) -> list[Conclusion]:
    found = await nodes(session, scope, type_name=type_name, limit=limit)
    return [
        Conclusion(
            id=each.id,
            word=each.properties[word],
            name=each.name,
            summary=each.properties["summary"],
            content=each.properties["content"],
            confidence=each.properties.get("confidence"),
            generated_at=each.properties["generated_at"],
            citations=parse(each.properties["content"]).citations,
            iteration_id=each.iteration_id,
            step_id=each.step_id,
            created_at=each.created_at,
        )
        for each in found
    ]


async def _edges(
    session: AsyncSession, scope: Scope, condition: ColumnElement[bool], limit: int
) -> list[Edge]:
    source, target = aliased(GraphNode), aliased(GraphNode)
    statement = (
        select(GraphEdge, source.name, target.name)
        .join(source, source.id == GraphEdge.source_id)
        .join(target, target.id == GraphEdge.target_id)
        .where(GraphEdge.agent_id == scope.agent(), condition)
    )
    rows = await session.execute(
        _newest_first(statement, GraphEdge.updated_at, GraphEdge.id, limit)
    )
    return [_edge(edge, source_name, target_name) for edge, source_name, target_name in rows]


def _newest_first(
    statement: Select[*Row],
    touched: InstrumentedAttribute[datetime],
    row_id: InstrumentedAttribute[UUID],
    limit: int,
) -> Select[*Row]:
    return (
        statement.order_by(touched.desc(), row_id)
        .limit(max(0, min(limit, MAX_LIMIT)))
        .execution_options(populate_existing=True)
    )


def _node(row: GraphNode) -> Node:
    return Node(
        id=row.id,
        type=row.type,
        name=row.name,
        properties=row.properties,
        iteration_id=row.iteration_id,
        step_id=row.step_id,
        created_at=row.created_at,
        updated_at=row.updated_at,
    )


def _edge(row: GraphEdge, source_name: str, target_name: str) -> Edge:
    return Edge(
        id=row.id,
        type=row.type,
        source_id=row.source_id,
        source_name=source_name,
        target_id=row.target_id,
        target_name=target_name,
        properties=row.properties,
        iteration_id=row.iteration_id,
        step_id=row.step_id,
        created_at=row.created_at,
        updated_at=row.updated_at,
    )
