"""Parts of a graph to be drawn: entered at a node, by a search, or where it is newest or best connected, never whole."""

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Final
from uuid import UUID

from sqlalchemy import ARRAY, ColumnElement, Select, Uuid, any_, cast, literal, select
from sqlalchemy.ext.asyncio import AsyncSession

from shared.graph import around, neighbourhood, search
from shared.graph.context import survey
from shared.graph.listing import listed
from shared.graph.scope import OWNED_SQL, Scope
from shared.graph.search import Sought
from shared.graph.standing import STANDS
from shared.store.direct import Direct
from shared.store.reading.drawing_shapes import DrawingView, DrawnEdge, DrawnNode
from shared.store.tables import GraphNode

MOST_NODES: Final = 2_000
FOUND_AT_MOST: Final = 50
"""Nodes that a search tells."""
_EDGES_AN_END: Final = 60
"""Of a node, in each direction, those touched last: an edge is left out only where it is old at both of its ends."""
_MOST_EDGES: Final = 3 * MOST_NODES
_NODES_A_HUB: Final = 4
"""Of those that are drawn by their edges, so that what these lead to is drawn too."""


@dataclass(frozen=True)
class Drawn:
    """Which nodes may be drawn: of any of `types`, or of all where there are none, and touched since then."""

    types: Sequence[str] = ()
    since: datetime | None = None


async def newest(session: AsyncSession, scope: Scope, of: Drawn, limit: int) -> DrawingView:
    """Those touched last."""
    order = GraphNode.updated_at.desc(), GraphNode.id.desc()
    rows = await session.execute(_nodes(scope, of).order_by(*order).limit(limit + 1))
    nodes = [DrawnNode(*row) for row in rows]
    return await _with_edges(session, scope, nodes[:limit], cut=len(nodes) > limit)


async def best_connected(session: AsyncSession, scope: Scope, of: Drawn, limit: int) -> DrawingView:
    """The nodes that most edges touch, of those touched last, and what those edges lead to."""
    most = max(1, limit // _NODES_A_HUB)
    hubs = [each.id for each in await survey.best_connected(scope, most).answer(session)]
    edges = await around.touching(session, scope, hubs, limit)
    ends = (end for edge in edges for end in (edge.source_id, edge.target_id))
    ids = list(dict.fromkeys([*hubs, *ends]))
    rows = await session.execute(_nodes(scope, of).where(_is_any_of(ids[:limit])))
    nodes = [DrawnNode(*row) for row in rows]
    return await _with_edges(session, scope, nodes, cut=True)


async def found(
    session: AsyncSession, scope: Scope, words: str, of: Drawn, limit: int = FOUND_AT_MOST
) -> DrawingView:
    """The best match first, by names and properties; as queryGraph finds them."""
    sought = Sought(words, list(of.types), updated_since=of.since)
    told = await search.find(session, scope, sought, limit)
    rows = await session.execute(_nodes(scope, of).where(GraphNode.id.in_(told.ids)))
    by_id = {row.id: DrawnNode(*row) for row in rows}
    nodes = [by_id[each] for each in told.ids if each in by_id]
    return await _with_edges(session, scope, nodes, cut=not told.is_all)


async def at(
    session: AsyncSession, scope: Scope, node_id: UUID, *, depth: int, limit: int
) -> DrawingView | None:
    """A node and what lies around it; None where the agent has no such node."""
    near = await neighbourhood.around(session, scope, node_id, depth=depth, limit=limit)
    if near is None:
        return None
    return DrawingView(
        nodes=[
            DrawnNode(each.id, each.type, each.name, each.updated_at, each.unsupported_since)
            for each in near.nodes
        ],
        edges=[DrawnEdge(each.type, each.source_id, each.target_id) for each in near.edges],
        cut=near.cut,
    )


def _nodes(scope: Scope, of: Drawn) -> Select[UUID, str, str, datetime, datetime | None]:
    """A DrawnNode's fields."""
    # Of the table, not of the class that is mapped to it: thousands of rows come without a look at each.
    columns = GraphNode.__table__.columns
    statement = select(*(columns[name] for name in DrawnNode._fields)).where(
        GraphNode.agent_id == scope.agent()
    )
    if of.types:
        statement = statement.where(GraphNode.type.in_(of.types))
    if of.since is not None:
        statement = statement.where(GraphNode.updated_at >= of.since)
    return statement


def _is_any_of(ids: Collection[UUID]) -> ColumnElement[bool]:
    return GraphNode.id == any_(cast(literal(listed(ids)), ARRAY(Uuid)))


async def _with_edges(
    session: AsyncSession, scope: Scope, nodes: list[DrawnNode], *, cut: bool
) -> DrawingView:
    edges = await _among(session, scope, [node.id for node in nodes])
    return DrawingView(nodes=nodes, edges=edges, cut=cut)


async def _among(session: AsyncSession, scope: Scope, ids: Collection[UUID]) -> list[DrawnEdge]:
    values = {**scope.bound, "ids": listed(ids), "share": _EDGES_AN_END, "most": _MOST_EDGES}
    return [DrawnEdge(*row) for row in await _AMONG.rows(session, values)]


def _newest_at(end: str, other: str) -> str:
    # A range of one, for the reason that `shared.graph.around` gives.
    newest = (
        "select id, type, source_id, target_id, updated_at, agent_id, unsupported_since"
        f" from graph_edges where {end}_id >= given.id and {end}_id <= given.id"
        f" order by {end}_id desc, updated_at desc limit :share"
    )
    return (
        f"select newest.* from given cross join lateral ({newest}) newest"
        f" where ({other}_id in (select id from given)) is true and agent_id = {OWNED_SQL} and {STANDS}"
    )


# `is true` has PostgreSQL keep the ids at hand to look each end up: it takes the edges for few, and would rather join by
# going through all ids for each of them, which are thousands of thousands of steps.
_AMONG: Final = Direct(
    "with given as materialized (select unnest(cast(:ids as uuid[])) as id)"
    " select type, source_id, target_id"
    f" from ({_newest_at('source', 'target')} union {_newest_at('target', 'source')}) among_them"
    " order by updated_at desc, id limit :most"
)
