"""Answers in conversations, streamed while they are written; read from PostgreSQL for all listeners at once.

Not told by LISTEN/NOTIFY: that would be one more connection, a payload that is no truth, a lock that every commit with a
notice takes, and a way that poolers and lost connections cut, so that one would have to look as well. One look each
tenth of a second, and none while nobody follows, is all there is; a stream holds no connection.
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

from services.api.queries import conversation as reading
from shared.database.engine import Database
from shared.database.tables import Message, Step
from shared.errors import VigilError
from shared.runtime.background import end, whatever_happens
from shared.schemas.conversation import ENDED, LookView, MessageStatus, Restart, TextPiece

_PLACE: Final = re.compile(r"(\d{1,9})\.(\d{1,9})\.(\d{1,9})")


class BadPlaceError(VigilError):
    """What was given as the last event's id is none of this stream."""


@dataclass(frozen=True)
class Place:
    """How much of an answer somebody has: `offset` characters of `draft`, and what was looked at so far.

    It is the id of each event: whoever comes back with it gets exactly what follows.
    """

    draft: int = 0
    offset: int = 0
    looked: int = 0

    @classmethod
    def read(cls, event_id: str | None) -> Self:
        """Raises BadPlaceError. Without an id it is the beginning."""
        if event_id is None:
            return cls()
        match = _PLACE.fullmatch(event_id.strip())
        if match is None:
            raise BadPlaceError(
                f"{event_id[:40]!r} is no id of an event of this stream: leave Last-Event-ID out to begin anew"
            )
        return cls(*(int(part) for part in match.groups()))

    def __str__(self) -> str:
        return f"{self.draft}.{self.offset}.{self.looked}"


@dataclass(frozen=True)
class AnswerState:
    """An answer as far as it has come."""

    draft: int
    content: str
    looked: tuple[LookView, ...]
    status: MessageStatus

    @property
    def has_ended(self) -> bool:
        return self.status in ENDED


@dataclass(frozen=True)
class Piece:
    """One event: where who has read it stands, and what it says."""

    place: Place
    what: LookView | Restart | TextPiece


def pieces(place: Place, state: AnswerState) -> Sequence[Piece]:
    """What `state` has beyond `place`. None of it twice, nothing left out, whatever was missed in between."""
    found: list[Piece] = []
    for number, look in enumerate(state.looked[place.looked :], place.looked + 1):
        place = Place(place.draft, place.offset, number)
        found.append(Piece(place, look))
    if state.draft != place.draft:
        had_some = place.offset > 0
        place = Place(state.draft, 0, place.looked)
        if had_some:
            found.append(Piece(place, Restart(draft=state.draft)))
    text = state.content[place.offset :]
    if text:
        said = TextPiece(draft=state.draft, offset=place.offset, text=text)
        found.append(Piece(Place(state.draft, len(state.content), place.looked), said))
    return found


def after(place: Place, found: Sequence[Piece], state: AnswerState) -> Place:
    """Where somebody stands who has read `found`."""
    return found[-1].place if found else Place(state.draft, place.offset, place.looked)


LOOK_SECONDS: Final = 0.1
AWAY_SECONDS: Final = 1.0
"""Between two looks while they fail."""
COMPLETE: Final = "complete"
GONE: Final = "gone"
"""There is no step any more."""
UNKNOWN: Final = ""
_KNOWN: Final[Mapping[str, TypeEngine[Any]]] = {
    "answer_id": Uuid(),
    "step_id": Uuid(),
    "draft": Integer(),
    "length": Integer(),
    "looked": Integer(),
    "stands": Text(),
}
"""What was read of each answer before, column by column."""


@dataclass
class _Followed:
    step_id: UUID
    followers: int = 0
    state: AnswerState | None = None
    stands: str = ""
    """How it stood at the last look: the standing of its step, COMPLETE or GONE."""
    is_gone: bool = False
    changed: asyncio.Event = field(default_factory=asyncio.Event)

    def tell(self) -> None:
        """Wakes whoever waits for news."""
        self.changed.set()
        self.changed = asyncio.Event()


