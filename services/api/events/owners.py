"""Whose agents are."""

from collections.abc import Iterable
from itertools import islice
from typing import Final
from uuid import UUID

from shared.store.database import Database
from shared.store.reading import agents

MOST_REMEMBERED: Final = 50_000


class Owners:
    """Remembers what it has once found: an agent never changes hands, and no id is given twice."""

    def __init__(self, database: Database) -> None:
        self._database = database
        self._known: dict[UUID, UUID] = {}

    async def of(self, agent_ids: Iterable[UUID]) -> dict[UUID, UUID]:
        """Agent to owner; agents that were deleted have none. Raises TransientError while Postgres is away."""
        wanted = set(agent_ids)
        found = {agent_id: self._known[agent_id] for agent_id in wanted & self._known.keys()}
        if unknown := wanted - found.keys():
            async with self._database.transaction() as session:
                found |= (looked_up := await agents.owners(session, unknown))
            self._remember(looked_up)
        return found

    def _remember(self, found: dict[UUID, UUID]) -> None:
        self._known |= found
        for oldest in list(islice(self._known, max(0, len(self._known) - MOST_REMEMBERED))):
            del self._known[oldest]
