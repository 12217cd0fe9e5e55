"""Talking with an agent, and what it remembers of it."""

from collections.abc import Mapping, Sequence
from http import HTTPStatus
from typing import Annotated, Any, Final
from uuid import UUID

from fastapi import APIRouter, Form, Request
from starlette.responses import HTMLResponse, RedirectResponse, Response

from services.api.auth.dependencies import AgentAccess, OwnedAgent
from services.api.commands import conversations
from services.api.commands.conversations import NewMemory, NewMessage
from services.api.http.dependencies import Afterwards, Paging
from services.api.queries import conversation as reading
from services.api.web.rendering import Answering
from services.api.web.text import citations_of
from shared import derived_events
from shared.agents import memories
from shared.enums import MemoryKind, StepStatus
from shared.schemas.base import LARGEST_PAGE, CitationView, Wanted
from shared.schemas.conversation import ENDED, MemoryView, MessageView

router = APIRouter(prefix="/agents/{agent}")

TOOLS: Final[Mapping[str, str]] = {
    "queryGraph": "Looked into the graph",
    "tavilySearch": "Searched the web",
    "tavilyExtract": "Read a page",
    "tavilyResearch": "Researched the web",
    "remember": "Will remember",
}


@router.get("/conversation")
async def show(access: OwnedAgent, page: Answering, paging: Paging) -> HTMLResponse:
    """The newest messages, in the order of time; `next` leads to those before."""
    found = await reading.messages(access.session, access.owner_id, access.agent.id, paging)
    kept: list[MemoryView] = []
    if page.part is None:
        kept = await _memories(access)
    return await page.answer(
        "conversation/show.html",
        agent=access.agent,
        next=found.next,
        is_newest=paging.cursor is None,
        memories=kept,
        memory_kinds=list(MemoryKind),
        memory_characters=memories.MAX_CHARACTERS,
        message_characters=conversations.MESSAGE_CHARACTERS,
        **await _shown(access, found.items[::-1]),
    )


@router.get("/conversation/messages/{message_id}")
async def show_message(access: OwnedAgent, page: Answering, message_id: UUID) -> HTMLResponse:
    """One alone, as it stands now."""
    found = await conversations.found(access, message_id)
    return await page.answer(
        "conversation/message.html", agent=access.agent, **await _shown(access, [found])
    )


@router.post("/conversation")
async def ask(
    request: Request,
    access: OwnedAgent,
    wanted: Annotated[NewMessage, Form()],
    afterwards: Afterwards,
) -> Response:
    """Leads to the answer, which is to come; a page with scripts is there already, and fetches it."""
    turn, step = await conversations.ask(access, wanted.content)
    if step.status == StepStatus.PENDING:
        afterwards.tell(derived_events.order(step))
    if request.headers.get("hx-request") == "true":
        return Response(status_code=HTTPStatus.NO_CONTENT)
    return _back(access, f"message-{turn.answer.id}")


@router.post("/conversation/messages/{message_id}/retry")
async def ask_again(access: OwnedAgent, message_id: UUID) -> Response:
    await conversations.ask_again(access, message_id)
    return _back(access, f"message-{message_id}")


@router.post("/memories")
async def remember(access: OwnedAgent, wanted: Annotated[NewMemory, Form()]) -> Response:
    await conversations.remember(access, wanted)
    return _back(access, "memories")


@router.post("/memories/{memory_id}/forget")
async def forget(access: OwnedAgent, memory_id: UUID) -> Response:
    await conversations.forget(access, memory_id)
    return _back(access, "memories")


async def _shown(access: AgentAccess, messages: Sequence[MessageView]) -> dict[str, Any]:
    """What the templates of messages are given. Advice comes without citations: it is asked for."""
    advised = [(access.agent.id, each.content) for each in messages if each.kind == "advice"]
    named = await citations_of(access.session, access.owner_id, advised)
    of_advice = named.get(access.agent.id, [])
    citations: dict[UUID, Sequence[CitationView]] = {
        each.id: of_advice if each.kind == "advice" else each.citations for each in messages
    }
    return {"messages": messages, "citations": citations, "tools": TOOLS, "ended": ENDED}


async def _memories(access: AgentAccess) -> list[MemoryView]:
    found = await reading.memories(
        access.session, access.owner_id, access.agent.id, Wanted(LARGEST_PAGE), forgotten=False
    )
    return found.items


def _back(access: AgentAccess, place: str) -> Response:
    address = f"/agents/{access.agent.id}/conversation#{place}"
    return RedirectResponse(address, HTTPStatus.SEE_OTHER)
