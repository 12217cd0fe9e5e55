"""Ids that a merge has moved, followed to where their nodes and edges are."""

from collections.abc import Iterable, Sequence
from uuid import UUID

from sqlalchemy.ext.asyncio import AsyncSession

from shared.graph.scope import Scope
from shared.store.reading import moves


async def current_ids(session: AsyncSession, scope: Scope, ids: Iterable[UUID]) -> dict[UUID, UUID]:
    """Of those that were moved, where they are; what never was moved is left out."""
    return await moves.current_ids(session, scope.owner_id, scope.agent_id, ids)


async def followed(session: AsyncSession, scope: Scope, ids: Sequence[UUID]) -> list[UUID]:
    """Each as it is now, in their order."""
    current = await current_ids(session, scope, ids)
    return [current.get(each, each) for each in ids]
