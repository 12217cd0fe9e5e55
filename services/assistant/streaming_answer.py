"""Writes an answer into its message while the model streams it."""

import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any, Final
from uuid import UUID

from shared.agents import conversations
from shared.database.engine import Database
from shared.errors import TransientError
from shared.llm.messages import ToolCall
from shared.workflow.leases import Lease, LeaseLostError, leased_transaction

Json = dict[str, Any]


@dataclass(frozen=True)
class Draft:
    """Within one number the content is only ever added to, so that whoever has read a part can read on from there."""

    number: int
    content: str
    looked: tuple[Json, ...] = ()
    """What was looked at so far: `{"tool", "about"}` in order. A resumed answer looks at the same again."""

    def saying(self, text: str) -> "Draft":
        """When the answer says `text` so far.

        One that was begun before may catch up with what was said then: it is new only where it says something else.
        """
        if self.content.startswith(text):
            return self
        return self.saying_all(text)

    def saying_all(self, text: str) -> "Draft":
        """When the answer says `text`, and no more."""
        if text.startswith(self.content):
            return replace(self, content=text)
        return replace(self, number=self.number + 1, content=text)

    def looking(self, looks: tuple[Json, ...]) -> "Draft":
        """When `looks` are all that was looked at so far."""
        return replace(self, looked=looks) if len(looks) > len(self.looked) else self


PIECE_SECONDS: Final = 0.1
PIECE_CHARACTERS: Final = 200
"""Written when either has passed since the last time: a commit for each token would be a commit for each word."""
ABOUT_CHARACTERS: Final = 120


class Writer:
    """Hears one answer. What it writes is seen at once by whoever follows; nothing hangs on who does."""

    def __init__(
        self,
        database: Database,
        lease: Lease,
        answer_id: UUID,
        draft: Draft,
        clock: Callable[[], float],
    ) -> None:
        """`draft` is what stands there from an earlier try; `clock` gives seconds."""
        self._database = database
        self._lease = lease
        self._answer_id = answer_id
        self._draft = self._written = draft
        self._clock = clock
        self._written_at = clock()
        self._looks: tuple[dict[str, Any], ...] = ()

    async def hear(self, text: str) -> None:
        """Raises LeaseLostError."""
        self._draft = self._draft.saying(text)
        more = len(self._draft.content) - len(self._written.content)
        late = self._clock() - self._written_at >= PIECE_SECONDS
        if self._draft != self._written and (late or more >= PIECE_CHARACTERS):
            await self._write()

    async def heard(self, text: str, calls: Sequence[ToolCall]) -> None:
        """Words beside calls of tools are no part of the answer: they give way to it when it begins."""
        if calls:
            self._looks += tuple(_look(call) for call in calls)
            self._draft = self._draft.looking(self._looks)
        else:
            self._draft = self._draft.saying_all(text)
        if self._draft != self._written:
            await self._write()

    @property
    def draft(self) -> Draft:
        return self._draft

    async def _write(self) -> None:
        draft = self._draft
        try:
            async with leased_transaction(self._database, self._lease) as session:
                await conversations.write(
                    session,
                    self._answer_id,
                    draft=draft.number,
                    content=draft.content,
                    looked=draft.looked,
                )
        except LeaseLostError:
            raise
        except TransientError:
            # Postgres is away, and the model goes on: what is paid for is not given up for a piece that the next
            # piece, or the end, will bring too.
            return
        self._written, self._written_at = draft, self._clock()


def _look(call: ToolCall) -> dict[str, Any]:
    return {"tool": call.name, "about": _about(call.arguments)[:ABOUT_CHARACTERS]}


def _about(arguments: str) -> str:
    """What a call asks for, in a few words: the first text among its arguments."""
    try:
        given = json.loads(arguments or "{}")
    except (ValueError, RecursionError):
        return ""
    values = given.values() if isinstance(given, dict) else ()
    return next((" ".join(value.split()) for value in values if isinstance(value, str)), "")
