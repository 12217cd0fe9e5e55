"""Nodes and edges as prompts show them: those touched last, and those of given ids.

What rests on retracted pages alone is not shown.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from functools import cache
from typing import Any, Final
from uuid import UUID

from sqlalchemy import (
    ColumnElement,
    Integer,
    Select,
    String,
    Subquery,
    Uuid,
    any_,
    bindparam,
    literal,
    literal_column,
    select,
    true,
)
from sqlalchemy.dialects.postgresql import ARRAY
from sqlalchemy.ext.asyncio import AsyncSession
from sqlalchemy.orm import aliased

from shared.database.statements import Asked, Direct, Row
from shared.database.tables import GraphEdge, GraphNode
from shared.graph.scope import OWNED, Scope, is_supported
from shared.graph.types import RESERVED_TYPES
from shared.tools import Json

_NODES_PASSED: Final = 1_000
"""Facts touched last are looked for among so many of the newest nodes: conclusions lie between them."""
MOST: Final = bindparam("most", type_=Integer)
_NODE: Final = (
    GraphNode.id,
    GraphNode.type,
    GraphNode.name,
    GraphNode.properties,
    GraphNode.updated_at,
)
"""The columns of NodeFacts."""


@dataclass(frozen=True)
class NodeFacts:
    id: UUID
    type: str
    name: str
    properties: Json
    updated_at: datetime


@dataclass(frozen=True)
class EdgeFacts:
    id: UUID
    type: str
    source_id: UUID
    source: str
    target_id: UUID
    target: str
    properties: Json


def newest_facts(scope: Scope, limit: int) -> Asked[list[NodeFacts]]:
    """The nodes touched last, conclusions apart."""
    return Asked(_newest_facts(), {**scope.bound, "most": limit}, _nodes)


def newest_of_type(scope: Scope, type_name: str, limit: int) -> Asked[list[NodeFacts]]:
    given = {**scope.bound, "type_name": type_name, "most": limit}
    return Asked(_newest_of_type(), given, _nodes)


def _nodes(rows: Sequence[Row]) -> list[NodeFacts]:
    return [NodeFacts(*row) for row in rows]


async def nodes_by_ids(
    session: AsyncSession, scope: Scope, ids: Sequence[UUID]
) -> dict[UUID, NodeFacts]:
    """Those that the agent has."""
    found = _nodes(await _nodes_by_ids().rows(session, {**scope.bound, "ids": list(ids)}))
    return {each.id: each for each in found}


@cache
def _newest_facts() -> Direct:
    newest = _newest_nodes(true(), literal(_NODES_PASSED))
    reserved = [literal_column(f"'{each}'", String) for each in sorted(RESERVED_TYPES)]
    return Direct(_in_order(newest).where(newest.c.type.not_in(reserved)).limit(MOST))


@cache
def _newest_of_type() -> Direct:
    return Direct(_in_order(_newest_nodes(GraphNode.type == bindparam("type_name"), MOST)))


@cache
def _nodes_by_ids() -> Direct:
    given = any_(bindparam("ids", type_=ARRAY(Uuid())))
    return Direct(
        select(*_NODE).where(
            GraphNode.agent_id == OWNED, is_supported(GraphNode), GraphNode.id == given
        )
    )


def _newest_nodes(condition: ColumnElement[bool], limit: ColumnElement[int]) -> Subquery:
    # By nothing but the time, as the index has it: of very many of one moment, others would all be put in order first.
    return (
        select(*_NODE)
        .where(GraphNode.agent_id == OWNED, is_supported(GraphNode), condition)
        .order_by(GraphNode.updated_at.desc())
        .limit(limit)
        .subquery()
    )


def _in_order(nodes: Subquery) -> Select[Any]:
    return select(nodes).order_by(nodes.c.updated_at.desc(), nodes.c.id)


def newest_edges(scope: Scope, limit: int) -> Asked[list[EdgeFacts]]:
    return Asked(_newest_edges(), {**scope.bound, "most": limit}, _edges)


def _edges(rows: Sequence[Row]) -> list[EdgeFacts]:
    return [EdgeFacts(*row) for row in rows]


async def edges_by_ids(session: AsyncSession, scope: Scope, ids: Sequence[UUID]) -> list[EdgeFacts]:
    """Those that the agent has, those touched last first."""
    return _edges(await _edges_by_ids().rows(session, {**scope.bound, "ids": list(ids)}))


@cache
def _newest_edges() -> Direct:
    newest = (
        select(GraphEdge)
        .where(GraphEdge.agent_id == OWNED, is_supported(GraphEdge))
        .order_by(GraphEdge.updated_at.desc())
        .limit(MOST)
    )
    return Direct(_with_ends(newest.subquery()))


@cache
def _edges_by_ids() -> Direct:
    given = any_(bindparam("ids", type_=ARRAY(Uuid())))
    wanted = select(GraphEdge).where(
        GraphEdge.agent_id == OWNED, is_supported(GraphEdge), GraphEdge.id == given
    )
    return Direct(_with_ends(wanted.subquery()))


def _with_ends(edges: Subquery) -> Select[Any]:
    source, target = aliased(GraphNode), aliased(GraphNode)
    return (
        select(
            edges.c.id,
            edges.c.type,
            source.id,
            source.name,
            target.id,
            target.name,
            edges.c.properties,
        )
        .join(source, source.id == edges.c.source_id)
        .join(target, target.id == edges.c.target_id)
        .order_by(edges.c.updated_at.desc(), edges.c.id)
    )
