"""Advisory locks on an agent's graph.

A merge updates everything that hangs on two nodes, in its own order, while writers lock rows in theirs. To avoid
deadlocks, each takes the agent's lock before any other lock of the graph.
"""

from typing import Final
from uuid import UUID

from shared.database.statements import BoundQuery, CompiledStatement
from shared.database.transaction import Transaction

SHARED_WRITE_LOCK_SQL: Final = (
    "pg_advisory_xact_lock_shared(hashtextextended('graph ' || cast(:of_agent as text), 0))"
)
"""SQL expression that takes the lock of `shared_write_lock`, with the parameters of `GraphScope.sql_params`.

A statement does not see what was committed while it waited for the lock, so read what a merge moves in a later one.
"""
_SHARED_GRAPH_LOCK: Final = CompiledStatement(f"select {SHARED_WRITE_LOCK_SQL}")


_TOOLS_AND_SHARED_LOCK: Final = CompiledStatement(
    "select pg_advisory_xact_lock(hashtextextended('tools ' || cast(:of_agent as text), 0)),"
    f" {SHARED_WRITE_LOCK_SQL}"
)
_TOOL_LOCK: Final = CompiledStatement(
    "select pg_advisory_xact_lock(hashtextextended('tools ' || cast(:of_agent as text), 0))"
)


def tool_write_lock(agent_id: UUID) -> BoundQuery[None]:
    """Takes the agent's lock for tool writes until the transaction ends.

    Without it, two steps that write the same rows in different orders would deadlock.
    """
    return BoundQuery(_TOOL_LOCK, {"of_agent": agent_id}, lambda _: None)


def write_locks(agent_id: UUID) -> BoundQuery[None]:
    """Takes the lock of `tool_write_lock`, and then that of `shared_write_lock`."""
    return BoundQuery(_TOOLS_AND_SHARED_LOCK, {"of_agent": agent_id}, lambda _: None)


async def shared_write_lock(transaction: Transaction, agent_id: UUID) -> None:
    """Takes the shared write lock until the transaction ends. Required before writing nodes, edges or evidence."""
    await shared_write_lock_query(agent_id).execute(transaction)


def shared_write_lock_query(agent_id: UUID) -> BoundQuery[None]:
    """The statement of `shared_write_lock`."""
    return BoundQuery(_SHARED_GRAPH_LOCK, {"of_agent": agent_id}, lambda _: None)


async def exclusive_write_lock(transaction: Transaction, agent_id: UUID) -> None:
    """Takes the exclusive write lock until the transaction ends."""
    await exclusive_lock(transaction, agent_id, "graph")


_EXCLUSIVE_LOCK: Final = CompiledStatement(
    "select pg_advisory_xact_lock(hashtextextended(:name, 0))"
)


async def exclusive_lock(transaction: Transaction, agent_id: UUID, name: str) -> None:
    """Takes the exclusive lock `name` of the agent until the transaction ends."""
    await _EXCLUSIVE_LOCK.run(transaction, {"name": f"{name} {agent_id}"})
