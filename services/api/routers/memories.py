"""What an agent remembers of what its owner told it."""

from http import HTTPStatus
from typing import Annotated
from uuid import UUID

from fastapi import APIRouter, Body
from starlette.responses import Response

from services.api.auth.dependencies import OwnedAgent
from services.api.commands import conversations
from services.api.commands.conversations import NewMemory
from services.api.http.dependencies import Page, Paging
from services.api.http.idempotency import AskedOnce
from services.api.http.problem_details import problems
from services.api.queries import conversation as reading
from shared.schemas.conversation import MemoryView

router = APIRouter(prefix="/agents/{agent}/memories", tags=["conversation"])


@router.get("")
async def list_memories(
    access: OwnedAgent, paging: Paging, forgotten: bool = False
) -> Page[MemoryView]:
    """The newest first; with `forgotten` those that were forgotten."""
    return await reading.memories(
        access.session, access.owner_id, access.agent.id, paging, forgotten=forgotten
    )


@router.post(
    "",
    status_code=HTTPStatus.CREATED,
    response_model=MemoryView,
    responses=problems(HTTPStatus.CONFLICT),
)
async def add_memory(
    access: OwnedAgent, once: AskedOnce, wanted: Annotated[NewMemory, Body()]
) -> Response:
    """The next plan heeds it. The same thing told twice is one memory."""

    async def make() -> MemoryView:
        return await conversations.remember(access, wanted)

    return await once.answer(make)


@router.delete("/{memory_id}", status_code=HTTPStatus.NO_CONTENT)
async def forget_memory(access: OwnedAgent, memory_id: UUID) -> None:
    """No plan heeds it any more."""
    await conversations.forget(access, memory_id)
