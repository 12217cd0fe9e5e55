"""For routes that read much in one request: all of it as it was at one moment, whoever writes meanwhile."""

from collections.abc import AsyncIterator
from typing import Annotated

from fastapi import Depends, Path, Request

from services.api.access import Access, AgentAccess, Called
from services.api.problems import NotFoundError
from shared.store.database import Database
from shared.store.reading import agents


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
