"""Nodes and edges as prompts show them: the most recently updated ones, and those of given ids.

Elements that rest only on retracted sources or contradicted quotes are not shown.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Final
from uuid import UUID

from shared.database.statements import BoundQuery, CompiledStatement, Row, uuid_array
from shared.domains import covering_domain, host_of, site_of
from shared.graph.context.standing import STANDS_SQL
from shared.graph.provenance.beside import beside_sql
from shared.graph.provenance.claims import HOST_SQL, KNOWN_DATE_SQL, UNKNOWN_DATE_SQL
from shared.graph.provenance.verdicts import COUNTS_SQL, STATED_SQL
from shared.graph.scope import (
    IS_DOUBTED_SQL,
    IS_OWNED_SQL,
    IS_SUPPORTED_SQL,
    JOINS_TWO_NODES_SQL,
    OWNED_AGENT_ID_SQL,
    GraphScope,
)
from shared.graph.types import RESERVED_TYPES
from shared.tools import Json
from shared.workflow.agent_clock import ARCHIVE_END_SQL, NOW_SQL

_MAX_NODES_SCANNED: Final = 1_000
"""Facts are searched among this many of the newest nodes, which include conclusions."""
_EVIDENCE_OF_NODE: Final = 20
"""The newest evidence of a node, of which its date, its sites and its changes are read."""
_OLD_DATE_SQL, _NEW_DATE_SQL = (
    f"cast({each}.since at time zone 'utc' as date)" for each in ("old", "new")
)


@dataclass(frozen=True)
class NodeFacts:
    id: UUID
    type: str
    name: str
    properties: Json
    updated_at: datetime
    is_doubted: bool = False
    """Whether it is a conclusion in doubt, if that was loaded."""


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
_NODE_COLUMNS: Final = "id, type, name, properties, updated_at"
# The inner queries are ordered by time alone, like the index: another sort key would sort all rows of the same timestamp
# first.
_NEWEST_OF_TYPE: Final = CompiledStatement(f"""
    select * from (
        select {_NODE_COLUMNS}, {IS_DOUBTED_SQL} as is_doubted from graph_nodes
        where agent_id = {OWNED_AGENT_ID_SQL} and {STANDS_SQL} and type = :type_name
        order by updated_at desc limit :most
    ) as newest
    order by updated_at desc, name, id
    """)
_NEWEST_SQL: Final = f"""
    select * from (
        select {_NODE_COLUMNS} from graph_nodes
        where agent_id = {OWNED_AGENT_ID_SQL} and {STANDS_SQL}
        order by updated_at desc limit {_MAX_NODES_SCANNED}
    ) as newest
    where type not in ({_RESERVED_SQL}) order by updated_at desc, name, id limit :most
    """
_HELD_SQL: Final = f"""
    select stated_claims as claims, as_of, greatest(as_of, valid_from) as since, url
    from evidence join sources on sources.id = source_id {STATED_SQL}
    where node_id = node.id and retracted_at is null and {COUNTS_SQL}
    order by as_of desc limit {_EVIDENCE_OF_NODE}
    """
_DATED_FACTS: Final = CompiledStatement(f"""
    select node.*, dated.as_of, dated.hosts, beside.stated from ({_NEWEST_SQL}) as node
    cross join lateral (
      select max({KNOWN_DATE_SQL}) as as_of,
        array_agg(distinct {HOST_SQL}) as hosts
      from ({_HELD_SQL}) as held
    ) as dated
    cross join lateral {beside_sql("node_id", "node", "node.properties")} as beside
    order by node.updated_at desc, node.name, node.id
    """)


def _changes_sql(nodes: str) -> str:
    return f"""
    with stated as (
      select node.id, node.type, node.name, node.properties -> claim.key as current, claim.key, claim.value, held.since
      from ({nodes}) as node
      cross join lateral ({_HELD_SQL}) as held
      cross join lateral jsonb_each(held.claims) as claim
      where held.since > {UNKNOWN_DATE_SQL} and claim.key <> 'summary'
    ), changes as (
      select distinct on (new.id, new.key) new.id, new.type, new.name, new.key, old.value as old,
        {_OLD_DATE_SQL} as old_date, new.value, {_NEW_DATE_SQL} as new_date
      from stated as new join stated as old on old.id = new.id and old.key = new.key
      where new.value = new.current and old.value <> new.value and old.since < new.since and new.since <= {NOW_SQL}
      order by new.id, new.key, old.since desc, new.since
    )
    select * from changes order by new_date desc, type, name, key limit :changes
    """


_CHANGES: Final = CompiledStatement(_changes_sql(_NEWEST_SQL))
_CHANGES_OF_NODES: Final = CompiledStatement(
    _changes_sql(
        f"select * from graph_nodes where {IS_OWNED_SQL} and id = any(cast(:ids as uuid[]))"
    )
)
_HELD: Final = CompiledStatement(f"""
    select element.id, max({KNOWN_DATE_SQL}) as as_of,
      array_agg(distinct {HOST_SQL}) as hosts
    from unnest(cast(:ids as uuid[])) as element (id)
    cross join lateral (
      select as_of, source_id from (
        select as_of, source_id from evidence {STATED_SQL}
        where node_id = element.id and (agent_id = {OWNED_AGENT_ID_SQL}) is true and {COUNTS_SQL}
        union all
        select as_of, source_id from evidence {STATED_SQL}
        where edge_id = element.id and (agent_id = {OWNED_AGENT_ID_SQL}) is true and {COUNTS_SQL}
      ) as of_element
      order by as_of desc limit {_EVIDENCE_OF_NODE}
    ) as held
    join sources on sources.id = source_id and retracted_at is null
    group by 1
    """)
_STALEST: Final = CompiledStatement(f"""
    select type, name, updated_at from graph_nodes
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
    select url, title, cast(published at time zone 'utc' as date) as published,
      (select barred_domains from agents where id = sources.agent_id) as barred from sources
    where agent_id = {OWNED_AGENT_ID_SQL} and retracted_at is null and (published > {ARCHIVE_END_SQL}) is not true
    order by fetched_at desc, url limit :most
    """)
_NODES_BY_IDS: Final = CompiledStatement(
    f"select {_NODE_COLUMNS} from graph_nodes"
    f" where {IS_OWNED_SQL} and {STANDS_SQL} and id = any(cast(:ids as uuid[]))"
)


def dated_facts(scope: GraphScope, limit: int) -> BoundQuery[Sequence[Row]]:
    """The most recently updated nodes that are not conclusions, with `as_of`, the date of the newest page that speaks of the
    node, the `hosts` of its newest evidence, null without evidence, and what is `stated` beside its values, see
    `beside.stated_beside`. Refused evidence does not count.
    """
    return BoundQuery(_DATED_FACTS, {**scope.sql_params, "most": limit}, lambda rows: rows)


def changes_query(scope: GraphScope, nodes: int, limit: int) -> BoundQuery[Sequence[Row]]:
    """The values of the most recently updated `nodes` that replaced an older one: `type`, `name`, `key`, `old`, `old_date`,
    `value` and `new_date`, the latest first.
    """
    return BoundQuery(
        _CHANGES, {**scope.sql_params, "most": nodes, "changes": limit}, lambda rows: rows
    )


def changes_of_nodes(
    scope: GraphScope, ids: Iterable[UUID], limit: int
) -> BoundQuery[Sequence[Row]]:
    """The changed values of the nodes with these ids, as `changes_query` gives them."""
    params = {**scope.sql_params, "ids": uuid_array(ids), "changes": limit}
    return BoundQuery(_CHANGES_OF_NODES, params, lambda rows: rows)


def held_query(scope: GraphScope, ids: Iterable[UUID]) -> BoundQuery[Mapping[UUID, Row]]:
    """Loads, for nodes and edges by id, `as_of`, the date of the newest page that speaks of it, and the `hosts` of its
    evidence.
    """
    params = {**scope.sql_params, "ids": uuid_array(ids)}
    return BoundQuery(_HELD, params, lambda rows: {row.id: row for row in rows})


def sites_of_hosts(hosts: Iterable[str | None] | None) -> list[str]:
    """The sites of the pages on these hosts, see `shared.domains.site_of`, in alphabetical order."""
    return sorted({site_of(f"https://{host}") for host in hosts or () if host})


def stalest_nodes(scope: GraphScope, limit: int) -> BoundQuery[Sequence[Row]]:
    """Type, name and last update of the nodes that were not updated for the longest time, conclusions not among them."""
    return BoundQuery(_STALEST, {**scope.sql_params, "most": limit}, lambda rows: rows)


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


def newest_pages(scope: GraphScope, limit: int) -> BoundQuery[list[Row]]:
    """The pages that were read last and may be read again, the newest first: `url`, `title` and `published`, a date."""

    def read(rows: Sequence[Row]) -> list[Row]:
        allowed = [row for row in rows if covering_domain(host_of(row.url), row.barred) is None]
        return list({row.url: row for row in reversed(allowed)}.values())[::-1]

    return BoundQuery(_PAGES, {**scope.sql_params, "most": limit}, read)


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
