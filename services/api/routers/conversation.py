"""The conversation with an agent: messages, streamed answers, and memories."""

from collections.abc import AsyncIterator
from contextlib import aclosing
from dataclasses import dataclass
from http import HTTPStatus
from typing import Annotated, Final
from uuid import UUID

from fastapi import APIRouter, Body, Depends, Header, Request
from fastapi.sse import EventSourceResponse, ServerSentEvent
from starlette.responses import Response

from services.api.auth.dependencies import OwnedAgent
from services.api.commands import conversations
from services.api.commands.conversations import NewMemory, NewMessage, UnprocessableError
from services.api.http.dependencies import EventAfterCommit, Page, Paging
from services.api.http.idempotency import Idempotent
from services.api.http.problem_details import ConflictError, problems
from services.api.queries import conversation as conversation_queries
from services.api.streaming.answer_stream import (
    AnswerStreams,
    BadPositionError,
    StreamChunk,
    StreamPosition,
    chunks_after,
    position_after,
)
from shared import derived_events
from shared.database.engine import Database
from shared.enums import StepStatus
from shared.schemas.conversation import (
    MemoryView,
    MessageView,
    Restart,
    TextPiece,
    ToolUseView,
    TurnView,
)

router = APIRouter(prefix="/agents/{agent}", tags=["conversation"])


STREAM_SECONDS: Final = 60.0
"""The maximum duration of a stream.

The client reconnects, is authenticated again, and continues at its position.
"""
RECONNECT_MILLISECONDS: Final = 500
_NAMES: Final = {ToolUseView: "tool", Restart: "restart", TextPiece: "text"}


@router.get("/conversation/messages")
async def list_messages(access: OwnedAgent, paging: Paging) -> Page[MessageView]:
    """The newest first: questions, answers as far as they have come, and advice."""
    return await conversation_queries.list_messages(
        access.session, access.owner_id, access.agent.id, paging
    )


@router.post(
    "/conversation/messages",
    status_code=HTTPStatus.CREATED,
    response_model=TurnView,
    responses=problems(HTTPStatus.CONFLICT),
)
async def send_message(
    access: OwnedAgent,
    once: Idempotent,
    body: Annotated[NewMessage, Body()],
    afterwards: EventAfterCommit,
) -> Response:
    """The question, and the answer that is to come; follow it by its `stream`.

    It is made whether anybody follows or not. Answers of one conversation are made one after another, in order.
    """

    async def make() -> TurnView:
        turn, step = await conversations.ask_question(access, body.content)
        if step.status == StepStatus.PENDING:
            afterwards.tell(derived_events.agent_task_event(step))
        return turn

    return await once.answer(make)


@router.get("/conversation/messages/{message_id}")
async def show_message(access: OwnedAgent, message_id: UUID) -> MessageView:
    return await conversations.get_message(access, message_id)


@router.post(
    "/conversation/messages/{message_id}/retry",
    status_code=HTTPStatus.ACCEPTED,
    responses=problems(HTTPStatus.CONFLICT),
)
async def retry_message(access: OwnedAgent, message_id: UUID) -> MessageView:
    """Has a failed answer tried again; it may take a second to begin. Asking twice asks for one."""
    return await conversations.retry_answer(access, message_id)


@dataclass(frozen=True)
class AnswerSubscription:
    """A client's subscription to an answer, with its position."""

    owner_id: UUID
    agent_id: UUID
    message_id: UUID
    step_id: UUID
    place: StreamPosition


async def _subscription(
    access: OwnedAgent,
    message_id: UUID,
    last_event_id: Annotated[
        str | None, Header(description="The id of the last event that was read")
    ] = None,
) -> AnswerSubscription:
    message = await conversations.get_message(access, message_id)
    if message.kind != "answer" or message.turn is None:
        raise ConflictError(
            "not-an-answer", f"This {message.kind} is complete: only answers come as a stream."
        )
    try:
        place = StreamPosition.read(last_event_id or None)
    except BadPositionError as error:
        raise UnprocessableError("bad-event-id", f"{error}.") from error
    step_id = conversation_queries.step_id_of_turn(access.agent.id, message.turn)
    return AnswerSubscription(access.owner_id, access.agent.id, message_id, step_id, place)


@router.get(
    "/conversation/messages/{message_id}/stream",
    response_class=EventSourceResponse,
    responses=problems(HTTPStatus.CONFLICT),
)
async def stream_message(
    request: Request,
    subscription: Annotated[AnswerSubscription, Depends(_subscription, scope="function")],
) -> AsyncIterator[ServerSentEvent]:
    """An answer while it is written, as Server-Sent Events; afterwards the whole of it at once.

    `text` (a piece, with its offset), `restart` (it is begun anew: forget what you have), `tool` (what the agent looks
    at), and at the end `complete` or `failed` with the message. Come back with `Last-Event-ID` to go on where you were.
    """
    answers: AnswerStreams = request.app.state.answers
    database: Database = request.app.state.database
    place = subscription.place
    yield ServerSentEvent(comment="following", retry=RECONNECT_MILLISECONDS)
    states = answers.follow(subscription.message_id, subscription.step_id, seconds=STREAM_SECONDS)
    async with aclosing(states):
        async for state in states:
            chunks = chunks_after(place, state)
            for piece in chunks:
                yield _server_sent_event(piece)
            place = position_after(place, chunks, state)
            if not state.has_ended:
                continue
            message = await _message(database, subscription)
            if message is not None:
                yield ServerSentEvent(data=message, event=state.status, id=str(place))


def _server_sent_event(piece: StreamChunk) -> ServerSentEvent:
    return ServerSentEvent(data=piece.what, event=_NAMES[type(piece.what)], id=str(piece.place))


async def _message(database: Database, subscription: AnswerSubscription) -> MessageView | None:
    async with database.transaction() as session:
        return await conversation_queries.find_message(
            session, subscription.owner_id, subscription.agent_id, subscription.message_id
        )


@router.get("/memories")
async def list_memories(
    access: OwnedAgent, paging: Paging, forgotten: bool = False
) -> Page[MemoryView]:
    """The newest first; with `forgotten` those that were forgotten."""
    return await conversation_queries.list_memories(
        access.session, access.owner_id, access.agent.id, paging, forgotten=forgotten
    )


@router.post(
    "/memories",
    status_code=HTTPStatus.CREATED,
    response_model=MemoryView,
    responses=problems(HTTPStatus.CONFLICT),
)
async def add_memory(
    access: OwnedAgent, once: Idempotent, body: Annotated[NewMemory, Body()]
) -> Response:
    """The next plan heeds it. The same thing told twice is one memory."""

    async def make() -> MemoryView:
        return await conversations.add_memory(access, body)

    return await once.answer(make)


@router.delete("/memories/{memory_id}", status_code=HTTPStatus.NO_CONTENT)
async def forget_memory(access: OwnedAgent, memory_id: UUID) -> None:
    """No plan heeds it any more."""
    await conversations.forget_memory(access, memory_id)
