"""Doubts of what a merge moves: they go along to where it is now, and come back with it.

A merge does not ask whether they stand there. It writes to what it moves to, and that is weighed from time to time
(`shared.graph.lifting`), when the owner is told what is in doubt no more.
"""

from uuid import UUID

from sqlalchemy.ext.asyncio import AsyncSession

from shared.graph import doubts
from shared.graph.alike import EDGES, NODES
from shared.graph.claimed import claimed_of, lock
from shared.graph.merging.journal import Moved
from shared.store.tables import GraphMerge


async def move(session: AsyncSession, made: GraphMerge, moved: Moved) -> None:
    await doubts.carry(session, {made.gone_id: made.kept_id} | _edges(moved))


async def move_back(session: AsyncSession, made: GraphMerge, moved: Moved) -> None:
    """Where all things are again as they were: what only the merge had borne out is in doubt again."""
    edges = _edges(moved)
    nodes_there = await lock(session, NODES, [made.gone_id, made.kept_id])
    edges_there = await lock(session, EDGES, [*edges, *edges.values()])
    await doubts.give_back(session, [made.gone_id, *edges], made.made_at)
    gone = {there: edge for edge, there in edges.items() if there not in edges_there}
    await doubts.carry(session, gone)
    claimed = await claimed_of(session, NODES, nodes_there)
    claimed |= await claimed_of(session, EDGES, edges_there)
    await doubts.weigh(session, claimed)


def _edges(moved: Moved) -> dict[UUID, UUID]:
    """By its id before, where each is since."""
    return {UUID(edge.row["id"]): edge.to for edge in moved.edges if edge.to is not None}
