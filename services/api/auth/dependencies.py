"""FastAPI dependencies for the caller, the transaction, and the agent of a request.

The caller is authenticated before, in `services.api.auth.middleware`, which also checks the
credential's scope: safe methods need `read`, all others `write`.
"""

from collections.abc import AsyncIterator, Awaitable, Callable
from dataclasses import dataclass
from typing import Annotated
from uuid import UUID

from fastapi import Depends, Path, Request
from sqlalchemy.ext.asyncio import AsyncSession

from services.api.auth.middleware import CALLER, TRANSACTION, RequestTransaction, require_scope
from services.api.http.problem_details import NotFoundError
from services.api.queries import agents
from services.api.queries.agents import AgentRef
from shared.accounts import authentication
from shared.accounts.authentication import Caller
from shared.database.engine import Database
from shared.enums import AccessScope
from shared.graph.scope import GraphScope


async def _authenticated_caller(request: Request) -> Caller:
    transaction: RequestTransaction | None = request.scope.pop(TRANSACTION, None)
    if transaction is not None:
        await transaction.ends.aclose()
    caller: Caller = request.scope[CALLER]
    return caller


AuthenticatedCaller = Annotated[Caller, Depends(_authenticated_caller)]
"""For routes that need no transaction, or must not hold one while they answer, such as endless streams."""


@dataclass(frozen=True)
class Access:
    """One request with its transaction, which is committed before the response is sent."""

    session: AsyncSession
    caller: Caller

    @property
    def owner_id(self) -> UUID:
        """The user whose data the request may access."""
        return self.caller.user_id

    @property
    def counted_owner_id(self) -> UUID | None:
        """Whose steps the state of the installation counts: None for operators, who see those of all users."""
        return None if self.caller.is_operator else self.owner_id


async def _owned_access(request: Request) -> AsyncIterator[Access]:
    caller: Caller = request.scope[CALLER]
    transaction: RequestTransaction | None = request.scope.pop(TRANSACTION, None)
    if transaction is not None:
        async with transaction.ends.pop_all():
            yield Access(transaction.session, caller)
        return
    database: Database = request.app.state.database
    async with database.transaction() as session:
        yield Access(session, caller)


OwnedAccess = Annotated[Access, Depends(_owned_access, scope="function")]


async def _operator_access(access: OwnedAccess) -> Access:
    require_scope(access.caller, AccessScope.OPERATOR)
    return access


OperatorAccess = Annotated[Access, Depends(_operator_access, scope="function")]
"""For operators, with a credential that has the `operator` scope."""


@dataclass(frozen=True)
class AgentAccess:
    """A request about one agent of the caller."""

    session: AsyncSession
    owner_id: UUID
    agent: AgentRef

    @property
    def scope(self) -> GraphScope:
        return GraphScope(self.owner_id, self.agent.id)


async def _agent_access(
    access: OwnedAccess, agent: Annotated[str, Path(description="The agent's id or name")]
) -> AgentAccess:
    agent_ref = await agents.find_agent_ref(access.session, access.owner_id, agent)
    if agent_ref is None:
        raise NotFoundError("agent", agent)
    return AgentAccess(access.session, access.owner_id, agent_ref)


OwnedAgent = Annotated[AgentAccess, Depends(_agent_access, scope="function")]


async def _owned_snapshot(request: Request, caller: AuthenticatedCaller) -> AsyncIterator[Access]:
    database: Database = request.app.state.database
    async with database.snapshot() as session:
        yield Access(session, caller)


OwnedSnapshot = Annotated[Access, Depends(_owned_snapshot, scope="function")]
"""Like `OwnedAccess`, in a read-only transaction of its own."""


async def _owned_agent_snapshot(
    access: OwnedSnapshot, agent: Annotated[str, Path(description="The agent's id or name")]
) -> AgentAccess:
    agent_ref = await agents.find_agent_ref(access.session, access.owner_id, agent)
    if agent_ref is None:
        raise NotFoundError("agent", agent)
    return AgentAccess(access.session, access.owner_id, agent_ref)


OwnedAgentSnapshot = Annotated[AgentAccess, Depends(_owned_agent_snapshot, scope="function")]


SessionCheck = Callable[[], Awaitable[bool]]
"""Tells whether the credential is still valid.

Raises TransientError while that cannot be checked.
"""


def session_check(request: Request, caller: AuthenticatedCaller) -> SessionCheck:
    """Returns a check of whether the request's credential would still be accepted."""
    database: Database = request.app.state.database

    async def still_allowed() -> bool:
        async with database.transaction() as session:
            return await authentication.is_still_valid(session, caller)

    return still_allowed


SessionRevalidation = Annotated[SessionCheck, Depends(session_check)]
