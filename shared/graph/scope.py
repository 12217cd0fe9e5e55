"""Whose graph, and on whose behalf: every query of the graph is bound by it."""

from dataclasses import dataclass
from uuid import UUID

from sqlalchemy import ScalarSelect, select

from shared.store.tables import Agent


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
