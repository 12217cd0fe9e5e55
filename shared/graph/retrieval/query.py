"""The search and the traversal behind the tool `queryGraph`, bounded in cost and size."""

import json
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Any, Final, Literal, NamedTuple
from uuid import UUID

from shared.database.statements import BoundQuery, CompiledStatement, Executor, uuid_array
from shared.database.transaction import Transaction
from shared.graph.entity_resolution.redirects import HAS_REDIRECT_SQL, resolve_redirects
from shared.graph.prompt_format import shorten_properties
from shared.graph.provenance.beside import Column, beside_sql, stated_beside
from shared.graph.provenance.claims import UNKNOWN_DATE_SQL
from shared.graph.retrieval import VectorQuery, node_search
from shared.graph.retrieval.claimed import claimed_sql, says
from shared.graph.retrieval.node_search import SearchCriteria, SearchResult
from shared.graph.scope import (
    IS_SUPPORTED_SQL,
    JOINS_TWO_NODES_SQL,
    OWNED_AGENT_ID_SQL,
    GraphScope,
)
from shared.graph.types import get_node_type
from shared.tools import Json, ToolRefusalError
from shared.workflow.agent_clock import NOW_SQL

MIN_EDGES_PER_NODE: Final = 5
"""Edges per direction that are followed from each of many nodes, at least."""


class Link(NamedTuple):
    """An edge by the ids of its ends."""

    id: UUID
    source_id: UUID
    target_id: UUID


async def incident_edges(
    transaction: Executor, scope: GraphScope, ids: Collection[UUID], limit: int
) -> list[Link]:
    """At most `limit` edges that start or end at `ids`, the most recently updated first, shared among the nodes."""
    if not ids:
        return []
    query = incident_query(scope, ids, limit)
    return list(map(Link._make, await query.statement.tuples(transaction, query.params)))


