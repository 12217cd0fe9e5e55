"""FastAPI dependencies for the caller, the transaction, and the agent of a request.

The caller is authenticated before, in `services.api.auth.middleware`, which also checks the
credential's scope: safe methods need `read`, all others `write`.
"""

from collections.abc import AsyncIterator, Awaitable, Callable
from dataclasses import dataclass
from typing import Annotated, Final
from uuid import UUID

from fastapi import Depends, Path, Request
from sqlalchemy import ColumnElement, func, or_

from services.api.auth.middleware import CALLER, require_scope
from services.api.http.problem_details import NotFoundError
from shared.accounts import authentication
from shared.accounts.authentication import Caller
from shared.database.engine import Database
from shared.database.statements import CompiledStatement
from shared.database.tables import Agent
from shared.database.transaction import Transaction
from shared.enums import AccessScope
from shared.graph.scope import GraphScope


async def _authenticated_caller(request: Request) -> Caller:
    caller: Caller = request.scope[CALLER]
    return caller


AuthenticatedCaller = Annotated[Caller, Depends(_authenticated_caller)]
"""For routes that need no transaction, or must not hold one while they answer, such as endless streams."""


@dataclass(frozen=True)
class Access:
    """One request with its transaction, which is committed before the response is sent."""

    session: Transaction
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
    database: Database = request.app.state.database
    async with database.transaction() as session:
        yield Access(session, request.scope[CALLER])


OwnedAccess = Annotated[Access, Depends(_owned_access, scope="function")]


async def _operator_access(access: OwnedAccess) -> Access:
    require_scope(access.caller, AccessScope.OPERATOR)
    return access


OperatorAccess = Annotated[Access, Depends(_operator_access, scope="function")]
"""For operators, with a credential that has the `operator` scope."""


@dataclass(frozen=True)
class AgentRef:
    """The identity of an agent, which is all that most requests need."""

    id: UUID
    name: str


@dataclass(frozen=True)
class AgentAccess(Access):
    """A request about one agent of the caller."""

    agent: AgentRef

    @property
    def scope(self) -> GraphScope:
        return GraphScope(self.owner_id, self.agent.id)


_FIND_AGENT: Final = CompiledStatement(
    "select id, name from agents where owner_id = :owner_id and (id = :id or lower(name) = :name)"
    " order by lower(name) limit 1"
)


async def find_agent_ref(access: Access, reference: str) -> AgentRef:
    """Returns the identity of the owner's agent with that id or name, ignoring case. Raises NotFoundError."""
    name = reference.strip().lower()
    params = {"owner_id": access.owner_id, "id": parse_id(reference), "name": name}
    row = await _FIND_AGENT.row(access.session, params)
    if row is None:
        raise NotFoundError("agent", reference)
    return AgentRef(*row)


def matches_reference(reference: str) -> ColumnElement[bool]:
    """Returns the condition that an agent's id or name is `reference`."""
    by_name = func.lower(Agent.name) == reference.strip().lower()
    return or_(Agent.id == parse_id(reference), by_name)


def parse_id(reference: str) -> UUID | None:
    try:
        return UUID(reference)
    except ValueError:
        return None


AgentInPath = Annotated[str, Path(description="The agent's id or name")]


async def _agent_access(access: OwnedAccess, agent: AgentInPath) -> AgentAccess:
    return AgentAccess(access.session, access.caller, await find_agent_ref(access, agent))


OwnedAgent = Annotated[AgentAccess, Depends(_agent_access, scope="function")]


async def _owned_snapshot(request: Request, caller: AuthenticatedCaller) -> AsyncIterator[Access]:
    database: Database = request.app.state.database
    async with database.snapshot() as session:
        yield Access(session, caller)


OwnedSnapshot = Annotated[Access, Depends(_owned_snapshot, scope="function")]
"""Like `OwnedAccess`, in a read-only transaction of its own."""


async def _agent_snapshot(access: OwnedSnapshot, agent: AgentInPath) -> AgentAccess:
    return AgentAccess(access.session, access.caller, await find_agent_ref(access, agent))


OwnedAgentSnapshot = Annotated[AgentAccess, Depends(_agent_snapshot, scope="function")]


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
