"""Ids that a merge has moved, followed to where their nodes and edges are."""

from collections.abc import Iterable, Sequence
from typing import Final
from uuid import UUID

from sqlalchemy.ext.asyncio import AsyncSession

from shared.graph.listing import listed
from shared.graph.scope import OWNED_SQL, Scope
from shared.store.direct import Direct
from shared.store.reading import moves

IS_MOVED: Final = f"exists (select from graph_moves where agent_id = {OWNED_SQL} and gone_id = any(cast(:ids as uuid[])))"
"""Whether a merge has moved any of `ids`."""
_IS_MOVED: Final = Direct(f"select {IS_MOVED}")


async def current_ids(session: AsyncSession, scope: Scope, ids: Iterable[UUID]) -> dict[UUID, UUID]:
    """Of those that were moved, where they are; what never was moved is left out."""
    asked = set(ids)
    # To follow them takes far longer than to see that there is nothing to follow, as there mostly is not.
    if not asked or not await _IS_MOVED.value(session, {**scope.bound, "ids": listed(asked)}):
        return {}
    return await moves.current_ids(session, scope.owner_id, scope.agent_id, asked)


async def followed(session: AsyncSession, scope: Scope, ids: Sequence[UUID]) -> list[UUID]:
    """Each as it is now, in their order."""
    current = await current_ids(session, scope, ids)
    return [current.get(each, each) for each in ids]
