"""Edges at and among nodes, through indexes only: what a hub has beyond the newest of its edges costs nothing."""

from collections.abc import Collection
from typing import Final
from uuid import UUID

from sqlalchemy.ext.asyncio import AsyncSession

from shared.graph import facts
from shared.graph.facts import EdgeFact
from shared.graph.scope import Scope

FEWEST_A_NODE: Final = 5
"""Edges in each direction that each of many nodes has followed, at least."""


async def touching(
    session: AsyncSession, scope: Scope, ids: Collection[UUID], limit: int
) -> list[EdgeFact]:
    """At most `limit` of those that begin or end at `ids`, those touched last first: of each node the newest."""
    if not ids:
        return []
    share = max(FEWEST_A_NODE, -(-limit // len(ids)))
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
    # A range of one: PostgreSQL takes it for many and reads them in the index's order, as far as they are wanted. Of
    # equals it would expect the few that most nodes have, and fetch and sort them all: of a hub, very many.
    return (
        f"(select {end}.id from unnest(cast(:ids as uuid[])) given (id) cross join lateral"
        f" (select graph_edges.id from graph_edges where {end}_id >= given.id"
        f"  and {end}_id <= given.id order by {end}_id desc, updated_at desc limit :share) {end})"
    )


_TOUCHING: Final = f"{_newest_at('source')} union all {_newest_at('target')}"
_LEADING: Final = (
    "select id from graph_edges where source_id = any(cast(:some as uuid[]))"
    " and target_id = any(cast(:others as uuid[]))"
)
