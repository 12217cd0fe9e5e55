"""A graph at a glance, for people: how much there is, its types, and what was touched last."""

from dataclasses import dataclass

from sqlalchemy import select
from sqlalchemy.ext.asyncio import AsyncSession

from shared.graph import counting
from shared.graph.counting import TypeCounts
from shared.graph.pages import edge_view, edges_of
from shared.graph.scope import Scope
from shared.graph.types import EdgeType, NodeType, edge_types, node_types
from shared.store.reading.shapes import EdgeView, NodeView
from shared.store.tables import GraphEdge, GraphNode
from shared.store.words import ADVICE_TYPE, ANALYSIS_TYPE

MAX_LIMIT = 1_000


@dataclass(frozen=True)
class Counts:
    """`nodes` counts them all, analyses and advice too."""

    nodes: int
    edges: int
    analyses: int
    advice: int
    has_more: bool = False
    """Of some type there are more than were counted."""


@dataclass(frozen=True)
class Types:
    nodes: list[NodeType]
    edges: list[EdgeType]


async def counts(session: AsyncSession, scope: Scope) -> Counts:
    return summed(await counting.by_type(session, scope))


def summed(counted: TypeCounts) -> Counts:
    return Counts(
        nodes=sum(counted.nodes.values()),
        edges=sum(counted.edges.values()),
        analyses=counted.nodes.get(ANALYSIS_TYPE, 0),
        advice=counted.nodes.get(ADVICE_TYPE, 0),
        has_more=counted.has_more,
    )


async def types(session: AsyncSession, scope: Scope) -> Types:
    return Types(await node_types(session, scope), await edge_types(session, scope))


async def nodes(
    session: AsyncSession, scope: Scope, *, type_name: str | None = None, limit: int = 100
) -> list[NodeView]:
    """Those touched last first, MAX_LIMIT at most."""
    statement = select(GraphNode).where(GraphNode.agent_id == scope.agent())
    if type_name is not None:
        statement = statement.where(GraphNode.type == type_name)
    rows = await session.scalars(
        statement.order_by(GraphNode.updated_at.desc(), GraphNode.id.desc())
        .limit(_bounded(limit))
        .execution_options(populate_existing=True)
    )
    return [NodeView.model_validate(row) for row in rows]


async def edges(session: AsyncSession, scope: Scope, *, limit: int = 100) -> list[EdgeView]:
    """Those touched last first, MAX_LIMIT at most."""
    rows = await session.execute(
        edges_of(scope)
        .order_by(GraphEdge.updated_at.desc(), GraphEdge.id.desc())
        .limit(_bounded(limit))
        .execution_options(populate_existing=True)
    )
    return [edge_view(*row) for row in rows]


def _bounded(limit: int) -> int:
    return max(0, min(limit, MAX_LIMIT))
