"""Whose graph, and on whose behalf: every query of the graph is bound by it."""

from dataclasses import dataclass
from typing import Any, Final
from uuid import UUID

from sqlalchemy import ScalarSelect, bindparam, select

from shared.store.tables import Agent

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
