"""The access of a request, for tests of what the API reads."""

from collections.abc import Awaitable
from uuid import UUID

from services.api.auth.dependencies import Access, AgentAccess, AgentRef
from services.api.http.problem_details import NotFoundError
from shared.accounts.authentication import Caller
from shared.database.transaction import Transaction
from shared.enums import CredentialKind
from shared.graph.scope import GraphScope


def owner_access(session: Transaction, owner_id: UUID) -> Access:
    """A request of a user without scopes."""
    return Access(session, _caller(owner_id))


def agent_access(
    session: Transaction, owner: UUID | GraphScope, agent_id: UUID | None = None
) -> AgentAccess:
    """A request of a user about an agent, which need not be the user's."""
    scope = owner if isinstance(owner, GraphScope) else GraphScope(owner, agent_id or owner)
    return AgentAccess(session, _caller(scope.owner_id), AgentRef(scope.agent_id, ""))


def _caller(user_id: UUID) -> Caller:
    return Caller(user_id, "", CredentialKind.TOKEN, user_id, frozenset(), None)


async def is_missing(read: Awaitable[object]) -> bool:
    """Whether the read found nothing that the user may see."""
    try:
        await read
    except NotFoundError:
        return True
    return False
