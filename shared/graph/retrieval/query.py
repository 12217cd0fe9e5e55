"""The query behind the tool `queryGraph`, bounded in cost and size."""

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from datetime import datetime
from typing import Any, Final
from uuid import UUID

from sqlalchemy.ext.asyncio import AsyncSession

from shared.database.statements import Direct, listed
from shared.graph.entity_resolution.redirects import IS_MOVED, followed
from shared.graph.prompt_format import shortened
from shared.graph.retrieval import Near, node_search, traversal
from shared.graph.retrieval.node_search import Found, Sought
from shared.graph.retrieval.traversal import LEADING, Link
from shared.graph.scope import OWNED_SQL, STANDS, Scope
from shared.graph.types import node_type
from shared.tools import Json, ToolRefusalError


async def checked(
    session: AsyncSession, scope: Scope, ids: Sequence[UUID], types: Sequence[str] = ()
) -> list[UUID]:
    """Each of `ids` as it is now, in their order. Refuses a type of nodes that does not exist."""
    if not ids and not types:
        return []
    values = {**scope.bound, "ids": list(ids), "types": list(types)}
    is_moved, known = await _GIVEN.row(session, values)
    for missing in (each for each in types if each not in known):
        await node_type(session, scope, missing)
    return await followed(session, scope, ids) if is_moved else list(ids)


_GIVEN: Final = Direct(
    f"select {IS_MOVED} as is_moved,"
    f" array(select name from graph_node_types where agent_id = {OWNED_SQL} and name = any(cast(:types as text[]))) as known"
)


_TRUTH: Final = ("asOf", "until")


async def shown(
    session: AsyncSession, scope: Scope, node_ids: Iterable[UUID], edge_ids: Iterable[UUID]
) -> tuple[list[Json], list[Json]]:
    """Those of the nodes and of the edges that the agent has, in this order.

    `asOf` is by the evidence that is true latest, of what was not retracted; `until` is when that ended. Either is left
    out where nothing says it.
    """
    values = {"node_ids": listed(node_ids), "edge_ids": listed(edge_ids)}
    return await _told(session, _SHOWN, {**scope.bound, **values})


async def shown_among(
    session: AsyncSession, scope: Scope, node_ids: Iterable[UUID], limit: int
) -> tuple[list[Json], list[Json]]:
    """As `shown`, with at most `limit` of the edges that lead from one of the nodes to another, those touched last first."""
    ids = listed(node_ids)
    values = {"node_ids": ids, "some": ids, "others": ids, "most": limit}
    return await _told(session, _SHOWN_AMONG, {**scope.bound, **values})


async def _told(
    session: AsyncSession, statement: Direct, values: Mapping[str, Any]
) -> tuple[list[Json], list[Json]]:
    nodes, edges = await statement.row(session, values)
    for thing in (*nodes, *edges):
        for moment in _TRUTH:
            if thing[moment] is None:
                del thing[moment]
    return nodes, edges


def _utc(moment: str) -> str:
    """As `shared.graph.prompt_format.utc`."""
    return f"to_char({moment} at time zone 'UTC', 'YYYY-MM-DD\"T\"HH24:MI:SS\"Z\"')"


def _listed(kind: str, columns: str, given: str) -> str:
    """Those of which `given` has `id` and `place`."""
    # Each is looked up by itself: planned for very many at once, all that there is would be gone through.
    return (
        "(select coalesce(json_agg(json_build_object("
        f"'id', thing.id, {columns}, 'asOf', {_utc('as_of')}, 'until', {_utc('valid_to')}) order by place), '[]')"
        f" from {given}"
        f" cross join lateral (select * from graph_{kind}s"
        f"  where id = given.id and agent_id = {OWNED_SQL} and {STANDS} limit 1) thing"
        " left join lateral (select as_of, valid_to from evidence"
        f"  where {kind}_id = thing.id"
        "  and (select retracted_at from sources where id = evidence.source_id) is null"
        "  order by as_of desc limit 1) truth on true)"
    )


def _given(ids: str) -> str:
    return f"unnest(cast(:{ids} as uuid[])) with ordinality given (id, place)"


def _shown_statement(given_edges: str) -> Direct:
    nodes = _listed(
        "node",
        f"'type', type, 'name', name, 'properties', properties, 'updatedAt', {_utc('updated_at')}",
        _given("node_ids"),
    )
    ends = "'sourceId', thing.source_id, 'targetId', target_id"
    edges = _listed("edge", f"'type', type, {ends}, 'properties', properties", given_edges)
    return Direct(f"select {nodes} as nodes, {edges} as edges")


