"""Streams answers of conversations while they are written, polled from PostgreSQL for all clients
at once.

LISTEN/NOTIFY is not used: it needs another connection, takes a lock at every commit with a
notification, and breaks with poolers and lost connections, so polling would be needed besides. One
query each tenth of a second, and none without clients, is enough. A stream holds no connection.
"""

import asyncio
import re
from collections.abc import AsyncGenerator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final, Self
from uuid import UUID

from sqlalchemy import (
    ARRAY,
    Integer,
    Select,
    Text,
    Uuid,
    bindparam,
    case,
    column,
    func,
    or_,
    select,
)
from sqlalchemy.types import TypeEngine

from services.api.resources.conversation import model as reading
from shared.database.engine import Database
from shared.database.tables import Message, Step
from shared.errors import VigilError
from shared.runtime.background import cancel_and_wait, log_and_continue
from shared.schemas.conversation import ENDED, MessageStatus, Restart, TextPiece, ToolUseResponse

_POSITION: Final = re.compile(r"(\d{1,9})\.(\d{1,9})\.(\d{1,9})")


class BadPositionError(VigilError):
    """The Last-Event-ID is not one of this stream."""


@dataclass(frozen=True)
class StreamPosition:
    """A position in an answer: `offset` characters of `draft`, and the number of tool uses so far.

    It is the id of each event. A client that reconnects with it gets exactly what follows.
    """

    draft: int = 0
    offset: int = 0
    tool_uses: int = 0

    @classmethod
    def read(cls, event_id: str | None) -> Self:
        """Parses an event id; without one, returns the beginning. Raises BadPositionError."""
        if event_id is None:
            return cls()
        match = _POSITION.fullmatch(event_id.strip())
        if match is None:
            raise BadPositionError(
                f"{event_id[:40]!r} is not the id of an event in this stream: omit Last-Event-ID to start from the beginning"
            )
        return cls(*(int(part) for part in match.groups()))

    def __str__(self) -> str:
        return f"{self.draft}.{self.offset}.{self.tool_uses}"


@dataclass(frozen=True)
class AnswerState:
    """An answer as far as it is written."""

    draft: int
    content: str
    tool_uses: tuple[ToolUseResponse, ...]
    status: MessageStatus

    @property
    def has_ended(self) -> bool:
        return self.status in ENDED


@dataclass(frozen=True)
class StreamChunk:
    """One event, with the position after it."""

    place: StreamPosition
    data: ToolUseResponse | Restart | TextPiece


def chunks_after(place: StreamPosition, state: AnswerState) -> Sequence[StreamChunk]:
    """Returns the events of `state` after `place`: nothing twice and nothing left out, whatever states were missed."""
    chunks: list[StreamChunk] = []
    for number, tool_use in enumerate(state.tool_uses[place.tool_uses :], place.tool_uses + 1):
        place = StreamPosition(place.draft, place.offset, number)
        chunks.append(StreamChunk(place, tool_use))
    if state.draft != place.draft:
        had_some = place.offset > 0
        place = StreamPosition(state.draft, 0, place.tool_uses)
        if had_some:
            chunks.append(StreamChunk(place, Restart(draft=state.draft)))
    text = state.content[place.offset :]
    if text:
        piece = TextPiece(draft=state.draft, offset=place.offset, text=text)
        chunks.append(
            StreamChunk(StreamPosition(state.draft, len(state.content), place.tool_uses), piece)
        )
    return chunks


def position_after(
    place: StreamPosition, chunks: Sequence[StreamChunk], state: AnswerState
) -> StreamPosition:
    """Returns the position after `chunks`."""
    return (
        chunks[-1].place if chunks else StreamPosition(state.draft, place.offset, place.tool_uses)
    )


POLL_SECONDS: Final = 0.1
RETRY_SECONDS: Final = 1.0
"""Seconds between two polls while they fail."""
COMPLETE: Final = "complete"
DELETED: Final = "gone"
"""The step does not exist any more."""
UNKNOWN: Final = ""
_PARAMETER_COLUMNS: Final[Mapping[str, TypeEngine[Any]]] = {
    "answer_id": Uuid(),
    "step_id": Uuid(),
    "draft": Integer(),
    "length": Integer(),
    "tool_uses": Integer(),
    "status": Text(),
}
"""The state of each answer at the last poll, one array parameter per column."""


@dataclass
class _Followed:
    step_id: UUID
    followers: int = 0
    state: AnswerState | None = None
    status: str = ""
    """The status at the last poll: that of its step, COMPLETE or DELETED."""
    is_gone: bool = False
    changed: asyncio.Event = field(default_factory=asyncio.Event)

    def notify(self) -> None:
        """Wakes the streams that wait for a change."""
        self.changed.set()
        self.changed = asyncio.Event()


