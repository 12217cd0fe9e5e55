"""The conversation page, with the agent's memories."""

from collections.abc import Mapping, Sequence
from http import HTTPStatus
from typing import Annotated, Any, Final
from uuid import UUID

from fastapi import APIRouter, Form, Request
from starlette.responses import HTMLResponse, RedirectResponse, Response

from services.api.auth.dependencies import AgentAccess, OwnedAgent
from services.api.commands import conversations
from services.api.commands.conversations import NewMemory, NewMessage
from services.api.http.dependencies import EventAfterCommit, PageQuery
from services.api.queries import conversation as reading
from services.api.web.rendering import PageResponse
from services.api.web.text import find_citations
from shared import derived_events
from shared.agents import memories
from shared.enums import MemoryKind, StepStatus
from shared.schemas.base import LARGEST_PAGE, CitationResponse, PageRequest
from shared.schemas.conversation import ENDED, MemoryResponse, MessageResponse

router = APIRouter(prefix="/agents/{agent}")

TOOLS: Final[Mapping[str, str]] = {
    "queryGraph": "Looked into the graph",
    "tavilySearch": "Searched the web",
    "tavilyExtract": "Read a page",
    "tavilyResearch": "Researched the web",
    "remember": "Will remember",
}


@router.get("/conversation")
async def show_conversation(
    access: OwnedAgent, page: PageResponse, page_request: PageQuery
) -> HTMLResponse:
    """Shows the newest messages in chronological order; `next` leads to older ones."""
    messages_page = await reading.list_messages(
        access.session, access.owner_id, access.agent.id, page_request
    )
    memory_views: list[MemoryResponse] = []
    if page.part is None:
        memory_views = await _memories(access)
    return await page.answer(
        "conversation/show.html",
        agent=access.agent,
        next=messages_page.next,
        is_newest=page_request.cursor is None,
        memories=memory_views,
        memory_kinds=list(MemoryKind),
        memory_characters=memories.MAX_MEMORY_CHARS,
        message_characters=conversations.MAX_MESSAGE_CHARS,
        **await _messages_context(access, messages_page.items[::-1]),
    )


@router.get("/conversation/messages/{message_id}")
async def show_message(access: OwnedAgent, page: PageResponse, message_id: UUID) -> HTMLResponse:
    """Shows one message."""
    message = await conversations.get_message(access, message_id)
    return await page.answer(
        "conversation/message.html",
        agent=access.agent,
        **await _messages_context(access, [message]),
    )


@router.post("/conversation")
async def ask_question(
    request: Request,
    access: OwnedAgent,
    form: Annotated[NewMessage, Form()],
    afterwards: EventAfterCommit,
) -> Response:
    """Redirects to the pending answer. With htmx, the page fetches the answer itself."""
    turn, step = await conversations.ask_question(access, form.content)
    if step.status == StepStatus.PENDING:
        afterwards.publish(derived_events.agent_task_event(step))
    if request.headers.get("hx-request") == "true":
        return Response(status_code=HTTPStatus.NO_CONTENT)
    return _to_conversation(access, f"message-{turn.answer.id}")


@router.post("/conversation/messages/{message_id}/retry")
async def retry_answer(access: OwnedAgent, message_id: UUID) -> Response:
    await conversations.retry_answer(access, message_id)
    return _to_conversation(access, f"message-{message_id}")


@router.post("/memories")
async def add_memory(access: OwnedAgent, form: Annotated[NewMemory, Form()]) -> Response:
    await conversations.add_memory(access, form)
    return _to_conversation(access, "memories")


@router.post("/memories/{memory_id}/forget")
async def forget_memory(access: OwnedAgent, memory_id: UUID) -> Response:
    await conversations.forget_memory(access, memory_id)
    return _to_conversation(access, "memories")


async def _messages_context(
    access: AgentAccess, messages: Sequence[MessageResponse]
) -> dict[str, Any]:
    """Returns the context of the message templates.

    Advice has no citations of its own, so they are looked up.
    """
    advised = [
        (access.agent.id, message.content) for message in messages if message.kind == "advice"
    ]
    citations_by_agent = await find_citations(access.session, access.owner_id, advised)
    of_advice = citations_by_agent.get(access.agent.id, [])
    citations: dict[UUID, Sequence[CitationResponse]] = {
        message.id: of_advice if message.kind == "advice" else message.citations
        for message in messages
    }
    return {"messages": messages, "citations": citations, "tools": TOOLS, "ended": ENDED}


async def _memories(access: AgentAccess) -> list[MemoryResponse]:
    memories_page = await reading.list_memories(
        access.session, access.owner_id, access.agent.id, PageRequest(LARGEST_PAGE), forgotten=False
    )
    return memories_page.items


def _to_conversation(access: AgentAccess, place: str) -> Response:
    address = f"/agents/{access.agent.id}/conversation#{place}"
    return RedirectResponse(address, HTTPStatus.SEE_OTHER)
