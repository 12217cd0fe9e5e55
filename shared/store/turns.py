"""Who of an agent's workers may use several tools in one transaction."""

from typing import Final
from uuid import UUID

from sqlalchemy.ext.asyncio import AsyncSession

from shared.store.direct import Direct

_TAKE: Final = Direct(
    "select pg_advisory_xact_lock(hashtextextended('tools ' || cast(:agent as text), 0))"
)


async def take(session: AsyncSession, agent_id: UUID) -> None:
    """Until the transaction ends. Two that write the same things in another order would wait for each other for ever."""
    await _TAKE.run(session, {"agent": agent_id})
