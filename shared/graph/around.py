"""Edges at and among nodes, through indexes only: what a hub has beyond the newest of its edges costs nothing."""

from collections.abc import Collection
from typing import Final
from uuid import UUID

from sqlalchemy import text
from sqlalchemy.ext.asyncio import AsyncSession

from shared.graph import facts
from shared.graph.facts import EdgeFact
from shared.graph.scope import Scope

FEWEST_A_NODE: Final = 5
"""Edges in each direction that each of many nodes has followed, at least."""


async def touching(
    session: AsyncSession, scope: Scope, ids: Collection[UUID], limit: int
) -> list[EdgeFact]:
    """At most `limit` of those that begin or end at `ids`, those touched last first: of each node the newest.

    For the rest of the transaction PostgreSQL sorts only where no index has the order.
    """
    if not ids:
        return []
    share = max(FEWEST_A_NODE, -(-limit // len(ids)))
    # Most nodes have few edges, so PostgreSQL would as soon fetch all that one has and sort them: of a hub, very many.
    await session.execute(text("set local enable_sort = off"))
    values = {"ids": list(ids), "share": share}
    return await facts.edges(session, scope, _TOUCHING, values, limit)


async def leading(
    session: AsyncSession,
    scope: Scope,
    some: Collection[UUID],
    others: Collection[UUID],
    limit: int,
) -> list[EdgeFact]:
    """Those from one of `some` to one of `others`, however many edges those have."""
    if not some or not others:
        return []
    values = {"some": list(some), "others": list(others)}
    return await facts.edges(session, scope, _LEADING, values, limit)


def _newest_at(end: str) -> str:
    """As `shared.graph.pages` does it: an `or` of both ends would read all that a hub has."""
    return (
        f"(select {end}.id from unnest(cast(:ids as uuid[])) given (id) cross join lateral"
        f" (select graph_edges.id from graph_edges where {end}_id = given.id"
        f"  order by updated_at desc limit :share) {end})"
    )


_TOUCHING: Final = f"{_newest_at('source')} union all {_newest_at('target')}"
_LEADING: Final = (
    "select id from graph_edges where source_id = any(cast(:some as uuid[]))"
    " and target_id = any(cast(:others as uuid[]))"
)
