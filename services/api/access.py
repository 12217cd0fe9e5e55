"""What every route is given: who asks, a transaction, and whose things it may touch.

Who asks was found out at the door (`services.api.door`), which also sees to it that the credential allows what the
method does: safe ones need the scope `read`, all others `write`.
"""

from collections.abc import AsyncIterator
from dataclasses import dataclass
from typing import Annotated
from uuid import UUID

from fastapi import Depends, Path, Request
from sqlalchemy.ext.asyncio import AsyncSession

from services.api.door import CALLER, OPENED, Opened, demand
from services.api.problems import NotFoundError
from shared.graph.scope import Scope
from shared.store.callers import Caller
from shared.store.database import Database
from shared.store.reading import agents as reading_agents
from shared.store.reading.agents import AgentRef
from shared.store.words import AccessScope


async def _caller(request: Request) -> Caller:
    opened: Opened | None = request.scope.pop(OPENED, None)
    if opened is not None:
        await opened.ends.aclose()
    caller: Caller = request.scope[CALLER]
    return caller


Called = Annotated[Caller, Depends(_caller)]
"""For routes that need no transaction, or none for as long as they answer: an endless stream must not keep one."""


@dataclass(frozen=True)
class Access:
    """One request's transaction; it is committed before the answer is sent."""

    session: AsyncSession
    caller: Caller

    @property
    def owner_id(self) -> UUID:
        """Whose things it may touch."""
        return self.caller.user_id


async def _access(request: Request) -> AsyncIterator[Access]:
    caller: Caller = request.scope[CALLER]
    opened: Opened | None = request.scope.pop(OPENED, None)
    if opened is not None:
        async with opened.ends.pop_all():
            yield Access(opened.session, caller)
        return
    database: Database = request.app.state.database
    async with database.transaction() as session:
        yield Access(session, caller)


Owned = Annotated[Access, Depends(_access, scope="function")]


async def _operated(access: Owned) -> Access:
    demand(access.caller, AccessScope.OPERATOR)
    return access


Operated = Annotated[Access, Depends(_operated, scope="function")]
"""For whoever looks after the installation, by a credential that says so."""


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
