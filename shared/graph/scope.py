"""The scope of every query of the graph: an agent and its owner."""

from dataclasses import dataclass
from typing import Any, Final
from uuid import UUID

from sqlalchemy import ColumnElement, ScalarSelect, bindparam, select
from sqlalchemy.ext.asyncio import AsyncSession

from shared.database.statements import Direct
from shared.database.tables import Agent, GraphEdge, GraphNode

OWNED: Final = (
    select(Agent.id)
    .where(Agent.id == bindparam("of_agent"), Agent.owner_id == bindparam("of_owner"))
    .scalar_subquery()
)
"""As `Scope.agent`, for statements that are made once and given `Scope.bound` each time: to make one takes longer than
PostgreSQL takes to answer it.
"""
OWNED_SQL: Final = "(select id from agents where id = :of_agent and owner_id = :of_owner)"
"""Likewise, for those that are written out."""


@dataclass(frozen=True)
class Scope:
    owner_id: UUID
    agent_id: UUID
    iteration_id: UUID | None = None
    step_id: UUID | None = None

    @property
    def bound(self) -> dict[str, Any]:
        return {"of_agent": self.agent_id, "of_owner": self.owner_id}

    def agent(self) -> ScalarSelect[UUID]:
        """The agent's id in SQL; null where the agent is not the owner's, so that nothing is found or written."""
        return (
            select(Agent.id)
            .where(Agent.id == self.agent_id, Agent.owner_id == self.owner_id)
            .scalar_subquery()
        )


STANDS: Final = "unsupported_since is null"
"""`is_supported`, for statements that are written out."""
_OF: Final = "hashtextextended('what stands ' || cast(:of_agent as text), 0)"
_HOLD_STILL: Final = Direct(f"select pg_advisory_xact_lock_shared({_OF})")
_MOVE: Final = Direct(f"select pg_advisory_xact_lock({_OF})")


def is_supported(thing: type[GraphNode] | type[GraphEdge]) -> ColumnElement[bool]:
    """Whether a page that was not retracted speaks for it; what rests on no page at all stands, too."""
    return thing.unsupported_since.is_(None)


async def hold_still(session: AsyncSession, agent_id: UUID) -> None:
    """Until the transaction ends, no retraction changes what stands: a conclusion is written on what was looked up.

    Take it before any row of the graph is locked.
    """
    await _HOLD_STILL.run(session, {"of_agent": agent_id})


async def make_move(session: AsyncSession, agent_id: UUID) -> None:
    """Waits for those who hold still, and keeps others from it until the transaction ends."""
    await _MOVE.run(session, {"of_agent": agent_id})
