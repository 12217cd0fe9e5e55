"""Nodes and edges as prompts show them: the most recently updated ones, and those of given ids.

Elements that rest only on retracted sources or contradicted quotes are not shown.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Final
from uuid import UUID

from shared.database.statements import BoundQuery, CompiledStatement, Row, uuid_array
from shared.domains import covering_domain, host_of
from shared.graph.context.standing import STANDING_PROPERTIES_SQL, STANDS_SQL
from shared.graph.scope import (
    IS_OWNED_SQL,
    IS_SUPPORTED_SQL,
    JOINS_TWO_NODES_SQL,
    OWNED_AGENT_ID_SQL,
    GraphScope,
)
from shared.graph.types import RESERVED_TYPES
from shared.tools import Json
from shared.workflow.agent_clock import ARCHIVE_END_SQL

_MAX_NODES_SCANNED: Final = 1_000
"""Facts are searched among this many of the newest nodes, which include conclusions."""


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


_RESERVED_SQL: Final = ", ".join(f"'{type_name}'" for type_name in sorted(RESERVED_TYPES))
_NODE_COLUMNS: Final = f"id, type, name, {STANDING_PROPERTIES_SQL} as properties, updated_at"
# The inner queries are ordered by time alone, like the index: another sort key would sort all rows of the same timestamp
# first.
_NEWEST_FACTS: Final = CompiledStatement(f"""
    select * from (
        select {_NODE_COLUMNS} from graph_nodes
        where agent_id = {OWNED_AGENT_ID_SQL} and {STANDS_SQL}
        order by updated_at desc limit {_MAX_NODES_SCANNED}
    ) as newest
    where type not in ({_RESERVED_SQL}) order by updated_at desc, name, id limit :most
    """)
_NEWEST_OF_TYPE: Final = CompiledStatement(f"""
    select * from (
        select {_NODE_COLUMNS} from graph_nodes
        where agent_id = {OWNED_AGENT_ID_SQL} and {STANDS_SQL} and type = :type_name
        order by updated_at desc limit :most
    ) as newest
    order by updated_at desc, name, id
    """)
_STALEST_FACTS: Final = CompiledStatement(f"""
    select {_NODE_COLUMNS} from graph_nodes
    where agent_id = {OWNED_AGENT_ID_SQL} and {STANDS_SQL} and type not in ({_RESERVED_SQL})
    order by updated_at limit :most
    """)
# Of a large graph, the names that were updated last, or first: the index has that order.
_NAMES, _SETTLED_NAMES = (
    CompiledStatement(f"""
    select type, name from (
        select id, type, name, created_at from graph_nodes
        where agent_id = {OWNED_AGENT_ID_SQL} and {STANDS_SQL} and type not in ({_RESERVED_SQL})
        order by updated_at {order} limit :most
    ) as chosen
    order by created_at, name, id
    """)
    for order in ("desc", "asc")
)
# Groups of names that begin with the same letter, for a graph with too many names to show.
_GROUPS: Final = CompiledStatement(f"""
    select type, upper(left(name, 1)) as initial, count(*) as nodes, min(name) as first_name
    from (
        select id, type, name, unsupported_since from graph_nodes
        where agent_id = {OWNED_AGENT_ID_SQL} and {IS_SUPPORTED_SQL} and type not in ({_RESERVED_SQL})
        order by updated_at desc limit :most
    ) as newest
    where {STANDS_SQL}
    group by 1, 2 order by 1, 2
    """)
_LOOK_UP: Final = CompiledStatement(f"""
    select {_NODE_COLUMNS} from graph_nodes
    where agent_id = {OWNED_AGENT_ID_SQL} and {STANDS_SQL} and type not in ({_RESERVED_SQL})
      and strpos(lower(name), lower(cast(:words as text))) > 0
    order by length(name), name, id limit :most
    """)
_IN_GROUP: Final = CompiledStatement(f"""
    select name from graph_nodes
    where agent_id = {OWNED_AGENT_ID_SQL} and {STANDS_SQL} and lower(type) = lower(cast(:type_name as text))
      and upper(left(name, 1)) = upper(cast(:initial as text))
    order by name, id limit :most
    """)
_PAGES: Final = CompiledStatement(f"""
    select url, (select barred_domains from agents where id = sources.agent_id) as barred from sources
    where agent_id = {OWNED_AGENT_ID_SQL} and retracted_at is null and (published > {ARCHIVE_END_SQL}) is not true
    order by fetched_at desc, url limit :most
    """)
_NODES_BY_IDS: Final = CompiledStatement(
    f"select {_NODE_COLUMNS} from graph_nodes"
    f" where {IS_OWNED_SQL} and {STANDS_SQL} and id = any(cast(:ids as uuid[]))"
)


def newest_facts(scope: GraphScope, limit: int) -> BoundQuery[list[NodeFacts]]:
    """The most recently updated nodes that are not conclusions."""
    return BoundQuery(_NEWEST_FACTS, {**scope.sql_params, "most": limit}, _nodes)


def stalest_facts(scope: GraphScope, limit: int) -> BoundQuery[list[NodeFacts]]:
    """The nodes that were not updated for the longest time, conclusions not among them."""
    return BoundQuery(_STALEST_FACTS, {**scope.sql_params, "most": limit}, _nodes)


def names_in_order(scope: GraphScope, limit: int) -> BoundQuery[Sequence[Row]]:
    """Type and name of nodes that are not conclusions, in the order in which they were created.

    Of more than `limit` nodes, those that were updated last.
    """
    return BoundQuery(_NAMES, {**scope.sql_params, "most": limit}, lambda rows: rows)


def settled_names(scope: GraphScope, limit: int) -> BoundQuery[Sequence[Row]]:
    """Type and name of nodes that are not conclusions, in an order that is stable while the graph grows.

    Of more than `limit` nodes, those that were not updated for the longest time.
    """
    return BoundQuery(_SETTLED_NAMES, {**scope.sql_params, "most": limit}, lambda rows: rows)


def name_groups(scope: GraphScope, limit: int) -> BoundQuery[Sequence[Row]]:
    """For each type and initial letter, the number of nodes and their first name, of the `limit` nodes updated last."""
    return BoundQuery(_GROUPS, {**scope.sql_params, "most": limit}, lambda rows: rows)


def nodes_named(scope: GraphScope, words: str, limit: int) -> BoundQuery[list[NodeFacts]]:
    """Nodes whose names contain `words`, the shortest names first, conclusions not among them."""
    return BoundQuery(_LOOK_UP, {**scope.sql_params, "words": words, "most": limit}, _nodes)


def names_in_group(
    scope: GraphScope, type_name: str, initial: str, limit: int
) -> BoundQuery[list[str]]:
    """The names of nodes of a type that begin with a letter, in alphabetical order."""
    params = {**scope.sql_params, "type_name": type_name, "initial": initial, "most": limit}
    return BoundQuery(_IN_GROUP, params, lambda rows: [row.name for row in rows])


def newest_pages(scope: GraphScope, limit: int) -> BoundQuery[list[str]]:
    """Addresses of the pages that were read last and may be read again, the newest first."""
    return BoundQuery(
        _PAGES,
        {**scope.sql_params, "most": limit},
        lambda rows: list(
            dict.fromkeys(
                row.url for row in rows if covering_domain(host_of(row.url), row.barred) is None
            )
        ),
    )


def newest_of_type(scope: GraphScope, type_name: str, limit: int) -> BoundQuery[list[NodeFacts]]:
    params = {**scope.sql_params, "type_name": type_name, "most": limit}
    return BoundQuery(_NEWEST_OF_TYPE, params, _nodes)


def nodes_by_ids(scope: GraphScope, ids: Iterable[UUID]) -> BoundQuery[dict[UUID, NodeFacts]]:
    """The agent's nodes of these ids."""
    params = {**scope.sql_params, "ids": uuid_array(ids)}
    return BoundQuery(_NODES_BY_IDS, params, lambda rows: {n.id: n for n in _nodes(rows)})


