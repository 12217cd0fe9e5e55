"""Nodes and edges as prompts show them: the most recently updated ones, and those of given ids.

Elements that rest only on retracted sources are not shown.
"""

from collections.abc import Iterable, Sequence
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
    bindparam,
    literal,
    literal_column,
    select,
    true,
)
from sqlalchemy.orm import aliased

from shared.database.statements import (
    ANY_OF_IDS,
    BoundQuery,
    CompiledStatement,
    Row,
    uuid_array,
)
from shared.database.tables import GraphEdge, GraphNode
from shared.graph.scope import OWNED_AGENT_ID, GraphScope, is_owned, is_supported
from shared.graph.types import RESERVED_TYPES
from shared.tools import Json

_MAX_NODES_SCANNED: Final = 1_000
"""Facts are searched among this many of the newest nodes, which include conclusions."""
LIMIT_PARAM: Final = bindparam("most", type_=Integer)
_NODE_COLUMNS: Final = (
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


def newest_facts(scope: GraphScope, limit: int) -> BoundQuery[list[NodeFacts]]:
    """The most recently updated nodes that are not conclusions."""
    return BoundQuery(_newest_facts(), {**scope.sql_params, "most": limit}, _nodes)


def newest_of_type(scope: GraphScope, type_name: str, limit: int) -> BoundQuery[list[NodeFacts]]:
    params = {**scope.sql_params, "type_name": type_name, "most": limit}
    return BoundQuery(_newest_of_type(), params, _nodes)


def _nodes(rows: Sequence[Row]) -> list[NodeFacts]:
    return [NodeFacts(*row) for row in rows]


def nodes_by_ids(scope: GraphScope, ids: Iterable[UUID]) -> BoundQuery[dict[UUID, NodeFacts]]:
    """The agent's nodes of these ids."""
    params = {**scope.sql_params, "ids": uuid_array(ids)}
    return BoundQuery(_nodes_by_ids(), params, lambda rows: {n.id: n for n in _nodes(rows)})


@cache
def _newest_facts() -> CompiledStatement:
    newest = _newest_nodes(true(), literal(_MAX_NODES_SCANNED))
    reserved = [literal_column(f"'{type_name}'", String) for type_name in sorted(RESERVED_TYPES)]
    return CompiledStatement(
        _in_order(newest).where(newest.c.type.not_in(reserved)).limit(LIMIT_PARAM)
    )


@cache
def _newest_of_type() -> CompiledStatement:
    return CompiledStatement(
        _in_order(_newest_nodes(GraphNode.type == bindparam("type_name"), LIMIT_PARAM))
    )


@cache
def _nodes_by_ids() -> CompiledStatement:
    return CompiledStatement(
        select(*_NODE_COLUMNS).where(
            is_owned(GraphNode.agent_id),
            is_supported(GraphNode),
            GraphNode.id == ANY_OF_IDS,
        )
    )


def _newest_nodes(condition: ColumnElement[bool], limit: ColumnElement[int]) -> Subquery:
    # Ordered by time alone, like the index: another sort key would sort all rows of the same timestamp first.
    return (
        select(*_NODE_COLUMNS)
        .where(GraphNode.agent_id == OWNED_AGENT_ID, is_supported(GraphNode), condition)
        .order_by(GraphNode.updated_at.desc())
        .limit(limit)
        .subquery()
    )


def _in_order(nodes: Subquery) -> Select[Any]:
    return select(nodes).order_by(nodes.c.updated_at.desc(), nodes.c.id)


def newest_edges(scope: GraphScope, limit: int) -> BoundQuery[list[EdgeFacts]]:
    return BoundQuery(_newest_edges(), {**scope.sql_params, "most": limit}, _edges)


def _edges(rows: Sequence[Row]) -> list[EdgeFacts]:
    return [EdgeFacts(*row) for row in rows]


def edges_by_ids(scope: GraphScope, ids: Iterable[UUID]) -> BoundQuery[list[EdgeFacts]]:
    """The agent's edges of these ids, the most recently updated first."""
    return BoundQuery(_edges_by_ids(), {**scope.sql_params, "ids": uuid_array(ids)}, _edges)


@cache
def _newest_edges() -> CompiledStatement:
    newest = (
        select(GraphEdge)
        .where(GraphEdge.agent_id == OWNED_AGENT_ID, is_supported(GraphEdge))
        .order_by(GraphEdge.updated_at.desc())
        .limit(LIMIT_PARAM)
    )
    return CompiledStatement(_with_ends(newest.subquery()))


@cache
def _edges_by_ids() -> CompiledStatement:
    edges = select(GraphEdge).where(
        is_owned(GraphEdge.agent_id), is_supported(GraphEdge), GraphEdge.id == ANY_OF_IDS
    )
    return CompiledStatement(_with_ends(edges.subquery()))


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
