"""How two nodes are connected: the shortest ways, looked for from both ends."""

from collections.abc import Collection, Iterable, Iterator
from dataclasses import dataclass
from typing import Final
from uuid import UUID

from sqlalchemy import Select, select
from sqlalchemy.ext.asyncio import AsyncSession

from shared.graph.around import ids_leading, ids_touching
from shared.graph.scope import Scope
from shared.store.tables import GraphEdge

LONGEST: Final = 4
"""Edges of a path."""
MOST_PATHS: Final = 5
_FOLLOWED: Final = 200
"""Edges that are followed from all nodes at one distance, of each node the newest."""
_MEETING: Final = 1_000
"""Edges that may join what was reached from either end."""

Link = tuple[UUID, UUID, UUID]
"""An edge's id and its two ends."""


@dataclass(frozen=True)
class Path:
    """The nodes in order, and the edges between them, whichever way each leads."""

    nodes: tuple[UUID, ...]
    edges: tuple[UUID, ...]


class _Side:
    """What was reached from one end, and by which ways: the shortest, MOST_PATHS to a node at most."""

    def __init__(self, end: UUID) -> None:
        self.reached: dict[UUID, tuple[Path, ...]] = {end: (Path((end,), ()),)}
        self._links: list[Link] | None = None

    async def links(self, session: AsyncSession, scope: Scope) -> list[Link]:
        """The edges that lead on from there."""
        if self._links is None:
            ids = ids_touching(scope, self.reached, _FOLLOWED)
            self._links = await _links(session, ids, _FOLLOWED)
        return self._links

    def go_on(self, links: Iterable[Link], seen: set[UUID]) -> None:
        """One edge farther, to what was not seen before."""
        found: dict[UUID, tuple[Path, ...]] = {}
        for edge, start, end in _either_way(links):
            if start in self.reached and end not in seen:
                further = (Path((*p.nodes, end), (*p.edges, edge)) for p in self.reached[start])
                found[end] = (*found.get(end, ()), *further)[:MOST_PATHS]
        seen.update(found)
        self.reached, self._links = found, None


async def shortest(session: AsyncSession, scope: Scope, start: UUID, goal: UUID) -> list[Path]:
    """The shortest paths of at most LONGEST edges, MOST_PATHS at most; none where no such was found.

    Edges are gone either way. Of a node that has very many only the newest are followed, and those that lead at once to
    what was reached from the other end.
    """
    here, there, seen = _Side(start), _Side(goal), {start, goal}
    for length in range(1, LONGEST + 1):
        met = _joined(here, there, await _between(session, scope, here, there))
        if met or length == LONGEST:
            return met[:MOST_PATHS]
        onward, backward = await here.links(session, scope), await there.links(session, scope)
        # From where there is less to follow: all of it is, then.
        side, links = (here, onward) if len(onward) <= len(backward) else (there, backward)
        side.go_on(links, seen)
    return []


async def _between(session: AsyncSession, scope: Scope, one: _Side, other: _Side) -> list[Link]:
    onward = await _links(session, ids_leading(scope, one.reached, other.reached), _MEETING)
    return onward + await _links(
        session, ids_leading(scope, other.reached, one.reached), _MEETING - len(onward)
    )


async def _links(session: AsyncSession, ids: Select[UUID], limit: int) -> list[Link]:
    rows = await session.execute(
        select(GraphEdge.id, GraphEdge.source_id, GraphEdge.target_id)
        .where(GraphEdge.id.in_(ids))
        .order_by(GraphEdge.updated_at.desc(), GraphEdge.id)
        .limit(limit)
    )
    return [(edge, source, target) for edge, source, target in rows]


def _joined(here: _Side, there: _Side, links: Collection[Link]) -> list[Path]:
    """Each way to one end of a link, the link, and each way back from its other end."""
    return [
        Path((*first.nodes, *last.nodes[::-1]), (*first.edges, edge, *last.edges[::-1]))
        for edge, start, end in _either_way(links)
        for first in here.reached.get(start, ())
        for last in there.reached.get(end, ())
    ]


def _either_way(links: Iterable[Link]) -> Iterator[Link]:
    for edge, source, target in links:
        yield edge, source, target
        yield edge, target, source
