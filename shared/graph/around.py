"""Edges at and among nodes, through indexes only: what a hub has beyond the newest of its edges costs nothing.

Only which they are and what they join: properties and times are fetched of those that will be shown.
"""

from collections.abc import Collection
from typing import Any, Final, NamedTuple
from uuid import UUID

from sqlalchemy.ext.asyncio import AsyncSession

from shared.graph.listing import listed
from shared.graph.scope import OWNED_SQL, Scope
from shared.graph.standing import STANDS
from shared.store.direct import Direct

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
    """As `shared.graph.pages` does it: an `or` of both ends would read all that a hub has."""
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
