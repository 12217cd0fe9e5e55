"""How two nodes are connected: the shortest ways, looked for from both ends."""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Final
from uuid import UUID

from sqlalchemy.ext.asyncio import AsyncSession

from shared.graph import around
from shared.graph.around import Link
from shared.graph.scope import Scope

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
            self._onward = await around.touching(session, scope, self.reached, _FOLLOWED)
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
        links = await around.joining(session, scope, here.reached, there.reached, _MEETING)
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
