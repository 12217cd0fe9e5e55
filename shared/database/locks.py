"""Advisory locks.

A merge touches whatever hangs on two nodes, in an order that is its own; writers take rows in theirs. So that they never
wait for each other in a circle, each takes its turn before anything else of the graph.
"""

from typing import Final
from uuid import UUID

from sqlalchemy import ColumnElement, func, select
from sqlalchemy.ext.asyncio import AsyncSession

from shared.database.statements import Direct

BESIDE_OTHERS_SQL: Final = (
    "pg_advisory_xact_lock_shared(hashtextextended('graph ' || cast(:of_agent as text), 0))"
)
"""As `write_beside_others`, within a statement that is given `Scope.bound`. What a merge moves must be read by a later
one: a statement sees what was there before it waited.
"""
_BESIDE_OTHERS: Final = Direct(f"select {BESIDE_OTHERS_SQL}")


async def write_beside_others(session: AsyncSession, agent_id: UUID) -> None:
    """Until the transaction ends. For whoever writes nodes, edges or evidence."""
    await _BESIDE_OTHERS.run(session, {"of_agent": agent_id})


async def write_alone(session: AsyncSession, agent_id: UUID) -> None:
    """Waits for all who write, and has those who come wait, until the transaction ends."""
    await write_one_by_one(session, agent_id, "graph")


async def write_one_by_one(session: AsyncSession, agent_id: UUID, what: str) -> None:
    """Waits for who writes `what` of the agent, and has those who come wait, until the transaction ends."""
    await session.execute(select(func.pg_advisory_xact_lock(_number(agent_id, what))))


def _number(agent_id: UUID, what: str) -> ColumnElement[int]:
    return func.hashtextextended(f"{what} {agent_id}", 0)


_TAKE: Final = Direct(
    "select pg_advisory_xact_lock(hashtextextended('tools ' || cast(:agent as text), 0))"
)


async def take(session: AsyncSession, agent_id: UUID) -> None:
    """Until the transaction ends. Two that write the same things in another order would wait for each other for ever."""
    await _TAKE.run(session, {"agent": agent_id})
