"""Who may write a graph at the same time: writers beside each other, a merge alone.

A merge touches whatever hangs on two nodes, in an order that is its own; writers take rows in theirs. So that they never
wait for each other in a circle, each takes its turn before anything else of the graph.
"""

from sqlalchemy import ColumnElement, func, select
from sqlalchemy.ext.asyncio import AsyncSession

from shared.graph.scope import Scope


async def write_beside_others(session: AsyncSession, scope: Scope) -> None:
    """Until the transaction ends. For whoever writes nodes, edges or evidence."""
    await session.execute(select(func.pg_advisory_xact_lock_shared(_number(scope))))


async def write_alone(session: AsyncSession, scope: Scope) -> None:
    """Waits for all who write, and has those who come wait, until the transaction ends."""
    await session.execute(select(func.pg_advisory_xact_lock(_number(scope))))


def _number(scope: Scope) -> ColumnElement[int]:
    return func.hashtextextended(f"graph {scope.agent_id}", 0)
