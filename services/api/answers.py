"""Answers that somebody follows, read from Postgres for all of them at once.

Not told by LISTEN/NOTIFY: that would be one more connection, a payload that is no truth, a lock that every commit with a
notice takes, and a way that poolers and lost connections cut, so that one would have to look as well. One look each
tenth of a second, and none while nobody follows, is all there is; a stream holds no connection.
"""

import asyncio
from collections.abc import AsyncGenerator, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any, Final
from uuid import UUID

from sqlalchemy import Integer, Uuid, case, column, func, select, values
from sqlalchemy.ext.asyncio import AsyncSession

from services.api.following import AnswerState
from shared.runtime.rhythm import whatever_happens
from shared.store.database import Database
from shared.store.reading.conversation import status_of
from shared.store.reading.conversation_shapes import LookView
from shared.store.tables import Message, Step

LOOK_SECONDS: Final = 0.1
AWAY_SECONDS: Final = 1.0
"""Between two looks while they fail."""


@dataclass
class _Followed:
    step_id: UUID
    followers: int = 0
    state: AnswerState | None = None
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
            self._looking.cancel()
            with suppress(asyncio.CancelledError):
                await self._looking

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
        async with self._database.transaction() as session:
            found = await _states(session, asked)
        for answer_id, state in found.items():
            followed = asked[answer_id]
            if state is None:
                followed.is_gone = True
            elif state == followed.state:
                continue
            followed.state = state
            followed.tell()
        self._has_looked = True


async def _set_by(event: asyncio.Event, deadline: float) -> bool:
    try:
        async with asyncio.timeout_at(deadline):
            await event.wait()
    except TimeoutError:
        return False
    return True


async def _states(
    session: AsyncSession, asked: Mapping[UUID, _Followed]
) -> dict[UUID, AnswerState | None]:
    """Each answer as it is; None for those that are gone. Of a draft that is known only what is new is read."""
    known = values(
        column("answer_id", Uuid),
        column("step_id", Uuid),
        column("draft", Integer),
        column("length", Integer),
        name="known",
    ).data([_known(answer_id, followed) for answer_id, followed in asked.items()])
    length = case((Message.draft == known.c.draft, known.c.length), else_=0)
    rows = await session.execute(
        select(
            known.c.answer_id,
            Message.draft,
            length,
            func.substr(Message.content, length + 1),
            Message.looked,
            Message.completed_at.is_not(None),
            Step,
        )
        .select_from(known)
        .outerjoin(Message, Message.id == known.c.answer_id)
        .outerjoin(Step, Step.id == known.c.step_id)
    )
    return {
        row[0]: None if row[1] is None else _state(asked[row[0]].state, *row[1:]) for row in rows
    }


def _known(answer_id: UUID, followed: _Followed) -> tuple[UUID, UUID, int, int]:
    state = followed.state
    draft, length = (state.draft, len(state.content)) if state else (0, 0)
    return answer_id, followed.step_id, draft, length


def _state(
    known: AnswerState | None,
    draft: int,
    length: int,
    text: str,
    looked: list[dict[str, Any]],
    is_complete: bool,
    step: Step | None,
) -> AnswerState:
    before = known.content[:length] if known else ""
    status, _ = status_of(is_complete=is_complete, step=step)
    looks = tuple(LookView.model_validate(each) for each in looked)
    return AnswerState(draft, before + text, looks, status)
