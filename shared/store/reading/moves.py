"""Under which id a node or edge is found that a merge has moved."""

from collections.abc import Iterable
from typing import Final
from uuid import UUID

from sqlalchemy import exists, literal, or_, select
from sqlalchemy.dialects.postgresql import distinct_on
from sqlalchemy.ext.asyncio import AsyncSession
from sqlalchemy.orm import aliased

from shared.store.tables import Agent, GraphEdge, GraphMove, GraphNode

LONGEST_CHAIN: Final = 64
"""Of merges, each of which moved what the one before it had kept."""


async def current_ids(
    session: AsyncSession, owner_id: UUID, agent_id: UUID, ids: Iterable[UUID]
) -> dict[UUID, UUID]:
    """Of the agent's nodes and edges that were moved, where they are; what never was moved is left out."""
    asked = set(ids)
    if not asked:
        return {}
    agent = (
        select(Agent.id).where(Agent.id == agent_id, Agent.owner_id == owner_id).scalar_subquery()
    )
    # A thing of that id may have been written again since.
    is_gone = ~or_(
        exists().where(GraphNode.id == GraphMove.gone_id),
        exists().where(GraphEdge.id == GraphMove.gone_id),
    )
    chain = (
        select(GraphMove.gone_id.label("asked"), GraphMove.kept_id, literal(1).label("length"))
        .where(GraphMove.agent_id == agent, GraphMove.gone_id.in_(asked), is_gone)
        .cte("chain", recursive=True)
    )
    further = aliased(GraphMove)
    is_further_gone = ~or_(
        exists().where(GraphNode.id == further.gone_id),
        exists().where(GraphEdge.id == further.gone_id),
    )
    chain = chain.union_all(
        select(chain.c.asked, further.kept_id, chain.c.length + 1).where(
            further.agent_id == agent,
            further.gone_id == chain.c.kept_id,
            is_further_gone,
            chain.c.length < LONGEST_CHAIN,
        )
    )
    rows = await session.execute(
        select(chain.c.asked, chain.c.kept_id)
        .ext(distinct_on(chain.c.asked))
        .order_by(chain.c.asked, chain.c.length.desc())
    )
    return {row.asked: row.kept_id for row in rows}