# Made once: to put such a statement together takes longer than PostgreSQL takes to answer it.
_SHOWN: Final = _shown_statement(_given("edge_ids"))
_SHOWN_AMONG: Final = _shown_statement(
    f"(select id, row_number() over () as place from ({LEADING}) newest) given"
)


MAX_BYTES: Final = 20_000
_FRAME_BYTES: Final = 300
"""The brackets and the sentence about the length."""
_ENCODER: Final = json.JSONEncoder(ensure_ascii=False)


def bounded(
    nodes: Sequence[Json],
    edges: Sequence[Json],
    cuts: Sequence[str],
    unread: int = 0,
    **more: Sequence[Json],
) -> Json:
    """Everything in short while it fits, nodes before edges; then in full what the room that is left allows.

    `cuts` are sentences about what was left out before, `unread` how many edges were for want of room (see
    `has_room_behind`); `more` stands beside nodes and edges, whole.
    """
    wholes = [*nodes, *edges]
    left_bytes = MAX_BYTES - _FRAME_BYTES - sum(map(_size_bytes, (*cuts, more)))
    shown = _fitted(wholes, left_bytes)
    left_out = len(wholes) - len(shown) + unread
    shortened_count = sum(each is not whole for each, whole in zip(shown, wholes, strict=False))
    if left_out or shortened_count:
        cuts = [
            f"For length, {left_out} nodes or edges are left out and {shortened_count} are shortened; ask for fewer, "
            "by nodeIds, to see them in full.",
            *cuts,
        ]
    answer: Json = {**more, "nodes": shown[: len(nodes)], "edges": shown[len(nodes) :]}
    return answer | ({"cut": " ".join(cuts)} if cuts else {})


def has_room_behind(nodes: Sequence[Json]) -> bool:
    """Whether any edge could be shown with them, were there no cuts to tell of."""
    return len(_fitted(nodes, MAX_BYTES - _FRAME_BYTES)) == len(nodes)


def _fitted(wholes: Sequence[Json], left_bytes: int) -> list[Json]:
    sizes = list(_sizes_bytes(wholes, left_bytes))
    if len(sizes) == len(wholes):
        return list(wholes)
    shown: list[Json] = []
    more_bytes: list[int] = []  # that each takes whole
    for index, whole in enumerate(wholes):
        brief = _brief(whole)
        whole_bytes = sizes[index] if index < len(sizes) else _size_bytes(whole)
        size_bytes = whole_bytes if brief is whole else _size_bytes(brief)
        if size_bytes > left_bytes:
            break
        left_bytes -= size_bytes
        shown.append(brief)
        more_bytes.append(whole_bytes - size_bytes)
    for index, more in enumerate(more_bytes):
        if shown[index] is not wholes[index] and more <= left_bytes:
            left_bytes -= more
            shown[index] = wholes[index]
    return shown


def _sizes_bytes(things: Sequence[Json], left_bytes: int) -> Iterator[int]:
    """Of each, as long as all of them fit: what lies behind is not even looked at."""
    left_bytes -= len("[]")
    for thing in things:
        size_bytes = _size_bytes(thing)
        left_bytes -= size_bytes
        if left_bytes < 0:
            return
        yield size_bytes


def _brief(thing: Json) -> Json:
    """`thing` itself where there is nothing to shorten."""
    properties = shortened(thing["properties"])
    return thing if properties == thing["properties"] else {**thing, "properties": properties}


def _size_bytes(thing: object) -> int:
    return len(_ENCODER.encode(thing).encode()) + len(", ")


__all__ = ["DEEPEST", "MAX_BYTES", "MAX_EDGES", "MAX_NODES", "MAX_TYPES", "query"]

MAX_NODES: Final = 50
MAX_EDGES: Final = 100
MAX_TYPES: Final = 10
"""That one search may name."""
DEEPEST: Final = 2
"""Edges between a node that is found and the farthest that is shown with it."""
_ENDS_OF_A_PATH: Final = 2
_NEIGHBOURS_CUT: Final = (
    "Not all neighbours or edges are shown, but those touched last; ask for fewer nodes, by nodeIds, to see more of "
    "each."
)


