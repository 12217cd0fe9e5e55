"""Neighbours and paths, found through indexes only.

Loads only ids and ends of edges; properties are loaded for the elements that will be shown.
"""

from collections.abc import Collection, Iterable, Iterator
from dataclasses import dataclass
from typing import Final, NamedTuple
from uuid import UUID

from shared.database.statements import (
    BoundQuery,
    CompiledStatement,
    Executor,
    InTransaction,
    uuid_array,
)
from shared.graph.scope import (
    IS_SUPPORTED_SQL,
    JOINS_TWO_NODES_SQL,
    OWNED_AGENT_ID_SQL,
    GraphScope,
)

MIN_EDGES_PER_NODE: Final = 5
"""Edges per direction that are followed from each of many nodes, at least."""


class Link(NamedTuple):
    """An edge by the ids of its ends."""

    id: UUID
    source_id: UUID
    target_id: UUID


async def incident_edges(
    session: Executor, scope: GraphScope, ids: Collection[UUID], limit: int
) -> list[Link]:
    """At most `limit` edges that start or end at `ids`, the most recently updated first, shared among the nodes."""
    if not ids:
        return []
    query = incident_query(scope, ids, limit)
    return list(map(Link._make, await query.statement.tuples(session, query.params)))


def incident_query(scope: GraphScope, ids: Collection[UUID], limit: int) -> BoundQuery[list[Link]]:
    """The statement of `incident_edges`."""
    share = max(MIN_EDGES_PER_NODE, -(-limit // max(len(ids), 1)))
    params = {**scope.sql_params, "ids": uuid_array(ids), "share": share, "most": limit}
    return BoundQuery(_INCIDENT_EDGES, params, lambda rows: list(map(Link._make, rows)))


async def edges_between(
    session: Executor,
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
    rows = await statement.tuples(session, {**scope.sql_params, **values})
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

    async def onward(self, session: InTransaction, scope: GraphScope) -> list[Link]:
        """The edges that lead on from the frontier."""
        if self._onward is None:
            self._onward = await incident_edges(session, scope, self.reached, _MAX_EDGES_FOLLOWED)
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
    session: InTransaction, scope: GraphScope, start: UUID, goal: UUID
) -> list[Path]:
    """At most MAX_PATHS shortest paths of at most MAX_PATH_EDGES edges; empty if there is none.

    Edges are followed in both directions. Of a node with very many edges only the newest are followed, and those that
    lead directly to a node reached from the other end.
    """
    forward, backward, visited = _Frontier(start), _Frontier(goal), {start, goal}
    for length in range(1, MAX_PATH_EDGES + 1):
        links = await edges_between(
            session, scope, forward.reached, backward.reached, _MAX_MEETING_EDGES, either_way=True
        )
        paths = _join_paths(forward, backward, links)
        if paths or length == MAX_PATH_EDGES:
            return paths[:MAX_PATHS]
        forward_links, backward_links = (
            await forward.onward(session, scope),
            await backward.onward(session, scope),
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
