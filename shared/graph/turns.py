"""Who may write a graph at the same time: writers beside each other, a merge alone.

A merge touches whatever hangs on two nodes, in an order that is its own; writers take rows in theirs. So that they never
wait for each other in a circle, each takes its turn before anything else of the graph.
"""

from typing import Final

from sqlalchemy import ColumnElement, func, select
from sqlalchemy.ext.asyncio import AsyncSession

from shared.graph.scope import Scope
from shared.store.direct import Direct

BESIDE_OTHERS_SQL: Final = (
    "pg_advisory_xact_lock_shared(hashtextextended('graph ' || cast(:of_agent as text), 0))"
)
"""As `write_beside_others`, within a statement that is given `Scope.bound`. What a merge moves must be read by a later
one: a statement sees what was there before it waited.
"""
_BESIDE_OTHERS: Final = Direct(f"select {BESIDE_OTHERS_SQL}")


async def write_beside_others(session: AsyncSession, scope: Scope) -> None:
    """Until the transaction ends. For whoever writes nodes, edges or evidence."""
    await _BESIDE_OTHERS.run(session, scope.bound)


async def write_alone(session: AsyncSession, scope: Scope) -> None:
    """Waits for all who write, and has those who come wait, until the transaction ends."""
    await write_one_by_one(session, scope, "graph")


async def write_one_by_one(session: AsyncSession, scope: Scope, what: str) -> None:
    """Waits for who writes `what` of the agent, and has those who come wait, until the transaction ends."""
    await session.execute(select(func.pg_advisory_xact_lock(_number(scope, what))))


def _number(scope: Scope, what: str) -> ColumnElement[int]:
    return func.hashtextextended(f"{what} {scope.agent_id}", 0)
