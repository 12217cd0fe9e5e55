"""Talking with an agent: what was said, a question, and its answer while it is written."""

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
from services.api.commands.conversations import NewMessage, UnprocessableError
from services.api.http.dependencies import Afterwards, Page, Paging
from services.api.http.idempotency import AskedOnce
from services.api.http.problem_details import ConflictError, problems
from services.api.queries import conversation as reading
from services.api.streaming.answer_stream import Answers, BadPlaceError, Piece, Place, after, pieces
from shared import derived_events
from shared.database.engine import Database
from shared.enums import StepStatus
from shared.schemas.conversation import LookView, MessageView, Restart, TextPiece, TurnView

router = APIRouter(prefix="/agents/{agent}/conversation", tags=["conversation"])

STREAM_SECONDS: Final = 60.0
"""A stream ends after so long; who comes back is asked again who he is, and goes on where he was."""
COME_BACK_MILLISECONDS: Final = 500
_NAMES: Final = {LookView: "tool", Restart: "restart", TextPiece: "text"}


@router.get("/messages")
async def list_messages(access: OwnedAgent, paging: Paging) -> Page[MessageView]:
    """The newest first: questions, answers as far as they have come, and advice."""
    return await reading.messages(access.session, access.owner_id, access.agent.id, paging)


@router.post(
    "/messages",
    status_code=HTTPStatus.CREATED,
    response_model=TurnView,
    responses=problems(HTTPStatus.CONFLICT),
)
async def send_message(
    access: OwnedAgent,
    once: AskedOnce,
    wanted: Annotated[NewMessage, Body()],
    afterwards: Afterwards,
) -> Response:
    """The question, and the answer that is to come; follow it by its `stream`.

    It is made whether anybody follows or not. Answers of one conversation are made one after another, in order.
    """

    async def make() -> TurnView:
        turn, step = await conversations.ask(access, wanted.content)
        if step.status == StepStatus.PENDING:
            afterwards.tell(derived_events.order(step))
        return turn

    return await once.answer(make)


@router.get("/messages/{message_id}")
async def show_message(access: OwnedAgent, message_id: UUID) -> MessageView:
    return await conversations.found(access, message_id)


@router.post(
    "/messages/{message_id}/retry",
    status_code=HTTPStatus.ACCEPTED,
    responses=problems(HTTPStatus.CONFLICT),
)
async def retry_message(access: OwnedAgent, message_id: UUID) -> MessageView:
    """Has a failed answer tried again; it may take a second to begin. Asking twice asks for one."""
    return await conversations.ask_again(access, message_id)


@dataclass(frozen=True)
class Following:
    """Who follows which answer, and from where on."""

    owner_id: UUID
    agent_id: UUID
    message_id: UUID
    step_id: UUID
    place: Place


async def _following(
    access: OwnedAgent,
    message_id: UUID,
    last_event_id: Annotated[
        str | None, Header(description="The id of the last event that was read")
    ] = None,
) -> Following:
    message = await conversations.found(access, message_id)
    if message.kind != "answer" or message.turn is None:
        raise ConflictError(
            "not-an-answer", f"This {message.kind} is complete: only answers come as a stream."
        )
    try:
        place = Place.read(last_event_id or None)
    except BadPlaceError as error:
        raise UnprocessableError("bad-event-id", f"{error}.") from error
    step_id = reading.step_of(access.agent.id, message.turn)
    return Following(access.owner_id, access.agent.id, message_id, step_id, place)


@router.get(
    "/messages/{message_id}/stream",
    response_class=EventSourceResponse,
    responses=problems(HTTPStatus.CONFLICT),
)
async def stream_message(
    request: Request, following: Annotated[Following, Depends(_following, scope="function")]
) -> AsyncIterator[ServerSentEvent]:
    """An answer while it is written, as Server-Sent Events; afterwards the whole of it at once.

    `text` (a piece, with its offset), `restart` (it is begun anew: forget what you have), `tool` (what the agent looks
    at), and at the end `complete` or `failed` with the message. Come back with `Last-Event-ID` to go on where you were.
    """
    answers: Answers = request.app.state.answers
    database: Database = request.app.state.database
    place = following.place
    yield ServerSentEvent(comment="following", retry=COME_BACK_MILLISECONDS)
    states = answers.follow(following.message_id, following.step_id, seconds=STREAM_SECONDS)
    async with aclosing(states):
        async for state in states:
            found = pieces(place, state)
            for piece in found:
                yield _event(piece)
            place = after(place, found, state)
            if not state.has_ended:
                continue
            message = await _message(database, following)
            if message is not None:
                yield ServerSentEvent(data=message, event=state.status, id=str(place))


def _event(piece: Piece) -> ServerSentEvent:
    return ServerSentEvent(data=piece.what, event=_NAMES[type(piece.what)], id=str(piece.place))


async def _message(database: Database, following: Following) -> MessageView | None:
    async with database.transaction() as session:
        return await reading.find(
            session, following.owner_id, following.agent_id, following.message_id
        )