def incident_query(scope: GraphScope, ids: Collection[UUID], limit: int) -> BoundQuery[list[Link]]:
    """The statement of `incident_edges`."""
    share = max(MIN_EDGES_PER_NODE, -(-limit // max(len(ids), 1)))
    params = {**scope.sql_params, "ids": uuid_array(ids), "share": share, "most": limit}
    return BoundQuery(_INCIDENT_EDGES, params, lambda rows: list(map(Link._make, rows)))


async def edges_between(
    transaction: Executor,
    scope: GraphScope,
    some: Collection[UUID],
    others: Collection[UUID],
    limit: int,
    *,
    either_way: bool = False,
) -> list[Link]:
    """Edges from one of `some` to one of `others`, the most recently updated first, however many edges these have.

    `either_way` adds those in the other direction; then `some` and `others` are disjoint.
    """
    statement = _EDGES_EITHER_WAY if either_way else _EDGES_BETWEEN
    values = {"some": uuid_array(some), "others": uuid_array(others), "most": limit}
    rows = await statement.tuples(transaction, {**scope.sql_params, **values})
    return list(map(Link._make, rows))


_COLUMNS: Final = "id, source_id, target_id, updated_at"


def _newest_at_end_sql(end: str) -> str:
    """One subquery per end, because an `or` of both would read all edges of a hub."""
    # A range instead of an equality: PostgreSQL then expects many rows and reads the index in order up to the limit.
    # For an equality it expects few rows, as most nodes have, and would fetch and sort all edges of a hub.
    return (
        f"select touching.* from unnest(cast(:ids as uuid[])) given (id) cross join lateral"
        f" (select {_COLUMNS}, agent_id, unsupported_since from graph_edges"
        f"  where {end}_id >= given.id and {end}_id <= given.id and {JOINS_TWO_NODES_SQL}"
        f"  order by {end}_id desc, updated_at desc limit :share) touching"
    )


def _from_to_sql(some: str, others: str) -> str:
    return (
        f"select {_COLUMNS}, agent_id, unsupported_since from graph_edges"
        f" where source_id = any(cast(:{some} as uuid[])) and target_id = any(cast(:{others} as uuid[]))"
        f" and {JOINS_TWO_NODES_SQL}"
    )


def _newest_sql(edges: str) -> str:
    return (
        f"select id, source_id, target_id from ({edges}) edges"
        f" where agent_id = {OWNED_AGENT_ID_SQL} and {IS_SUPPORTED_SQL} order by updated_at desc, id limit :most"
    )


# "Union" removes the duplicate of an edge between two of the nodes.
_INCIDENT_EDGES: Final = CompiledStatement(
    _newest_sql(f"{_newest_at_end_sql('source')} union {_newest_at_end_sql('target')}")
)
EDGES_BETWEEN_SQL: Final = _newest_sql(_from_to_sql("some", "others"))
"""SQL of `edges_between`, with the parameters `some`, `others` and `most`."""
_EDGES_BETWEEN: Final = CompiledStatement(EDGES_BETWEEN_SQL)
_EDGES_EITHER_WAY: Final = CompiledStatement(
    _newest_sql(f"{_from_to_sql('some', 'others')} union all {_from_to_sql('others', 'some')}")
)


MAX_PATH_EDGES: Final = 4
"""Edges per path."""
MAX_PATHS: Final = 5
_MAX_EDGES_FOLLOWED: Final = 200
"""Edges followed from all nodes at one distance, the newest of each node."""
_MAX_MEETING_EDGES: Final = 1_000
"""Edges that may join the nodes reached from both ends."""


@dataclass(frozen=True)
class Path:
    """The nodes in order, and the edges between them, in either direction."""

    nodes: tuple[UUID, ...]
    edges: tuple[Link, ...]


class _Frontier:
    """The nodes reached from one end, with at most MAX_PATHS shortest paths to each."""

    def __init__(self, end: UUID) -> None:
        self.reached: dict[UUID, tuple[Path, ...]] = {end: (Path((end,), ()),)}
        self._onward: list[Link] | None = None

    async def onward(self, transaction: Transaction, scope: GraphScope) -> list[Link]:
        """The edges that lead on from the frontier."""
        if self._onward is None:
            self._onward = await incident_edges(
                transaction, scope, self.reached, _MAX_EDGES_FOLLOWED
            )
        return self._onward

    def advance(self, edges: Iterable[Link], visited: set[UUID]) -> None:
        """Advance by one edge to nodes not seen before."""
        next_reached: dict[UUID, tuple[Path, ...]] = {}
        for edge, start, end in _both_directions(edges):
            if start in self.reached and end not in visited:
                extended = (
                    Path((*path.nodes, end), (*path.edges, edge)) for path in self.reached[start]
                )
                next_reached[end] = (*next_reached.get(end, ()), *extended)[:MAX_PATHS]
        visited.update(next_reached)
        self.reached, self._onward = next_reached, None


async def shortest_paths(
    transaction: Transaction, scope: GraphScope, start: UUID, goal: UUID
) -> list[Path]:
    """At most MAX_PATHS shortest paths of at most MAX_PATH_EDGES edges; empty if there is none.

    Edges are followed in both directions. Of a node with very many edges only the newest are followed, and those that
    lead directly to a node reached from the other end.
    """
    forward, backward, visited = _Frontier(start), _Frontier(goal), {start, goal}
    for length in range(1, MAX_PATH_EDGES + 1):
        links = await edges_between(
            transaction,
            scope,
            forward.reached,
            backward.reached,
            _MAX_MEETING_EDGES,
            either_way=True,
        )
        paths = _join_paths(forward, backward, links)
        if paths or length == MAX_PATH_EDGES:
            return paths[:MAX_PATHS]
        forward_links, backward_links = (
            await forward.onward(transaction, scope),
            await backward.onward(transaction, scope),
        )
        # Advance the side with fewer edges, where all can be followed.
        if len(forward_links) <= len(backward_links):
            forward.advance(forward_links, visited)
        else:
            backward.advance(backward_links, visited)
    return []


def _join_paths(forward: _Frontier, backward: _Frontier, edges: Iterable[Link]) -> list[Path]:
    """Each path to one end of a link, the link, and each path back from its other end."""
    return [
        Path((*first.nodes, *last.nodes[::-1]), (*first.edges, edge, *last.edges[::-1]))
        for edge, start, end in _both_directions(edges)
        for first in forward.reached.get(start, ())
        for last in backward.reached.get(end, ())
    ]


def _both_directions(edges: Iterable[Link]) -> Iterator[tuple[Link, UUID, UUID]]:
    """Each edge with its ends in the direction of travel."""
    for edge in edges:
        yield edge, edge.source_id, edge.target_id
        yield edge, edge.target_id, edge.source_id


async def validate_request(
    transaction: Transaction, scope: GraphScope, ids: Sequence[UUID], types: Sequence[str] = ()
) -> list[UUID]:
    """Resolve merged ids to current ones, in their order. Raises ToolRefusalError for an unknown node type."""
    if not ids and not types:
        return []
    values = {**scope.sql_params, "ids": list(ids), "types": list(types)}
    is_moved, type_names = await _REQUEST_CHECK.row(transaction, values)
    for type_name in (name for name in types if name not in type_names):
        await get_node_type(transaction, scope, type_name)
    return await resolve_redirects(transaction, scope, ids) if is_moved else list(ids)


_REQUEST_CHECK: Final = CompiledStatement(
    f"select {HAS_REDIRECT_SQL} as is_moved,"
    f" array(select name from graph_node_types where agent_id = {OWNED_AGENT_ID_SQL}"
    " and name = any(cast(:types as text[]))) as known"
)


_OPTIONAL_FIELDS: Final = ("asOf", "until", "claimed")


async def load_elements(
    transaction: Transaction, scope: GraphScope, node_ids: Iterable[UUID], edge_ids: Iterable[UUID]
) -> tuple[list[Json], list[Json]]:
    """Load nodes and edges as JSON, in the given order; unknown ids are left out.

    `asOf` comes from the evidence with the latest `as_of` that is not retracted and whose validity has begun, `until` from
    the end of its validity; `beside` has contested and upcoming values, `claimed` tells who says what no page states itself.
    Each is omitted if there is none.
    """
    values = {"node_ids": uuid_array(node_ids), "edge_ids": uuid_array(edge_ids)}
    return await _run_elements(transaction, _ELEMENTS, {**scope.sql_params, **values})


async def load_with_edges_among(
    transaction: Transaction, scope: GraphScope, node_ids: Iterable[UUID], limit: int
) -> tuple[list[Json], list[Json]]:
    """Like `load_elements`, with the `limit` most recently updated edges between the nodes."""
    ids = uuid_array(node_ids)
    values = {"node_ids": ids, "some": ids, "others": ids, "most": limit}
    return await _run_elements(transaction, _ELEMENTS_AMONG, {**scope.sql_params, **values})


async def _run_elements(
    transaction: Transaction, statement: CompiledStatement, values: Mapping[str, Any]
) -> tuple[list[Json], list[Json]]:
    nodes, edges = await statement.row(transaction, values)
    for element in (*nodes, *edges):
        element["claimed"] = says(element["claimed"])
        for field in _OPTIONAL_FIELDS:
            if not element[field]:
                del element[field]
        if also := stated_beside(element.pop("stated"), element["properties"]):
            element["beside"] = also
    return nodes, edges


def _utc_sql(expression: str) -> str:
    """SQL for the format of `prompt_format.format_utc`."""
    return f"to_char({expression} at time zone 'UTC', 'YYYY-MM-DD\"T\"HH24:MI:SS\"Z\"')"


_DATE_SQL: Final = f"nullif(as_of, {UNKNOWN_DATE_SQL})"


def _elements_sql(kind: Literal["node", "edge"], columns: str, rows_sql: str) -> str:
    """JSON array of the elements whose `id` and `place` are in `rows_sql`."""
    column: Column = "node_id" if kind == "node" else "edge_id"
    # A lateral lookup per id: planned for many ids at once, it would scan the whole table.
    return (
        "(select coalesce(json_agg(json_build_object("
        f"'id', element.id, {columns}, 'asOf', {_utc_sql(_DATE_SQL)}, 'until', {_utc_sql('valid_to')},"
        " 'stated', beside.stated,"
        f" 'claimed', {claimed_sql(kind)})"
        " order by place), '[]')"
        f" from {rows_sql}"
        f" cross join lateral (select * from graph_{kind}s"
        f"  where id = given.id and agent_id = {OWNED_AGENT_ID_SQL} and {IS_SUPPORTED_SQL} limit 1) element"
        " left join lateral (select as_of, valid_to from evidence"
        f"  where {kind}_id = element.id"
        "  and (select retracted_at from sources where id = evidence.source_id) is null"
        f"  and (valid_from > {NOW_SQL}) is not true order by as_of desc limit 1) truth on true"
        f" cross join lateral {beside_sql(column, 'element', 'element.properties')} as beside)"
    )


def _ids_sql(ids: str) -> str:
    return f"unnest(cast(:{ids} as uuid[])) with ordinality given (id, place)"


def _elements_statement(edges_sql: str) -> CompiledStatement:
    nodes = _elements_sql(
        "node",
        f"'type', type, 'name', name, 'properties', properties, 'updatedAt', {_utc_sql('updated_at')}",
        _ids_sql("node_ids"),
    )
    ends = "'sourceId', element.source_id, 'targetId', target_id"
    edges = _elements_sql("edge", f"'type', type, {ends}, 'properties', properties", edges_sql)
    return CompiledStatement(f"select {nodes} as nodes, {edges} as edges")


# Built once: that takes longer than PostgreSQL takes to run it.
_ELEMENTS: Final = _elements_statement(_ids_sql("edge_ids"))
_ELEMENTS_AMONG: Final = _elements_statement(
    f"(select id, row_number() over () as place from ({EDGES_BETWEEN_SQL}) newest) given"
)


MAX_BYTES: Final = 20_000
_FRAME_BYTES: Final = 300
"""For the brackets and the sentence about the length."""
_ENCODER: Final = json.JSONEncoder(ensure_ascii=False)


def truncate_response(
    nodes: Sequence[Json],
    edges: Sequence[Json],
    cuts: Sequence[str],
    unread: int = 0,
    **more: Sequence[Json],
) -> Json:
    """Show all elements shortened while they fit, nodes before edges; then expand them while there is room.

    `cuts` are sentences about what was left out before, `unread` is the number of edges that were not loaded for lack
    of room (see `has_room_behind`); `more` is added as it is.
    """
    elements = [*nodes, *edges]
    left_bytes = MAX_BYTES - _FRAME_BYTES - sum(map(_size_bytes, (*cuts, more)))
    fitted = _fit_elements(elements, left_bytes)
    left_out = len(elements) - len(fitted) + unread
    shortened_count = sum(
        element is not full_element for element, full_element in zip(fitted, elements, strict=False)
    )
    if left_out or shortened_count:
        cuts = [
            f"For length, {left_out} nodes or edges are left out and {shortened_count} are shortened; ask for fewer, "
            "by nodeIds, to see them in full.",
            *cuts,
        ]
    answer: Json = {**more, "nodes": fitted[: len(nodes)], "edges": fitted[len(nodes) :]}
    return answer | ({"cut": " ".join(cuts)} if cuts else {})


def has_room_behind(nodes: Sequence[Json]) -> bool:
    """Whether any edge would fit behind these nodes if nothing was cut."""
    return len(_fit_elements(nodes, MAX_BYTES - _FRAME_BYTES)) == len(nodes)


def _fit_elements(elements: Sequence[Json], left_bytes: int) -> list[Json]:
    full_sizes = list(_sizes_bytes(elements, left_bytes))
    if len(full_sizes) == len(elements):
        return list(elements)
    fitted: list[Json] = []
    extra_sizes: list[int] = []  # what each full element takes more than its shortened form
    for index, element in enumerate(elements):
        shortened = _shorten(element)
        full_bytes = full_sizes[index] if index < len(full_sizes) else _size_bytes(element)
        size_bytes = full_bytes if shortened is element else _size_bytes(shortened)
        if size_bytes > left_bytes:
            break
        left_bytes -= size_bytes
        fitted.append(shortened)
        extra_sizes.append(full_bytes - size_bytes)
    for index, extra_bytes in enumerate(extra_sizes):
        if fitted[index] is not elements[index] and extra_bytes <= left_bytes:
            left_bytes -= extra_bytes
            fitted[index] = elements[index]
    return fitted


def _sizes_bytes(elements: Sequence[Json], left_bytes: int) -> Iterator[int]:
    """The size of each element, while they fit; the rest is not encoded."""
    left_bytes -= len("[]")
    for element in elements:
        size_bytes = _size_bytes(element)
        left_bytes -= size_bytes
        if left_bytes < 0:
            return
        yield size_bytes


def _shorten(element: Json) -> Json:
    """Returns `element` itself if there is nothing to shorten."""
    properties = shorten_properties(element["properties"])
    return element if properties == element["properties"] else {**element, "properties": properties}


def _size_bytes(value: object) -> int:
    return len(_ENCODER.encode(value).encode()) + len(", ")


__all__ = ["MAX_BYTES", "MAX_DEPTH", "MAX_EDGES", "MAX_NODES", "MAX_TYPES", "query_graph"]

MAX_NODES: Final = 50
MAX_EDGES: Final = 100
MAX_TYPES: Final = 10
"""Node types per search."""
MAX_DEPTH: Final = 2
"""Edges between a found node and the farthest node that is shown with it."""
_ENDS_OF_A_PATH: Final = 2
_NEIGHBOURS_CUT: Final = (
    "Not all neighbours or edges are shown, but those touched last; ask for fewer nodes, by nodeIds, to see more of "
    "each."
)


async def query_graph(
    transaction: Transaction,
    scope: GraphScope,
    *,
    text: str | None = None,
    type_name: str | None = None,
    type_names: Sequence[str] = (),
    ids: Sequence[UUID] = (),
    updated_since: datetime | None = None,
    neighbours: int = 0,
    between: Sequence[UUID] = (),
    limit: int = 20,
    near: VectorQuery | None = None,
) -> Json:
    """Search the graph; returns `{"nodes", "edges"}`: matching nodes, best first, and the edges among them.

    `neighbours` 1 or 2 adds what is that many edges away. Two nodes in `between` replace the other conditions: the
    result has the shortest `paths` that join them, and the elements on these. What exceeds MAX_NODES, MAX_EDGES or
    MAX_BYTES is left out, and `cut` says so. Elements that rest only on retracted sources are not found. Raises
    ToolRefusalError for an unknown type.
    """
    if between:
        return await _paths_between(
            transaction, scope, await validate_request(transaction, scope, between)
        )
    types = list(dict.fromkeys([*([] if type_name is None else [type_name]), *type_names]))
    criteria = SearchCriteria(text, types, ids, updated_since, near)
    result = await _search(transaction, scope, criteria, min(limit, MAX_NODES))
    unread = 0
    if neighbours:
        depth = min(neighbours, MAX_DEPTH)
        node_ids, edge_ids, is_all = await _expand(transaction, scope, result.ids, depth)
        nodes, edges, unread = await _load_within_limit(transaction, scope, node_ids, edge_ids)
    else:
        nodes, edges = await load_with_edges_among(transaction, scope, result.ids, MAX_EDGES + 1)
        is_all = len(edges) <= MAX_EDGES
    cuts = [*_describe_cuts(result), *([] if is_all else [_NEIGHBOURS_CUT])]
    return truncate_response(nodes, edges[:MAX_EDGES], cuts, unread)


async def _search(
    transaction: Transaction, scope: GraphScope, criteria: SearchCriteria, limit: int
) -> SearchResult:
    """Like `node_search.search_nodes`, after resolving merged ids."""
    result = None
    if criteria.ids and not criteria.types:
        result = await node_search.search_nodes(transaction, scope, criteria, limit)
        if len(result.ids) == len(set(criteria.ids)):
            return result  # an id that is found was not merged
    ids = await validate_request(transaction, scope, criteria.ids, criteria.types)
    if result is not None and ids == list(criteria.ids):
        return result
    return await node_search.search_nodes(transaction, scope, replace(criteria, ids=ids), limit)


async def _load_within_limit(
    transaction: Transaction, scope: GraphScope, node_ids: Sequence[UUID], edge_ids: Sequence[UUID]
) -> tuple[list[Json], list[Json], int]:
    """Nodes and edges, and the number of edges that were not loaded.

    With MAX_NODES nodes there is mostly no room for edges, which take two thirds of the loading time.
    """
    if len(node_ids) < MAX_NODES:
        return *await load_elements(transaction, scope, node_ids, edge_ids), 0
    nodes, _ = await load_elements(transaction, scope, node_ids, ())
    if not has_room_behind(nodes):
        return nodes, [], len(edge_ids)
    _, edges = await load_elements(transaction, scope, (), edge_ids)
    return nodes, edges, 0


async def _expand(
    transaction: Transaction, scope: GraphScope, node_ids: Sequence[UUID], depth: int
) -> tuple[list[UUID], list[UUID], bool]:
    """`node_ids` and what is within `depth` edges, nearest first; the edges among all; and whether nothing was cut."""
    visited, edges, is_all = dict.fromkeys(node_ids), dict[UUID, Link](), True
    if len(visited) > 1:
        among = await edges_between(transaction, scope, visited, visited, MAX_EDGES + 1)
        edges |= {edge.id: edge for edge in among}
    farthest = list(visited)
    for _ in range(depth):
        if len(visited) == MAX_NODES and len(edges) > MAX_EDGES:
            break  # nothing more would be shown
        incident = await incident_edges(transaction, scope, farthest, MAX_EDGES + 1)
        edges |= {edge.id: edge for edge in incident}
        ends = dict.fromkeys(end for edge in incident for end in (edge.source_id, edge.target_id))
        new_ids = [end for end in ends if end not in visited]
        farthest = new_ids[: MAX_NODES - len(visited)]
        is_all = is_all and len(farthest) == len(new_ids)
        visited |= dict.fromkeys(farthest)
    return list(visited), list(edges)[:MAX_EDGES], is_all and len(edges) <= MAX_EDGES


async def _paths_between(transaction: Transaction, scope: GraphScope, ends: Sequence[UUID]) -> Json:
    if len(set(ends)) != _ENDS_OF_A_PATH:
        raise ToolRefusalError("between: give the ids of two different nodes.")
    paths = await shortest_paths(transaction, scope, *ends)
    node_ids = dict.fromkeys(node_id for path in paths for node_id in path.nodes) or ends
    edge_ids = dict.fromkeys(edge.id for path in paths for edge in path.edges)
    nodes, edges = await load_elements(transaction, scope, node_ids, edge_ids)
    loaded_ids = {node["id"] for node in nodes}
    for end in ends:
        if str(end) not in loaded_ids:
            raise ToolRefusalError(
                f"between: no such node: {end}; use an id that queryGraph returned."
            )
    path_views = [
        {
            "nodeIds": [str(node_id) for node_id in path.nodes],
            "edgeIds": [str(edge.id) for edge in path.edges],
        }
        for path in paths
    ]
    no_path = f"No path of at most {MAX_PATH_EDGES} edges was found between the two."
    return truncate_response(nodes, edges, [] if paths else [no_path], paths=path_views)


def _describe_cuts(result: SearchResult) -> list[str]:
    cuts = []
    if not result.is_all:
        cuts.append(
            "More nodes match than are shown; narrow the search, or raise limit, to see others."
        )
    if result.common:
        cuts.append(
            f"Very many nodes hold {', '.join(result.common)}: alone, such words were looked for only among the nodes "
            "touched last."
        )
    return cuts
