"""Redirects: ids that a merge moved."""

from collections import defaultdict
from collections.abc import Collection, Iterable, Sequence
from typing import Final
from uuid import UUID

from sqlalchemy import ColumnElement, exists, literal, or_, select
from sqlalchemy.dialects.postgresql import distinct_on
from sqlalchemy.ext.asyncio import AsyncSession
from sqlalchemy.orm import aliased

from shared.database.statements import Direct, listed
from shared.database.tables import Agent, GraphEdge, GraphMove, GraphNode
from shared.graph.scope import OWNED_SQL, Scope

LONGEST_CHAIN: Final = 64
"""Of merges, each of which moved what the one before it had kept."""


async def current_ids_of_agent(
    session: AsyncSession, owner_id: UUID, agent_id: UUID, ids: Iterable[UUID]
) -> dict[UUID, UUID]:
    """Of the agent's nodes and edges that were moved, where they are; what never was moved is left out."""
    asked = set(ids)
    if not asked:
        return {}
    agent = (
        select(Agent.id).where(Agent.id == agent_id, Agent.owner_id == owner_id).scalar_subquery()
    )
    chain = (
        select(GraphMove.gone_id.label("asked"), GraphMove.kept_id, literal(1).label("length"))
        .where(GraphMove.agent_id == agent, GraphMove.gone_id.in_(asked), _is_gone(GraphMove))
        .cte("chain", recursive=True)
    )
    further = aliased(GraphMove)
    chain = chain.union_all(
        select(chain.c.asked, further.kept_id, chain.c.length + 1).where(
            further.agent_id == agent,
            further.gone_id == chain.c.kept_id,
            _is_gone(further),
            chain.c.length < LONGEST_CHAIN,
        )
    )
    rows = await session.execute(
        select(chain.c.asked, chain.c.kept_id)
        .ext(distinct_on(chain.c.asked))
        .order_by(chain.c.asked, chain.c.length.desc())
    )
    return {row.asked: row.kept_id for row in rows}


async def earlier_ids(session: AsyncSession, ids: Collection[UUID]) -> dict[UUID, list[UUID]]:
    """The other way round: by nodes and edges the ids of those that were moved into them; none are left out."""
    if not ids:
        return {}
    chain = (
        select(GraphMove.kept_id.label("asked"), GraphMove.gone_id, literal(1).label("length"))
        .where(GraphMove.kept_id.in_(ids), _is_gone(GraphMove))
        .cte("chain", recursive=True)
    )
    further = aliased(GraphMove)
    chain = chain.union_all(
        select(chain.c.asked, further.gone_id, chain.c.length + 1).where(
            further.kept_id == chain.c.gone_id, _is_gone(further), chain.c.length < LONGEST_CHAIN
        )
    )
    found: defaultdict[UUID, list[UUID]] = defaultdict(list)
    for row in await session.execute(
        select(chain.c.asked, chain.c.gone_id).order_by(chain.c.gone_id)
    ):
        found[row.asked].append(row.gone_id)
    return found


def _is_gone(move: type[GraphMove]) -> ColumnElement[bool]:
    """A thing of that id may have been written again since."""
    return ~or_(
        exists().where(GraphNode.id == move.gone_id), exists().where(GraphEdge.id == move.gone_id)
    )


IS_MOVED: Final = f"exists (select from graph_moves where agent_id = {OWNED_SQL} and gone_id = any(cast(:ids as uuid[])))"
"""Whether a merge has moved any of `ids`."""
_IS_MOVED: Final = Direct(f"select {IS_MOVED}")


async def current_ids(session: AsyncSession, scope: Scope, ids: Iterable[UUID]) -> dict[UUID, UUID]:
    """Of those that were moved, where they are; what never was moved is left out."""
    asked = set(ids)
    # To follow them takes far longer than to see that there is nothing to follow, as there mostly is not.
    if not asked or not await _IS_MOVED.value(session, {**scope.bound, "ids": listed(asked)}):
        return {}
    return await current_ids_of_agent(session, scope.owner_id, scope.agent_id, asked)


async def followed(session: AsyncSession, scope: Scope, ids: Sequence[UUID]) -> list[UUID]:
    """Each as it is now, in their order."""
    current = await current_ids(session, scope, ids)
    return [current.get(each, each) for each in ids]
