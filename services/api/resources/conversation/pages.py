"""The conversation page, with the agent's memories."""

import re
from collections.abc import Mapping, Sequence
from http import HTTPStatus
from typing import Annotated, Any, Final, get_args
from uuid import UUID

from fastapi import APIRouter, Request
from starlette.responses import HTMLResponse, RedirectResponse, Response

from services.api.auth.dependencies import AgentAccess, OwnedAgent
from services.api.http.dependencies import EventAfterCommit, PageQuery
from services.api.http.problem_details import ConflictError, NotFoundError, ProblemError
from services.api.resources.agents.model import get_agent
from services.api.resources.conclusions import model as conclusions
from services.api.resources.conclusions.model import LatestConclusion
from services.api.resources.conversation import model
from services.api.resources.conversation.model import NewMemory, NewMessage
from services.api.web.forms import FormState, Submitted, submitted
from services.api.web.rendering import Page, PageResponse
from services.api.web.text import find_citations
from shared.graph.conclusions.conclusions import AnalysisKind
from shared.schemas.base import LARGEST_PAGE, CitationResponse, PageRequest
from shared.schemas.conversation import ENDED, MemoryResponse, MessageResponse

router = APIRouter(prefix="/agents/{agent}")

TOOLS: Final[Mapping[str, Mapping[str, str]]] = {
    "queryGraph": {"icon": "network", "words": "Searched the graph"},
    "tavilySearch": {"icon": "globe", "words": "Searched the web"},
    "tavilyExtract": {"icon": "file-text", "words": "Read a page"},
    "tavilyResearch": {"icon": "telescope", "words": "Researched on the web"},
    "remember": {"icon": "brain", "words": "Added a memory"},
}
_EMPTY: Final = FormState()
"""A form that was not sent."""


@router.get("/conversation")
async def show_conversation(
    access: OwnedAgent, page: PageResponse, page_request: PageQuery
) -> HTMLResponse:
    """Shows the newest messages in chronological order; `next` leads to older ones."""
    return await _conversation_page(access, page, page_request)


async def _conversation_page(
    access: AgentAccess,
    page: Page,
    page_request: PageRequest,
    *,
    form: FormState = _EMPTY,
    memory_form: FormState = _EMPTY,
) -> HTMLResponse:
    messages_page = await model.list_messages(access, page_request)
    memories: list[MemoryResponse] = []
    suggestions: Sequence[str] = ()
    if page.part is None:
        memories = (await model.list_memories(access, PageRequest(LARGEST_PAGE))).items
        if page_request.cursor is None and all(
            message.kind == "advice" for message in messages_page.items
        ):
            suggestions = await _suggestions(access)
    return await page.answer(
        "conversation/show.html",
        status=next((each.status for each in (form, memory_form) if each.errors), HTTPStatus.OK),
        agent=access.agent,
        next=messages_page.next,
        is_newest=page_request.cursor is None,
        memories=memories,
        suggestions=suggestions,
        form=form,
        memory_form=memory_form,
        message_characters=model.MAX_MESSAGE_CHARS,
        **await _messages_context(access, messages_page.items[::-1]),
    )


@router.get("/conversation/messages/{message_id}")
async def show_message(access: OwnedAgent, page: PageResponse, message_id: UUID) -> HTMLResponse:
    """Shows one message."""
    message = await model.show_message(access, message_id)
    return await page.answer(
        "conversation/message.html",
        agent=access.agent,
        **await _messages_context(access, [message]),
    )


@router.post("/conversation")
async def ask_question(
    request: Request,
    access: OwnedAgent,
    page: PageResponse,
    form: Annotated[Submitted[NewMessage], submitted(NewMessage)],
    afterwards: EventAfterCommit,
) -> Response:
    """Redirects to the pending answer. With htmx, the page fetches the answer itself."""
    is_part = request.headers.get("hx-request") == "true"
    try:
        if form.model is None:
            sentence = next(iter(form.errors.values()))
            raise ProblemError(form.status, "invalid-request", sentence)
        turn = await model.ask_question(access, form.model.content, afterwards)
    except ProblemError as error:
        if is_part or isinstance(error, NotFoundError):
            raise
        return await _conversation_page(
            access, page, PageRequest(), form=form.refused(error, {"invalid-request": "content"})
        )
    if is_part:
        return Response(status_code=HTTPStatus.NO_CONTENT)
    return _to_conversation(access, f"message-{turn.answer.id}")


@router.post("/conversation/messages/{message_id}/retry")
async def retry_answer(access: OwnedAgent, message_id: UUID) -> Response:
    await model.retry_message(access, message_id)
    return _to_conversation(access, f"message-{message_id}")


@router.post("/memories")
async def add_memory(
    access: OwnedAgent,
    page: PageResponse,
    form: Annotated[Submitted[NewMemory], submitted(NewMemory)],
) -> Response:
    if form.model is None:
        return await _conversation_page(access, page, PageRequest(), memory_form=form)
    try:
        await model.add_memory(access, form.model)
    except ConflictError as error:
        refused = form.refused(error, {"too-many-memories": "content"})
        return await _conversation_page(access, page, PageRequest(), memory_form=refused)
    return _to_conversation(access, "memories")


@router.post("/memories/{memory_id}/forget")
async def forget_memory(access: OwnedAgent, memory_id: UUID) -> Response:
    await model.forget_memory(access, memory_id)
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


async def _suggestions(access: AgentAccess) -> Sequence[str]:
    agent = await get_agent(access, access.agent.id)
    newest = await conclusions.newest_conclusions(access, 1)
    return suggested_questions(agent.name, agent.mission, newest)


def _to_conversation(access: AgentAccess, place: str) -> Response:
    address = f"/agents/{access.agent.id}/conversation#{place}"
    return RedirectResponse(address, HTTPStatus.SEE_OTHER)


MAX_NAME_CHARS: Final = 80
_VERBS: Final = frozenset(
    {"watch", "follow", "monitor", "observe", "research", "track", "study", "survey"}
)
"""Missions that begin with one of these name their subject after it."""
_END_OF_CLAUSE: Final = re.compile(r"[,.;:!?\n]|\band (?:find|tell|say|report|alert|warn)\b")
_ANALYSES: Final = frozenset(get_args(AnalysisKind))


def suggested_questions(
    name: str, mission: str, newest: Sequence[LatestConclusion]
) -> Sequence[str]:
    """Questions for the first message: about the newest conclusion, if there is one, and about the mission."""
    questions = []
    if newest:
        conclusion = newest[0]
        subject = _cut(conclusion.name)
        if conclusion.word not in _ANALYSES:
            questions.append(f"Why do you advise {conclusion.word}: {subject}?")
            questions.append("What would make you withdraw this advice?")
        else:
            questions.append(f"What supports your conclusion “{subject}”?")
            questions.append("What could prove it wrong?")
    else:
        questions.append("What do you know so far, and how sure are you?")
    questions.append(f"What is new about {_cut(_subject(mission) or name)}?")
    questions.append("What do you still need to find out, and what will you do next?")
    return questions


def _subject(mission: str) -> str | None:
    """`zinc smelters` of "Watch zinc smelters, and …"; None where the mission has no such form."""
    verb, _, rest = mission.strip().partition(" ")
    if verb.lower() not in _VERBS:
        return None
    return _END_OF_CLAUSE.split(rest, maxsplit=1)[0].strip() or None


def _cut(text: str) -> str:
    line = " ".join(text.split())
    return line if len(line) <= MAX_NAME_CHARS else f"{line[: MAX_NAME_CHARS - 1].rstrip()}…"
