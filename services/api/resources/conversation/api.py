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
from services.api.http.dependencies import COUNTED_STREAM, EventAfterCommit
from services.api.http.idempotency import Idempotent
from services.api.http.problem_details import ConflictError, ProblemError, problems
from services.api.resources.conversation import model
from services.api.resources.conversation.model import NewMemory, NewMessage
from services.api.streaming.answer_stream import (
    AnswerStreams,
    BadPositionError,
    StreamChunk,
    StreamPosition,
    chunks_after,
    position_after,
)
from shared.database.engine import Database
from shared.schemas.conversation import (
    ConversationTurn,
    MemoryResponse,
    MessageResponse,
    Restart,
    TextPiece,
    ToolUseResponse,
)

router: Final = APIRouter(prefix="/agents/{agent}", tags=["conversation"])


STREAM_SECONDS: Final = 60.0
"""The maximum duration of a stream.

The client reconnects, is authenticated again, and continues at its position.
"""
RECONNECT_MILLISECONDS: Final = 500
_NAMES: Final = {ToolUseResponse: "tool", Restart: "restart", TextPiece: "text"}


router.get("/conversation/messages")(model.list_messages)
router.get("/memories")(model.list_memories)


@router.post(
    "/conversation/messages",
    status_code=HTTPStatus.CREATED,
    response_model=ConversationTurn,
    responses=problems(HTTPStatus.CONFLICT),
)
async def send_message(
    access: OwnedAgent,
    once: Idempotent,
    body: Annotated[NewMessage, Body()],
    afterwards: EventAfterCommit,
) -> Response:
    """Sends a question and requests its answer; follow the answer at its `stream`.

    The answer is written even if no client follows it. The answers of a conversation are written one at a time, in order.
    """
    return await once.answer(lambda: model.ask_question(access, body.content, afterwards))


router.get("/conversation/messages/{message_id}")(model.show_message)
router.post(
    "/conversation/messages/{message_id}/retry",
    status_code=HTTPStatus.ACCEPTED,
    responses=problems(HTTPStatus.CONFLICT),
)(model.retry_message)


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
    message = await model.show_message(access, message_id)
    if message.kind != "answer" or message.turn is None:
        raise ConflictError(
            "not-an-answer",
            f"This {message.kind} is complete: only unfinished answers can be streamed.",
        )
    try:
        place = StreamPosition.read(last_event_id or None)
    except BadPositionError as error:
        raise ProblemError(HTTPStatus.UNPROCESSABLE_ENTITY, "bad-event-id", f"{error}.") from error
    step_id = model.step_id_of_turn(access.agent.id, message.turn)
    return AnswerSubscription(access.owner_id, access.agent.id, message_id, step_id, place)


@router.get(
    "/conversation/messages/{message_id}/stream",
    response_class=EventSourceResponse,
    responses=problems(HTTPStatus.CONFLICT, HTTPStatus.TOO_MANY_REQUESTS),
    dependencies=[COUNTED_STREAM],
)
async def stream_message(
    request: Request,
    subscription: Annotated[AnswerSubscription, Depends(_subscription, scope="function")],
) -> AsyncIterator[ServerSentEvent]:
    """Streams an answer as Server-Sent Events while it is written; a complete answer is sent at once.

    The events are `text` (a piece, with its offset), `restart` (discard the text so far), `tool` (a tool call), and at
    the end `complete` or `failed` with the message. Reconnect with `Last-Event-ID` to continue.
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
    return ServerSentEvent(data=piece.data, event=_NAMES[type(piece.data)], id=str(piece.place))


async def _message(database: Database, subscription: AnswerSubscription) -> MessageResponse | None:
    async with database.transaction() as session:
        return await model.find_message(
            session, subscription.owner_id, subscription.agent_id, subscription.message_id
        )


@router.post(
    "/memories",
    status_code=HTTPStatus.CREATED,
    response_model=MemoryResponse,
    responses=problems(HTTPStatus.CONFLICT),
)
async def add_memory(
    access: OwnedAgent, once: Idempotent, body: Annotated[NewMemory, Body()]
) -> Response:
    """Adds a memory, which the next plan takes into account. A repeated memory is stored once."""
    return await once.answer(lambda: model.add_memory(access, body))


router.delete("/memories/{memory_id}", status_code=HTTPStatus.NO_CONTENT)(model.forget_memory)
