"""Doubts that new evidence puts an end to: a page that is believed bears out what a retracted one had said.

Whoever writes evidence knows nothing of doubts and has no right to lift them. What was written to since its doubts were
raised, or last weighed, is looked for here from time to time, which costs a look at each doubt that is open.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final
from uuid import UUID

from sqlalchemy import Select, exists, func, select
from sqlalchemy.ext.asyncio import AsyncSession

from shared.graph import doubts, telling_doubts
from shared.graph.alike import EDGES, NODES, Alike
from shared.graph.claimed import claimed_of, lock
from shared.graph.scope import Scope
from shared.graph.turns import write_beside_others
from shared.store.database import Database
from shared.store.tables import Agent, Doubt, RetractedSource, Retraction

AT_ONCE: Final = 500
"""Nodes, and edges, to a transaction: as long nobody else can write to them."""


@dataclass(frozen=True)
class _WrittenTo:
    """Of one agent."""

    scope: Scope
    nodes: Sequence[UUID]
    edges: Sequence[UUID]


async def lift(database: Database, *, at_once: int = AT_ONCE) -> None:
    """All doubts that are to be lifted, each owner told. Raises TransientError where that must be tried again."""
    while await _lift_some(database, at_once):
        pass


async def _lift_some(database: Database, at_once: int) -> bool:
    """False where nothing that is doubted was written to."""
    async with database.transaction() as session:
        found = await _written_to(session, at_once)
        if found is None:
            return False
        await write_beside_others(session, found.scope)
        nodes = await lock(session, NODES, found.nodes)
        edges = await lock(session, EDGES, found.edges)
        claimed = await claimed_of(session, NODES, nodes)
        claimed |= await claimed_of(session, EDGES, edges)
        lifted = await doubts.lift(session, claimed)
        await telling_doubts.tell_lifted(session, found.scope, lifted)
        return True


async def _written_to(session: AsyncSession, at_once: int) -> _WrittenTo | None:
    nodes, edges = [
        (await session.execute(_doubted(kind).limit(at_once))).all() for kind in (NODES, EDGES)
    ]
    if not nodes and not edges:
        return None
    owner_id, agent_id, _ = (nodes or edges)[0]
    return _WrittenTo(
        Scope(owner_id, agent_id),
        [thing for _, of_agent, thing in nodes if of_agent == agent_id],
        [thing for _, of_agent, thing in edges if of_agent == agent_id],
    )


def _doubted(kind: Alike) -> Select[UUID, UUID, UUID]:
    """Owner, agent and id of those that were written to since. Whoever writes has the row, and notes when."""
    table = kind.table
    still_going = (
        exists()
        .where(RetractedSource.source_id == Doubt.source_id)
        .where(Retraction.id == RetractedSource.retraction_id, Retraction.due_at.is_not(None))
    )
    return (
        select(Agent.owner_id, table.agent_id, table.id)
        .join(Doubt, Doubt.thing_id == table.id)
        .join(Agent, Agent.id == table.agent_id)
        .where(
            Doubt.cleared_at.is_(None),
            table.updated_at > func.coalesce(Doubt.weighed_at, Doubt.since),
            ~still_going,
        )
        .distinct()
        .order_by(table.agent_id, table.id)
    )