def _nodes(rows: Sequence[Row]) -> list[NodeFacts]:
    return [NodeFacts(*row) for row in rows]


def _edges_statement(where: str) -> CompiledStatement:
    """The columns of EdgeFacts, the most recently updated first."""
    return CompiledStatement(f"""
        select edge.id, edge.type, source_id, source.name as source, target_id, target.name as target,
          edge.properties
        from (select * from graph_edges where {where}) as edge
        join graph_nodes as source on source.id = source_id
        join graph_nodes as target on target.id = target_id
        order by edge.updated_at desc, source.name, target.name, edge.id
        """)


_NEWEST_EDGES: Final = _edges_statement(
    f"agent_id = {OWNED_AGENT_ID_SQL} and {STANDS_SQL} and {JOINS_TWO_NODES_SQL}"
    " order by updated_at desc limit :most"
)
_EDGES_BY_IDS: Final = _edges_statement(
    f"{IS_OWNED_SQL} and {STANDS_SQL} and id = any(cast(:ids as uuid[]))"
)


def newest_edges(scope: GraphScope, limit: int) -> BoundQuery[list[EdgeFacts]]:
    return BoundQuery(_NEWEST_EDGES, {**scope.sql_params, "most": limit}, _edges)


def edges_by_ids(scope: GraphScope, ids: Iterable[UUID]) -> BoundQuery[list[EdgeFacts]]:
    """The agent's edges of these ids, the most recently updated first."""
    return BoundQuery(_EDGES_BY_IDS, {**scope.sql_params, "ids": uuid_array(ids)}, _edges)


def _edges(rows: Sequence[Row]) -> list[EdgeFacts]:
    return [EdgeFacts(*row) for row in rows]
