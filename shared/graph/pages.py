"""A graph page by page, for people: its nodes, edges and types, filtered and searched."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime
from uuid import UUID

from sqlalchemy import ColumnElement, Select, exists, false, select, union_all
from sqlalchemy.ext.asyncio import AsyncSession
from sqlalchemy.orm import aliased

from shared.graph import citing, evidence, names
from shared.graph.scope import Scope
from shared.graph.words import all_of
from shared.store.reading.graph_shapes import (
    EdgeDetails,
    EdgeTypeDetails,
    NodeDetails,
    NodeTypeDetails,
)
from shared.store.reading.keyset import Keyset, slice_of
from shared.store.reading.page import Page, Wanted
from shared.store.reading.shapes import EdgeView, NodeView
from shared.store.tables import GraphEdge, GraphEdgeType, GraphNode, GraphNodeType
from shared.store.tables.graph import NAME_WORDS

_NODES = Keyset("nodes", (GraphNode.updated_at, GraphNode.id))
_EDGES = Keyset("edges", (GraphEdge.updated_at, GraphEdge.id))
# Made once: each takes milliseconds, which is what a whole page may take.
_SOURCE, _TARGET = aliased(GraphNode), aliased(GraphNode)
_NODE_TYPES = Keyset("node types", (GraphNodeType.name,), descending=False)
_EDGE_TYPES = Keyset("edge types", (GraphEdgeType.name,), descending=False)


@dataclass(frozen=True)
class NodesWanted:
    type_name: str | None = None
    updated_since: datetime | None = None
    search: str | None = None
    """Words; every one of them begins a word of the name."""


@dataclass(frozen=True)
class EdgesWanted:
    type_name: str | None = None
    updated_since: datetime | None = None
    source_id: UUID | None = None
    target_id: UUID | None = None
    node_id: UUID | None = None
    """At either end."""


async def nodes(
    session: AsyncSession, scope: Scope, wanted: Wanted, of: NodesWanted
) -> Page[NodeView]:
    """Those touched last first."""
    statement = select(GraphNode).where(GraphNode.agent_id == scope.agent())
    if of.type_name is not None:
        statement = statement.where(GraphNode.type == of.type_name)
    if of.updated_since is not None:
        statement = statement.where(GraphNode.updated_at >= of.updated_since)
    if of.search is not None:
        statement = statement.where(_is_named(of.search))
    return (await slice_of(session, statement, _NODES, wanted)).page(NodeView.model_validate)


async def edges(
    session: AsyncSession, scope: Scope, wanted: Wanted, of: EdgesWanted
) -> Page[EdgeView]:
    """Those touched last first."""
    conditions = list(_conditions(of))
    statement = edges_of(scope).where(*conditions)
    if of.node_id is not None:
        statement = statement.where(
            GraphEdge.id.in_(_touching(scope, of.node_id, conditions, wanted))
        )
    return (await slice_of(session, statement, _EDGES, wanted)).page(edge_view)


def _conditions(of: EdgesWanted) -> Iterator[ColumnElement[bool]]:
    """All but the node at either end."""
    if of.type_name is not None:
        yield GraphEdge.type == of.type_name
    if of.updated_since is not None:
        yield GraphEdge.updated_at >= of.updated_since
    if of.source_id is not None:
        yield GraphEdge.source_id == of.source_id
    if of.target_id is not None:
        yield GraphEdge.target_id == of.target_id


def _touching(
    scope: Scope, node_id: UUID, conditions: Sequence[ColumnElement[bool]], wanted: Wanted
) -> Select[UUID]:
    """The page's edges by their ids: as many of either direction as the whole page holds, each through its own index.

    An `or` of both would read all that a hub has.
    """
    if wanted.cursor is not None:
        conditions = [*conditions, _EDGES.after(wanted.cursor)]
    ids = (
        select(
            _EDGES.ordered(
                select(GraphEdge.id).where(GraphEdge.agent_id == scope.agent(), at_it, *conditions)
            )
            .limit(wanted.limit + 1)
            .subquery()
            .c.id
        )
        for at_it in (GraphEdge.source_id == node_id, GraphEdge.target_id == node_id)
    )
    return select(union_all(*ids).subquery().c.id)


async def has_node(session: AsyncSession, scope: Scope, node_id: UUID) -> bool:
    found = exists().where(GraphNode.agent_id == scope.agent(), GraphNode.id == node_id)
    return bool(await session.scalar(select(found)))


async def has_edge(session: AsyncSession, scope: Scope, edge_id: UUID) -> bool:
    found = exists().where(GraphEdge.agent_id == scope.agent(), GraphEdge.id == edge_id)
    return bool(await session.scalar(select(found)))


async def node(session: AsyncSession, scope: Scope, node_id: UUID) -> NodeDetails | None:
    """None where the agent has no such node."""
    found = await session.scalar(
        select(GraphNode).where(GraphNode.agent_id == scope.agent(), GraphNode.id == node_id)
    )
    if found is None:
        return None
    touching = await edges(session, scope, Wanted(), EdgesWanted(node_id=node_id))
    return NodeDetails(
        **dict(NodeView.model_validate(found)),
        iteration_id=found.iteration_id,
        step_id=found.step_id,
        names=[each for each in await names.of_node(session, scope, node_id) if each != found.name],
        cited_by=await citing.citing(session, scope, node_id),
        edges=touching,
        evidence=await evidence.of_node(session, scope, node_id, Wanted()),
    )


async def edge(session: AsyncSession, scope: Scope, edge_id: UUID) -> EdgeDetails | None:
    """None where the agent has no such edge."""
    found = (await session.execute(edges_of(scope).where(GraphEdge.id == edge_id))).one_or_none()
    if found is None:
        return None
    return EdgeDetails(
        **dict(edge_view(*found)),
        iteration_id=found[0].iteration_id,
        step_id=found[0].step_id,
        cited_by=await citing.citing(session, scope, edge_id),
        evidence=await evidence.of_edge(session, scope, edge_id, Wanted()),
    )


async def node_types(
    session: AsyncSession, scope: Scope, wanted: Wanted, name: str | None = None
) -> Page[NodeTypeDetails]:
    """By name; the one of that name where it is given."""
    statement = select(GraphNodeType).where(GraphNodeType.agent_id == scope.agent())
    if name is not None:
        statement = statement.where(GraphNodeType.name == name)
    found = await slice_of(session, statement, _NODE_TYPES, wanted)
    return found.page(NodeTypeDetails.model_validate)


async def edge_types(
    session: AsyncSession, scope: Scope, wanted: Wanted, name: str | None = None
) -> Page[EdgeTypeDetails]:
    """By name; the one of that name where it is given."""
    statement = select(GraphEdgeType).where(GraphEdgeType.agent_id == scope.agent())
    if name is not None:
        statement = statement.where(GraphEdgeType.name == name)
    found = await slice_of(session, statement, _EDGE_TYPES, wanted)
    return found.page(EdgeTypeDetails.model_validate)


def edges_of(scope: Scope) -> Select[GraphEdge, str, str]:
    """Each with its source's and its target's name."""
    return (
        select(GraphEdge, _SOURCE.name, _TARGET.name)
        .join(_SOURCE, _SOURCE.id == GraphEdge.source_id)
        .join(_TARGET, _TARGET.id == GraphEdge.target_id)
        .where(GraphEdge.agent_id == scope.agent())
    )


def edge_view(edge: GraphEdge, source_name: str, target_name: str) -> EdgeView:
    return EdgeView(
        id=edge.id,
        type=edge.type,
        source_id=edge.source_id,
        source_name=source_name,
        target_id=edge.target_id,
        target_name=target_name,
        properties=edge.properties,
        created_at=edge.created_at,
        updated_at=edge.updated_at,
        unsupported_since=edge.unsupported_since,
    )


def _is_named(search: str) -> ColumnElement[bool]:
    """Words as Postgres parts them, which an index has: not any letters within a word."""
    words = search.split()
    if not words:
        return false()
    return NAME_WORDS.op("@@")(all_of(words))