class AnswerStreams:
    """Polls the answers that clients follow.

    One instance per process; without clients it does not poll.
    """

    def __init__(self, database: Database, *, poll_seconds: float = POLL_SECONDS) -> None:
        self._database = database
        self._poll_seconds = poll_seconds
        self._followed: dict[UUID, _Followed] = {}
        self._polling: asyncio.Task[None] | None = None
        self._is_closed = False
        self._has_polled = False
        self._changed = _changed_answers_query()

    async def follow(
        self, answer_id: UUID, step_id: UUID, *, seconds: float
    ) -> AsyncGenerator[AnswerState]:
        """Yields each state of the answer that differs from the last one, until it ends, is
        deleted, or time is up.

        A slow client misses intermediate states, but no text: the next state has all of it.
        """
        deadline = asyncio.get_running_loop().time() + seconds
        followed = self._followed.setdefault(answer_id, _Followed(step_id))
        followed.followers += 1
        self._start_polling()
        last_state: AnswerState | None = None
        try:
            while not (followed.is_gone or self._is_closed):
                change = followed.changed
                if followed.state is None or followed.state == last_state:
                    if not await _status_condition(change, deadline):
                        return
                    continue
                last_state = followed.state
                yield last_state
                if last_state.has_ended:
                    return
        finally:
            followed.followers -= 1
            if not followed.followers:
                self._followed.pop(answer_id, None)

    def stop(self) -> None:
        """Ends every stream; clients reconnect."""
        self._is_closed = True
        for followed in self._followed.values():
            followed.notify()

    async def close(self) -> None:
        self.stop()
        if self._polling is not None:
            await cancel_and_wait(self._polling)

    def _start_polling(self) -> None:
        if self._polling is None or self._polling.done():
            self._polling = asyncio.create_task(self._poll_until_unused())

    async def _poll_until_unused(self) -> None:
        while self._followed:
            self._has_polled = False
            await log_and_continue(self._poll, "answers are looked at again in a second")
            await asyncio.sleep(self._poll_seconds if self._has_polled else RETRY_SECONDS)

    async def _poll(self) -> None:
        followed_answers = dict(self._followed)
        if not followed_answers:
            return
        columns = zip(*(_parameter_values(*item) for item in followed_answers.items()), strict=True)
        parameters = dict(zip(_PARAMETER_COLUMNS, map(list, columns), strict=True))
        async with self._database.transaction() as session:
            row = (await session.execute(self._changed, parameters)).all()
        for answer_id, draft, *columns_of_state in row:
            followed = followed_answers[answer_id]
            if draft is None:
                followed.is_gone = True
            else:
                followed.state = _state(followed, draft, *columns_of_state)
            followed.notify()
        self._has_polled = True


async def _status_condition(event: asyncio.Event, deadline: float) -> bool:
    try:
        async with asyncio.timeout_at(deadline):
            await event.wait()
    except TimeoutError:
        return False
    return True


def _changed_answers_query() -> Select[Any]:
    """Returns the statement for answers that differ from the last poll; deleted ones have no draft.

    Text of earlier polls is not read again. The statement is built once, because building it takes longer than
    running it.
    """
    parameters = [bindparam(name, type_=ARRAY(kind)) for name, kind in _PARAMETER_COLUMNS.items()]
    columns = [column(name, kind) for name, kind in _PARAMETER_COLUMNS.items()]
    previous = func.unnest(*parameters).table_valued(*columns, name="known").render_derived()
    is_complete = Message.completed_at.is_not(None)
    status = func.coalesce(case((is_complete, COMPLETE), else_=reading.step_status()), DELETED)
    length = case((Message.draft == previous.c.draft, previous.c.length), else_=0)
    is_news = or_(
        Message.id.is_(None),
        Message.draft != previous.c.draft,
        func.length(Message.content) != previous.c.length,
        func.jsonb_array_length(Message.tool_uses) != previous.c.tool_uses,
        status != previous.c.status,
    )
    return (
        select(
            previous.c.answer_id,
            Message.draft,
            length,
            func.substr(Message.content, length + 1),
            Message.tool_uses,
            status,
        )
        .select_from(previous)
        .outerjoin(Message, Message.id == previous.c.answer_id)
        .outerjoin(Step, Step.id == previous.c.step_id)
        .where(is_news)
    )


def _parameter_values(
    answer_id: UUID, followed: _Followed
) -> tuple[UUID, UUID, int, int, int, str]:
    state = followed.state
    if state is None:
        return answer_id, followed.step_id, 0, 0, 0, UNKNOWN
    status = followed.status
    return (
        answer_id,
        followed.step_id,
        state.draft,
        len(state.content),
        len(state.tool_uses),
        status,
    )


def _state(
    followed: _Followed,
    draft: int,
    length: int,
    text: str,
    tool_uses: list[dict[str, Any]],
    step_status: str,
) -> AnswerState:
    followed.status = step_status
    beginning = followed.state.content[:length] if followed.state else ""
    step = None if step_status in (COMPLETE, DELETED) else step_status
    status = reading.answer_status(is_complete=step_status == COMPLETE, step=step)
    uses = tuple(ToolUseResponse.model_validate(item) for item in tool_uses)
    return AnswerState(draft, beginning + text, uses, status)
