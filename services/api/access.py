"""What every route is given: a transaction, and whose things it may touch."""

import asyncio
from collections.abc import AsyncIterator
from dataclasses import dataclass
from typing import Annotated
from uuid import UUID

from fastapi import Depends, Path, Request
from psycopg.errors import UndefinedTable
from sqlalchemy.exc import ProgrammingError
from sqlalchemy.ext.asyncio import AsyncSession

from services.api.problems import NotFoundError
from shared.errors import TransientError
from shared.graph.scope import Scope
from shared.runtime.logs import logger
from shared.store import agents
from shared.store.database import Database
from shared.store.reading import agents as reading_agents
from shared.store.reading.agents import AgentRef

LOOK_AGAIN_SECONDS = 0.5

log = logger(__name__)


class Owner:
    """The one user whose agents these are; known once Postgres answers and has its tables."""

    def __init__(self, database: Database, name: str) -> None:
        self._database = database
        self._name = name
        self._id: UUID | None = None

    async def id(self) -> UUID:
        """Raises TransientError while Postgres is away or has no tables yet."""
        if self._id is None:
            try:
                async with self._database.transaction() as session:
                    self._id = await agents.ensure_user(session, self._name)
            except ProgrammingError as error:
                if not isinstance(error.orig, UndefinedTable):
                    raise
                raise TransientError(
                    "PostgreSQL: the tables are missing; run `vigil migrate`"
                ) from error
        return self._id

    async def fault(self) -> str | None:
        """Why nothing can be answered, in words, or None."""
        try:
            await self.id()
            await self._database.ping()
        except TransientError as error:
            return str(error)
        return None

    async def wait(self) -> None:
        """Returns when Postgres is there; says what it waits for, once for each reason."""
        said: str | None = None
        while (fault := await self.fault()) is not None:
            if fault != said:
                log.warning("waiting for PostgreSQL", reason=fault)
                said = fault
            await asyncio.sleep(LOOK_AGAIN_SECONDS)
        log.info("ready")


@dataclass(frozen=True)
class Access:
    """One request's transaction; it is committed before the answer is sent."""

    session: AsyncSession
    owner_id: UUID


async def _access(request: Request) -> AsyncIterator[Access]:
    owner: Owner = request.app.state.owner
    database: Database = request.app.state.database
    owner_id = await owner.id()
    async with database.transaction() as session:
        yield Access(session, owner_id)


Owned = Annotated[Access, Depends(_access, scope="function")]


@dataclass(frozen=True)
class AgentAccess:
    """A request about one agent of the owner's."""

    session: AsyncSession
    owner_id: UUID
    agent: AgentRef

    @property
    def scope(self) -> Scope:
        return Scope(self.owner_id, self.agent.id)


async def _agent_access(
    access: Owned, agent: Annotated[str, Path(description="The agent's id or name")]
) -> AgentAccess:
    found = await reading_agents.named(access.session, access.owner_id, agent)
    if found is None:
        raise NotFoundError("agent", agent)
    return AgentAccess(access.session, access.owner_id, found)


OwnedAgent = Annotated[AgentAccess, Depends(_agent_access, scope="function")]