class Answers:
    """One for the process. Looks only while somebody follows."""

    def __init__(self, database: Database, *, look_seconds: float = LOOK_SECONDS) -> None:
        self._database = database
        self._look_seconds = look_seconds
        self._followed: dict[UUID, _Followed] = {}
        self._looking: asyncio.Task[None] | None = None
        self._is_closed = False
        self._has_looked = False
        self._changed = _changed()

    async def follow(
        self, answer_id: UUID, step_id: UUID, *, seconds: float
    ) -> AsyncGenerator[AnswerState]:
        """Each state of the answer that differs from the one before, until it has ended, is deleted, or time is up.

        Who is slow misses states in between, and no text: the next one has it all.
        """
        deadline = asyncio.get_running_loop().time() + seconds
        followed = self._followed.setdefault(answer_id, _Followed(step_id))
        followed.followers += 1
        self._look_now()
        told: AnswerState | None = None
        try:
            while not (followed.is_gone or self._is_closed):
                changed = followed.changed
                if followed.state is None or followed.state == told:
                    if not await _set_by(changed, deadline):
                        return
                    continue
                told = followed.state
                yield told
                if told.has_ended:
                    return
        finally:
            followed.followers -= 1
            if not followed.followers:
                self._followed.pop(answer_id, None)

    def stop(self) -> None:
        """Ends every stream; who comes back goes on."""
        self._is_closed = True
        for followed in self._followed.values():
            followed.tell()

    async def close(self) -> None:
        self.stop()
        if self._looking is not None:
            await end(self._looking)

    def _look_now(self) -> None:
        if self._looking is None or self._looking.done():
            self._looking = asyncio.create_task(self._look_for_ever())

    async def _look_for_ever(self) -> None:
        while self._followed:
            self._has_looked = False
            await whatever_happens(self._look, "answers are looked at again in a second")
            await asyncio.sleep(self._look_seconds if self._has_looked else AWAY_SECONDS)

    async def _look(self) -> None:
        asked = dict(self._followed)
        if not asked:
            return
        known = zip(*(_known(*each) for each in asked.items()), strict=True)
        given = dict(zip(_KNOWN, map(list, known), strict=True))
        async with self._database.transaction() as session:
            found = (await session.execute(self._changed, given)).all()
        for answer_id, draft, *rest in found:
            followed = asked[answer_id]
            if draft is None:
                followed.is_gone = True
            else:
                followed.state = _state(followed, draft, *rest)
            followed.tell()
        self._has_looked = True


async def _set_by(event: asyncio.Event, deadline: float) -> bool:
    try:
        async with asyncio.timeout_at(deadline):
            await event.wait()
    except TimeoutError:
        return False
    return True


def _changed() -> Select[Any]:
    """The answers that are not as they are known, without a draft where they are gone. Text that is known is not read
    again. Made once: to make it takes longer than to ask it.
    """
    given = [bindparam(name, type_=ARRAY(kind)) for name, kind in _KNOWN.items()]
    columns = [column(name, kind) for name, kind in _KNOWN.items()]
    known = func.unnest(*given).table_valued(*columns, name="known").render_derived()
    is_complete = Message.completed_at.is_not(None)
    stands = func.coalesce(case((is_complete, COMPLETE), else_=reading.standing()), GONE)
    length = case((Message.draft == known.c.draft, known.c.length), else_=0)
    is_news = or_(
        Message.id.is_(None),
        Message.draft != known.c.draft,
        func.length(Message.content) != known.c.length,
        func.jsonb_array_length(Message.looked) != known.c.looked,
        stands != known.c.stands,
    )
    return (
        select(
            known.c.answer_id,
            Message.draft,
            length,
            func.substr(Message.content, length + 1),
            Message.looked,
            stands,
        )
        .select_from(known)
        .outerjoin(Message, Message.id == known.c.answer_id)
        .outerjoin(Step, Step.id == known.c.step_id)
        .where(is_news)
    )


def _known(answer_id: UUID, followed: _Followed) -> tuple[UUID, UUID, int, int, int, str]:
    state = followed.state
    if state is None:
        return answer_id, followed.step_id, 0, 0, 0, UNKNOWN
    standing = followed.stands
    return answer_id, followed.step_id, state.draft, len(state.content), len(state.looked), standing


def _state(
    followed: _Followed,
    draft: int,
    length: int,
    text: str,
    looked: list[dict[str, Any]],
    stands: str,
) -> AnswerState:
    followed.stands = stands
    before = followed.state.content[:length] if followed.state else ""
    step = None if stands in (COMPLETE, GONE) else stands
    status = reading.status_of(is_complete=stands == COMPLETE, step=step)
    looks = tuple(LookView.model_validate(each) for each in looked)
    return AnswerState(draft, before + text, looks, status)
