"""The search behind the tool `queryGraph`, bounded in cost and size."""

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from datetime import datetime
from typing import Any, Final
from uuid import UUID

from shared.database.statements import CompiledStatement, InTransaction, uuid_array
from shared.graph.entity_resolution.redirects import HAS_REDIRECT_SQL, resolve_redirects
from shared.graph.prompt_format import shorten_properties
from shared.graph.provenance.claims import UNKNOWN_DATE_SQL
from shared.graph.retrieval import VectorQuery, node_search, traversal
from shared.graph.retrieval.node_search import SearchCriteria, SearchResult
from shared.graph.retrieval.traversal import EDGES_BETWEEN_SQL, Link
from shared.graph.scope import IS_SUPPORTED_SQL, OWNED_AGENT_ID_SQL, GraphScope
from shared.graph.types import get_node_type
from shared.tools import Json, ToolRefusalError


async def validate_request(
    session: InTransaction, scope: GraphScope, ids: Sequence[UUID], types: Sequence[str] = ()
) -> list[UUID]:
    """Resolve merged ids to current ones, in their order. Raises ToolRefusalError for an unknown node type."""
    if not ids and not types:
        return []
    values = {**scope.sql_params, "ids": list(ids), "types": list(types)}
    is_moved, type_names = await _REQUEST_CHECK.row(session, values)
    for type_name in (name for name in types if name not in type_names):
        await get_node_type(session, scope, type_name)
    return await resolve_redirects(session, scope, ids) if is_moved else list(ids)


_REQUEST_CHECK: Final = CompiledStatement(
    f"select {HAS_REDIRECT_SQL} as is_moved,"
    f" array(select name from graph_node_types where agent_id = {OWNED_AGENT_ID_SQL}"
    " and name = any(cast(:types as text[]))) as known"
)


_VALIDITY_FIELDS: Final = ("asOf", "until")


async def load_elements(
    session: InTransaction, scope: GraphScope, node_ids: Iterable[UUID], edge_ids: Iterable[UUID]
) -> tuple[list[Json], list[Json]]:
    """Load nodes and edges as JSON, in the given order; unknown ids are left out.

    `asOf` comes from the evidence with the latest `as_of` that is not retracted, `until` from the end of its
    validity. Either is omitted if unknown.
    """
    values = {"node_ids": uuid_array(node_ids), "edge_ids": uuid_array(edge_ids)}
    return await _run_elements(session, _ELEMENTS, {**scope.sql_params, **values})


async def load_with_edges_among(
    session: InTransaction, scope: GraphScope, node_ids: Iterable[UUID], limit: int
) -> tuple[list[Json], list[Json]]:
    """Like `load_elements`, with the `limit` most recently updated edges between the nodes."""
    ids = uuid_array(node_ids)
    values = {"node_ids": ids, "some": ids, "others": ids, "most": limit}
    return await _run_elements(session, _ELEMENTS_AMONG, {**scope.sql_params, **values})


async def _run_elements(
    session: InTransaction, statement: CompiledStatement, values: Mapping[str, Any]
) -> tuple[list[Json], list[Json]]:
    nodes, edges = await statement.row(session, values)
    for element in (*nodes, *edges):
        for field in _VALIDITY_FIELDS:
            if element[field] is None:
                del element[field]
    return nodes, edges


def _utc_sql(expression: str) -> str:
    """SQL for the format of `prompt_format.format_utc`."""
    return f"to_char({expression} at time zone 'UTC', 'YYYY-MM-DD\"T\"HH24:MI:SS\"Z\"')"


_DATE_SQL: Final = f"nullif(as_of, {UNKNOWN_DATE_SQL})"


