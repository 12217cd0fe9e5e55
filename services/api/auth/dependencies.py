"""What every route gets: the caller, a transaction, and the caller's scope.

Who asks was found out before (`services.api.auth.middleware`), which also sees to it that the credential allows what the
method does: safe ones need the scope `read`, all others `write`.
"""

from collections.abc import AsyncIterator, Awaitable, Callable
from dataclasses import dataclass
from typing import Annotated
from uuid import UUID

from fastapi import Depends, Path, Request
from sqlalchemy.ext.asyncio import AsyncSession

from services.api.auth.middleware import CALLER, OPENED, Opened, demand
from services.api.http.problem_details import NotFoundError
from services.api.queries import agents
from services.api.queries import agents as reading_agents
from services.api.queries.agents import AgentRef
from shared.accounts import authentication
from shared.accounts.authentication import Caller
from shared.database.engine import Database
from shared.enums import AccessScope
from shared.graph.scope import Scope


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


async def _snapshot(request: Request, caller: Called) -> AsyncIterator[Access]:
    database: Database = request.app.state.database
    async with database.snapshot() as session:
        yield Access(session, caller)


OwnedSnapshot = Annotated[Access, Depends(_snapshot, scope="function")]
"""As `Owned`, in a transaction of its own, which writes nothing."""


async def _agent_snapshot(
    access: OwnedSnapshot, agent: Annotated[str, Path(description="The agent's id or name")]
) -> AgentAccess:
    found = await agents.named(access.session, access.owner_id, agent)
    if found is None:
        raise NotFoundError("agent", agent)
    return AgentAccess(access.session, access.owner_id, found)


OwnedAgentSnapshot = Annotated[AgentAccess, Depends(_agent_snapshot, scope="function")]


StillAllowed = Callable[[], Awaitable[bool]]
"""Raises TransientError where that cannot be known just now."""


def still_allowed_of(request: Request, caller: Called) -> StillAllowed:
    """As long as the credential that was shown would be let in again."""
    database: Database = request.app.state.database

    async def still_allowed() -> bool:
        async with database.transaction() as session:
            return await authentication.still_stands(session, caller)

    return still_allowed


Standing = Annotated[StillAllowed, Depends(still_allowed_of)]