async def query(
    session: AsyncSession,
    scope: Scope,
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
    near: Near | None = None,
) -> Json:
    """`{"nodes", "edges"}`: the nodes that meet every condition given, best match first, and the edges among them.

    With `neighbours` 1 or 2 also what lies so many edges from them. With `between` two nodes the other conditions do
    not count: it is the shortest `paths` that join the two, and what lies on those. What is more than MAX_NODES,
    MAX_EDGES or MAX_BYTES is left out, and `cut` says so. What rests on retracted pages alone is not found. Refuses a
    type that does not exist.
    """
    if between:
        return await _between(session, scope, await checked(session, scope, between))
    types = list(dict.fromkeys([*([] if type_name is None else [type_name]), *type_names]))
    sought = Sought(text, types, ids, updated_since, as_of, near)
    found = await _found(session, scope, sought, min(limit, MAX_NODES))
    unread = 0
    if neighbours:
        node_ids, edge_ids, is_all = await _around(
            session, scope, found.ids, min(neighbours, DEEPEST)
        )
        nodes, edges, unread = await _shown(session, scope, node_ids, edge_ids)
    else:
        nodes, edges = await shown_among(session, scope, found.ids, MAX_EDGES + 1)
        is_all = len(edges) <= MAX_EDGES
    cuts = [*_cuts(found), *([] if is_all else [_NEIGHBOURS_CUT])]
    return bounded(nodes, edges[:MAX_EDGES], cuts, unread)


async def _found(session: AsyncSession, scope: Scope, sought: Sought, limit: int) -> Found:
    """As `search.find`, with ids that a merge has moved followed first."""
    found = None
    if sought.ids and not sought.types:
        found = await node_search.find(session, scope, sought, limit)
        if len(found.ids) == len(set(sought.ids)):
            return found  # what is there has not been moved
    ids = await checked(session, scope, sought.ids, sought.types)
    if found is not None and ids == list(sought.ids):
        return found
    return await node_search.find(session, scope, replace(sought, ids=ids), limit)


async def _shown(
    session: AsyncSession, scope: Scope, node_ids: Sequence[UUID], edge_ids: Sequence[UUID]
) -> tuple[list[Json], list[Json], int]:
    """Nodes and edges, and how many edges were not read.

    So many nodes as can be mostly leave no room for edges, which are two thirds of what it takes to read both.
    """
    if len(node_ids) < MAX_NODES:
        return *await shown(session, scope, node_ids, edge_ids), 0
    nodes, _ = await shown(session, scope, node_ids, ())
    if not has_room_behind(nodes):
        return nodes, [], len(edge_ids)
    _, edges = await shown(session, scope, (), edge_ids)
    return nodes, edges, 0


async def _around(
    session: AsyncSession, scope: Scope, found: Sequence[UUID], depth: int
) -> tuple[list[UUID], list[UUID], bool]:
    """`found` and what lies within `depth` edges, the nearer first, the edges of all that, and whether it is all."""
    known, edges, is_all = dict.fromkeys(found), dict[UUID, Link](), True
    if len(known) > 1:
        among = await traversal.leading(session, scope, known, known, MAX_EDGES + 1)
        edges |= {edge.id: edge for edge in among}
    farthest = list(known)
    for _ in range(depth):
        if len(known) == MAX_NODES and len(edges) > MAX_EDGES:
            break  # nothing farther would be shown
        followed = await traversal.touching(session, scope, farthest, MAX_EDGES + 1)
        edges |= {edge.id: edge for edge in followed}
        ends = dict.fromkeys(end for edge in followed for end in (edge.source_id, edge.target_id))
        new = [end for end in ends if end not in known]
        farthest = new[: MAX_NODES - len(known)]
        is_all = is_all and len(farthest) == len(new)
        known |= dict.fromkeys(farthest)
    return list(known), list(edges)[:MAX_EDGES], is_all and len(edges) <= MAX_EDGES


async def _between(session: AsyncSession, scope: Scope, ends: Sequence[UUID]) -> Json:
    if len(set(ends)) != _ENDS_OF_A_PATH:
        raise ToolRefusalError("between: give the ids of two different nodes.")
    found = await traversal.shortest(session, scope, *ends)
    node_ids = dict.fromkeys(each for path in found for each in path.nodes) or ends
    edge_ids = dict.fromkeys(each.id for path in found for each in path.edges)
    nodes, edges = await shown(session, scope, node_ids, edge_ids)
    known = {node["id"] for node in nodes}
    for missing in (each for each in ends if str(each) not in known):
        raise ToolRefusalError(f"between: no such node: {missing}; use an id that queryGraph gave.")
    told = [
        {
            "nodeIds": [str(each) for each in path.nodes],
            "edgeIds": [str(each.id) for each in path.edges],
        }
        for path in found
    ]
    cuts = (
        []
        if found
        else [f"No path of at most {traversal.LONGEST} edges was found between the two."]
    )
    return bounded(nodes, edges, cuts, paths=told)


def _cuts(found: Found) -> list[str]:
    cuts = []
    if not found.is_all:
        cuts.append(
            "More nodes match than are shown; narrow the search, or raise limit, to see others."
        )
    if found.common:
        cuts.append(
            f"Very many nodes hold {', '.join(found.common)}: alone, such words were looked for only among the nodes "
            "touched last."
        )
    return cuts