def _elements_sql(kind: str, columns: str, rows_sql: str) -> str:
    """JSON array of the elements whose `id` and `place` are in `rows_sql`."""
    # A lateral lookup per id: planned for many ids at once, it would scan the whole table.
    return (
        "(select coalesce(json_agg(json_build_object("
        f"'id', element.id, {columns}, 'asOf', {_utc_sql(_DATE_SQL)}, 'until', {_utc_sql('valid_to')})"
        " order by place), '[]')"
        f" from {rows_sql}"
        f" cross join lateral (select * from graph_{kind}s"
        f"  where id = given.id and agent_id = {OWNED_AGENT_ID_SQL} and {IS_SUPPORTED_SQL} limit 1) element"
        " left join lateral (select as_of, valid_to from evidence"
        f"  where {kind}_id = element.id"
        "  and (select retracted_at from sources where id = evidence.source_id) is null"
        "  order by as_of desc limit 1) truth on true)"
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
    session: InTransaction,
    scope: GraphScope,
    *,
    text: str | None = None,
    type_name: str | None = None,
    type_names: Sequence[str] = (),
    ids: Sequence[UUID] = (),
    updated_since: datetime | None = None,
    as_of: datetime | None = None,
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
        return await _paths_between(session, scope, await validate_request(session, scope, between))
    types = list(dict.fromkeys([*([] if type_name is None else [type_name]), *type_names]))
    criteria = SearchCriteria(text, types, ids, updated_since, as_of, near)
    result = await _search(session, scope, criteria, min(limit, MAX_NODES))
    unread = 0
    if neighbours:
        depth = min(neighbours, MAX_DEPTH)
        node_ids, edge_ids, is_all = await _expand(session, scope, result.ids, depth)
        nodes, edges, unread = await _load_within_limit(session, scope, node_ids, edge_ids)
    else:
        nodes, edges = await load_with_edges_among(session, scope, result.ids, MAX_EDGES + 1)
        is_all = len(edges) <= MAX_EDGES
    cuts = [*_describe_cuts(result), *([] if is_all else [_NEIGHBOURS_CUT])]
    return truncate_response(nodes, edges[:MAX_EDGES], cuts, unread)


async def _search(
    session: InTransaction, scope: GraphScope, criteria: SearchCriteria, limit: int
) -> SearchResult:
    """Like `node_search.search_nodes`, after resolving merged ids."""
    result = None
    if criteria.ids and not criteria.types:
        result = await node_search.search_nodes(session, scope, criteria, limit)
        if len(result.ids) == len(set(criteria.ids)):
            return result  # an id that is found was not merged
    ids = await validate_request(session, scope, criteria.ids, criteria.types)
    if result is not None and ids == list(criteria.ids):
        return result
    return await node_search.search_nodes(session, scope, replace(criteria, ids=ids), limit)


async def _load_within_limit(
    session: InTransaction, scope: GraphScope, node_ids: Sequence[UUID], edge_ids: Sequence[UUID]
) -> tuple[list[Json], list[Json], int]:
    """Nodes and edges, and the number of edges that were not loaded.

    With MAX_NODES nodes there is mostly no room for edges, which take two thirds of the loading time.
    """
    if len(node_ids) < MAX_NODES:
        return *await load_elements(session, scope, node_ids, edge_ids), 0
    nodes, _ = await load_elements(session, scope, node_ids, ())
    if not has_room_behind(nodes):
        return nodes, [], len(edge_ids)
    _, edges = await load_elements(session, scope, (), edge_ids)
    return nodes, edges, 0


async def _expand(
    session: InTransaction, scope: GraphScope, node_ids: Sequence[UUID], depth: int
) -> tuple[list[UUID], list[UUID], bool]:
    """`node_ids` and what is within `depth` edges, nearest first; the edges among all; and whether nothing was cut."""
    visited, edges, is_all = dict.fromkeys(node_ids), dict[UUID, Link](), True
    if len(visited) > 1:
        among = await traversal.edges_between(session, scope, visited, visited, MAX_EDGES + 1)
        edges |= {edge.id: edge for edge in among}
    farthest = list(visited)
    for _ in range(depth):
        if len(visited) == MAX_NODES and len(edges) > MAX_EDGES:
            break  # nothing more would be shown
        incident = await traversal.incident_edges(session, scope, farthest, MAX_EDGES + 1)
        edges |= {edge.id: edge for edge in incident}
        ends = dict.fromkeys(end for edge in incident for end in (edge.source_id, edge.target_id))
        new_ids = [end for end in ends if end not in visited]
        farthest = new_ids[: MAX_NODES - len(visited)]
        is_all = is_all and len(farthest) == len(new_ids)
        visited |= dict.fromkeys(farthest)
    return list(visited), list(edges)[:MAX_EDGES], is_all and len(edges) <= MAX_EDGES


async def _paths_between(session: InTransaction, scope: GraphScope, ends: Sequence[UUID]) -> Json:
    if len(set(ends)) != _ENDS_OF_A_PATH:
        raise ToolRefusalError("between: give the ids of two different nodes.")
    paths = await traversal.shortest_paths(session, scope, *ends)
    node_ids = dict.fromkeys(node_id for path in paths for node_id in path.nodes) or ends
    edge_ids = dict.fromkeys(edge.id for path in paths for edge in path.edges)
    nodes, edges = await load_elements(session, scope, node_ids, edge_ids)
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
    no_path = f"No path of at most {traversal.MAX_PATH_EDGES} edges was found between the two."
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
