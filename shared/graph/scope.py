"""The scope of every graph query: one agent and its owner."""

from dataclasses import dataclass, field
from typing import Any, Final
from uuid import UUID

from sqlalchemy import ScalarSelect, bindparam, select

from shared.database.statements import BoundQuery, CompiledStatement
from shared.database.tables import Agent, GraphEdge
from shared.database.tables.agents import BYTES_PER_TOKEN
from shared.database.transaction import Transaction
from shared.workflow.leases import Lease

# "is true" hides the owner from PostgreSQL, which would otherwise, while there are few agents, read all of the owner.
OWNED_AGENT_ID: Final = (
    select(Agent.id)
    .where(Agent.id == bindparam("of_agent"), (Agent.owner_id == bindparam("of_owner")).is_(True))
    .scalar_subquery()
)
"""SQL expression for the agent's id, for statements that are compiled once and run with `GraphScope.params`.

Building a statement takes longer than PostgreSQL takes to answer it.
"""
OWNED_AGENT_ID_SQL: Final = (
    "(select id from agents where id = :of_agent and (owner_id = :of_owner) is true)"
)
"""The same for handwritten SQL."""


IS_OWNED_SQL: Final = f"(agent_id = {OWNED_AGENT_ID_SQL}) is true"
"""SQL condition for rows that are looked up by their ids: they are the agent's.

PostgreSQL cannot use it to find them. Otherwise it reads all rows of the agent, if it counted few when it last analysed
the table.
"""


@dataclass(frozen=True)
class GraphScope:
    owner_id: UUID
    agent_id: UUID
    iteration_id: UUID | None = None
    step_id: UUID | None = None
    bytes_per_token: float = field(default=BYTES_PER_TOKEN, compare=False)
    """See `Agent.bytes_per_token`."""

    @classmethod
    def of(cls, lease: Lease) -> "GraphScope":
        """The scope of a step's worker."""
        return cls(
            lease.user_id,
            lease.agent_id,
            lease.iteration_id,
            lease.step_id,
            lease.bytes_per_token,
        )

    def budget_bytes(self, tokens: int) -> int:
        """How long a text of so many tokens is, in UTF-8."""
        return int(tokens * self.bytes_per_token)

    @property
    def sql_params(self) -> dict[str, Any]:
        return {"of_agent": self.agent_id, "of_owner": self.owner_id}

    def owned_agent_id(self) -> ScalarSelect[UUID]:
        """SQL expression for the agent's id; null if the agent does not belong to the owner."""
        return (
            select(Agent.id)
            .where(Agent.id == self.agent_id, (Agent.owner_id == self.owner_id).is_(True))
            .scalar_subquery()
        )


IS_SUPPORTED_SQL: Final = "unsupported_since is null"
"""SQL condition: the node or edge rests on at least one source that is not retracted, or on no source at all."""
IS_DOUBTED_SQL: Final = (
    "exists (select from doubts where conclusion_id = graph_nodes.id and resolved_at is null)"
)
"""SQL condition: the node is a conclusion in doubt."""
JOINS_TWO_NODES_SQL: Final = "source_id <> target_id"
"""SQL condition: the edge is part of the current graph.

An edge of a node with itself was between nodes that were merged since. It is kept for what cites it.
"""
JOINS_TWO_NODES: Final = GraphEdge.source_id != GraphEdge.target_id
"""The same for statements of SQLAlchemy."""


def retraction_lock_key_sql(agent: str) -> str:
    """The key of the lock that retractions of an agent take; `agent` names the bound parameter with its id."""
    return f"hashtextextended('retractions ' || cast(:{agent} as text), 0)"


_EXCLUSIVE_LOCK: Final = CompiledStatement(
    f"select pg_advisory_xact_lock({retraction_lock_key_sql('of_agent')})"
)
_SHARED_LOCK: Final = CompiledStatement(
    f"select pg_advisory_xact_lock_shared({retraction_lock_key_sql('of_agent')})"
)


def shared_retraction_lock(agent_id: UUID) -> BoundQuery[None]:
    """Waits for a retraction, and keeps new ones out until the transaction ends.

    A statement does not see what was committed while it waited for the lock, so read retractions in a later one.
    """
    return BoundQuery(_SHARED_LOCK, {"of_agent": agent_id}, lambda _: None)


async def take_exclusive_retraction_lock(transaction: Transaction, agent_id: UUID) -> None:
    """Wait for all holders of the shared lock and keep new ones out until the transaction ends."""
    await _EXCLUSIVE_LOCK.run(transaction, {"of_agent": agent_id})
