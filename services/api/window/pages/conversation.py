"""Talking with an agent, and what it remembers of it."""

from collections.abc import Mapping, Sequence
from http import HTTPStatus
from typing import Annotated, Any, Final
from uuid import UUID

from fastapi import APIRouter, Form, Request
from starlette.responses import HTMLResponse, RedirectResponse, Response

from services.api import talking
from services.api.access import AgentAccess, OwnedAgent
from services.api.hints import Afterwards
from services.api.pages import Paging
from services.api.talking import NewMemory, NewMessage
from services.api.window.naming import citations_of
from services.api.window.rendering import Answering
from shared.store import memories, telling
from shared.store.reading import conversation as reading
from shared.store.reading.conversation_shapes import ENDED, MemoryView, MessageView
from shared.store.reading.page import LARGEST_PAGE, Wanted
from shared.store.reading.shapes import CitationView
from shared.store.words import MemoryKind, StepStatus

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
        message_characters=talking.MESSAGE_CHARACTERS,
        **await _shown(access, found.items[::-1]),
    )


@router.get("/conversation/messages/{message_id}")
async def show_message(access: OwnedAgent, page: Answering, message_id: UUID) -> HTMLResponse:
    """One alone, as it stands now."""
    found = await talking.found(access, message_id)
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
    turn, step = await talking.ask(access, wanted.content)
    if step.status == StepStatus.PENDING:
        afterwards.tell(telling.order(step))
    if request.headers.get("hx-request") == "true":
        return Response(status_code=HTTPStatus.NO_CONTENT)
    return _back(access, f"message-{turn.answer.id}")


@router.post("/conversation/messages/{message_id}/retry")
async def ask_again(access: OwnedAgent, message_id: UUID) -> Response:
    await talking.ask_again(access, message_id)
    return _back(access, f"message-{message_id}")


@router.post("/memories")
async def remember(access: OwnedAgent, wanted: Annotated[NewMemory, Form()]) -> Response:
    await talking.remember(access, wanted)
    return _back(access, "memories")


@router.post("/memories/{memory_id}/forget")
async def forget(access: OwnedAgent, memory_id: UUID) -> Response:
    await talking.forget(access, memory_id)
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
