"""Whose graph, and on whose behalf: every query of the graph is bound by it."""

from dataclasses import dataclass
from typing import Any, Final
from uuid import UUID

from sqlalchemy import ScalarSelect, bindparam, select

from shared.store.tables import Agent

OWN_AGENT: Final = (
    select(Agent.id)
    .where(Agent.id == bindparam("agent_id"), Agent.owner_id == bindparam("owner_id"))
    .scalar_subquery()
)
"""As `Scope.agent`, in statements that are put together once; `Scope.values` are theirs."""
OWN_AGENT_SQL: Final = "(select id from agents where id = :agent_id and owner_id = :owner_id)"
"""Likewise, in those that are written out."""


@dataclass(frozen=True)
class Scope:
    owner_id: UUID
    agent_id: UUID
    iteration_id: UUID | None = None
    step_id: UUID | None = None

    def agent(self) -> ScalarSelect[UUID]:
        """The agent's id in SQL; null where the agent is not the owner's, so that nothing is found or written."""
        return (
            select(Agent.id)
            .where(Agent.id == self.agent_id, Agent.owner_id == self.owner_id)
            .scalar_subquery()
        )

    def values(self) -> dict[str, Any]:
        return {"agent_id": self.agent_id, "owner_id": self.owner_id}
