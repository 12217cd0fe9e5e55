"""Neighbours and paths, through indexes only.

Only which they are and what they join: properties and times are fetched of those that will be shown.
"""

from collections.abc import Collection, Iterable, Iterator
from dataclasses import dataclass
from typing import Any, Final, NamedTuple
from uuid import UUID

from sqlalchemy.ext.asyncio import AsyncSession

from shared.database.statements import Direct, listed
from shared.graph.scope import OWNED_SQL, STANDS, Scope

FEWEST_A_NODE: Final = 5
"""Edges in each direction that each of many nodes has followed, at least."""


class Link(NamedTuple):
    """An edge, by its ends."""

    id: UUID
    source_id: UUID
    target_id: UUID


async def touching(
    session: AsyncSession, scope: Scope, ids: Collection[UUID], limit: int
) -> list[Link]:
    """At most `limit` of those that begin or end at `ids`, those touched last first: of each node the newest."""
    if not ids:
        return []
    share = max(FEWEST_A_NODE, -(-limit // len(ids)))
    return await _links(session, scope, _TOUCHING, limit, ids=listed(ids), share=share)


async def leading(
    session: AsyncSession,
    scope: Scope,
    some: Collection[UUID],
    others: Collection[UUID],
    limit: int,
) -> list[Link]:
    """Those from one of `some` to one of `others`, however many edges those have, those touched last first."""
    return await _links(session, scope, _LEADING, limit, some=listed(some), others=listed(others))


async def joining(
    session: AsyncSession,
    scope: Scope,
    some: Collection[UUID],
    others: Collection[UUID],
    limit: int,
) -> list[Link]:
    """As `leading`, in either direction; none of `some` is one of `others`."""
    return await _links(session, scope, _JOINING, limit, some=listed(some), others=listed(others))


async def _links(
    session: AsyncSession, scope: Scope, statement: Direct, limit: int, **values: Any
) -> list[Link]:
    rows = await statement.tuples(session, {**scope.bound, **values, "most": limit})
    return list(map(Link._make, rows))


_COLUMNS: Final = "id, source_id, target_id, updated_at"


def _newest_at(end: str) -> str:
    """An `or` of both ends would read all that a hub has."""
    # A range of one: PostgreSQL takes it for many and reads them in the index's order, as far as they are wanted. Of
    # equals it would expect the few that most nodes have, and fetch and sort them all: of a hub, very many.
    return (
        f"select touching.* from unnest(cast(:ids as uuid[])) given (id) cross join lateral"
        f" (select {_COLUMNS}, agent_id, unsupported_since from graph_edges"
        f"  where {end}_id >= given.id and {end}_id <= given.id"
        f"  order by {end}_id desc, updated_at desc limit :share) touching"
    )


def _from_to(some: str, others: str) -> str:
    return (
        f"select {_COLUMNS}, agent_id, unsupported_since from graph_edges"
        f" where source_id = any(cast(:{some} as uuid[])) and target_id = any(cast(:{others} as uuid[]))"
    )


def _newest_of(edges: str) -> str:
    return (
        f"select id, source_id, target_id from ({edges}) edges"
        f" where agent_id = {OWNED_SQL} and {STANDS} order by updated_at desc, id limit :most"
    )


# An edge between two of the nodes is met from both.
_TOUCHING: Final = Direct(_newest_of(f"{_newest_at('source')} union {_newest_at('target')}"))
LEADING: Final = _newest_of(_from_to("some", "others"))
"""What `leading` asks for, with `some`, `others` and `most` to be given."""
_LEADING: Final = Direct(LEADING)
_JOINING: Final = Direct(
    _newest_of(f"{_from_to('some', 'others')} union all {_from_to('others', 'some')}")
)


LONGEST: Final = 4
"""Edges of a path."""
MOST_PATHS: Final = 5
_FOLLOWED: Final = 200
"""Edges that are followed from all nodes at one distance, of each node the newest."""
_MEETING: Final = 1_000
"""Edges that may join what was reached from either end."""

Way = tuple[Link, UUID, UUID]
"""An edge, and its ends in the direction in which it is gone."""


@dataclass(frozen=True)
class Path:
    """The nodes in order, and the edges between them, whichever way each leads."""

    nodes: tuple[UUID, ...]
    edges: tuple[Link, ...]


class _Side:
    """What was reached from one end, and by which ways: the shortest, MOST_PATHS to a node at most."""

    def __init__(self, end: UUID) -> None:
        self.reached: dict[UUID, tuple[Path, ...]] = {end: (Path((end,), ()),)}
        self._onward: list[Link] | None = None

    async def onward(self, session: AsyncSession, scope: Scope) -> list[Link]:
        """The edges that lead on from there."""
        if self._onward is None:
            self._onward = await touching(session, scope, self.reached, _FOLLOWED)
        return self._onward

    def go_on(self, edges: Iterable[Link], seen: set[UUID]) -> None:
        """One edge farther, to what was not seen before."""
        found: dict[UUID, tuple[Path, ...]] = {}
        for edge, start, end in _either_way(edges):
            if start in self.reached and end not in seen:
                further = (Path((*p.nodes, end), (*p.edges, edge)) for p in self.reached[start])
                found[end] = (*found.get(end, ()), *further)[:MOST_PATHS]
        seen.update(found)
        self.reached, self._onward = found, None


async def shortest(session: AsyncSession, scope: Scope, start: UUID, goal: UUID) -> list[Path]:
    """The shortest paths of at most LONGEST edges, MOST_PATHS at most; none where no such was found.

    Edges are gone either way. Of a node that has very many only the newest are followed, and those that lead at once to
    what was reached from the other end.
    """
    here, there, seen = _Side(start), _Side(goal), {start, goal}
    for length in range(1, LONGEST + 1):
        links = await joining(session, scope, here.reached, there.reached, _MEETING)
        met = _joined(here, there, links)
        if met or length == LONGEST:
            return met[:MOST_PATHS]
        onward, backward = await here.onward(session, scope), await there.onward(session, scope)
        # From where there is less to follow: all of it is, then.
        if len(onward) <= len(backward):
            here.go_on(onward, seen)
        else:
            there.go_on(backward, seen)
    return []


def _joined(here: _Side, there: _Side, edges: Iterable[Link]) -> list[Path]:
    """Each way to one end of a link, the link, and each way back from its other end."""
    return [
        Path((*first.nodes, *last.nodes[::-1]), (*first.edges, edge, *last.edges[::-1]))
        for edge, start, end in _either_way(edges)
        for first in here.reached.get(start, ())
        for last in there.reached.get(end, ())
    ]


def _either_way(edges: Iterable[Link]) -> Iterator[Way]:
    for edge in edges:
        yield edge, edge.source_id, edge.target_id
        yield edge, edge.target_id, edge.source_id
