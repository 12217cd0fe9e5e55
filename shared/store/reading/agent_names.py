"""What an owner's agents are called: all, for choosing one of them, or those that are asked for."""

from collections.abc import Collection
from typing import Final
from uuid import UUID

from sqlalchemy import func, select
from sqlalchemy.ext.asyncio import AsyncSession

from shared.store.reading.agents import AgentRef
from shared.store.tables import Agent

MOST: Final = 500
"""More than that nobody chooses from a list."""


async def agent_names(session: AsyncSession, owner_id: UUID) -> list[AgentRef]:
    """By name, the first `MOST`."""
    rows = await session.execute(
        select(Agent.id, Agent.name)
        .where(Agent.owner_id == owner_id)
        .order_by(func.lower(Agent.name))
        .limit(MOST)
    )
    return [AgentRef(row.id, row.name) for row in rows]


async def names_of(
    session: AsyncSession, owner_id: UUID, agent_ids: Collection[UUID]
) -> dict[UUID, str]:
    """By their ids, of those that exist and are the owner's."""
    rows = await session.execute(
        select(Agent.id, Agent.name).where(Agent.owner_id == owner_id, Agent.id.in_(agent_ids))
    )
    return {row.id: row.name for row in rows}
