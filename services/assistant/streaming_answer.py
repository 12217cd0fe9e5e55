"""Streams an answer into its message row while the model generates it."""

import json
import re
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
    """The text of an answer so far.

    Within one `number` the content only grows, so clients can continue at an offset.
    """

    number: int
    content: str
    tool_uses: tuple[Json, ...] = ()
    """The tool uses so far, as `{"tool", "about"}` in order. A resumed answer repeats them."""

    def with_beginning(self, text: str) -> "Draft":
        """Returns the draft for an answer that begins with `text`.

        A resumed answer may repeat what is there already; it starts a new draft only where it
        differs.
        """
        if self.content.startswith(text):
            return self
        return self.with_text(text)

    def with_text(self, text: str) -> "Draft":
        """Returns the draft for an answer that is exactly `text`."""
        if text.startswith(self.content):
            return replace(self, content=text)
        return replace(self, number=self.number + 1, content=text)

    def with_tool_uses(self, looks: tuple[Json, ...]) -> "Draft":
        """Returns the draft with all tool uses so far."""
        return replace(self, tool_uses=looks) if len(looks) > len(self.tool_uses) else self


FLUSH_SECONDS: Final = 0.1
FLUSH_CHARS: Final = 200
"""The draft is written when either limit is reached, since a commit per token would be too many."""
MAX_ABOUT_CHARS: Final = 120
_UNFINISHED: Final = re.compile(r"\[[\snode:g0-9,;]*\Z")
"""The beginning of a citation such as `[n17, e4]` or `[node:n17]`."""


class AnswerWriter:
    """Stream listener of one answer.

    Every write is visible to clients at once; the answer does not depend on them.
    """

    def __init__(
        self,
        database: Database,
        lease: Lease,
        answer_id: UUID,
        draft: Draft,
        clock: Callable[[], float],
        expand: Callable[[str], str] = str,
    ) -> None:
        """`draft` is the one of an earlier attempt; `clock` returns seconds; `expand` makes citations of short ids."""
        self._database = database
        self._lease = lease
        self._answer_id = answer_id
        self._draft = self._stored = draft
        self._clock = clock
        self._expand = expand
        self._stored_at = clock()
        self._looks: tuple[dict[str, Any], ...] = ()

    async def on_delta(self, text: str) -> None:
        """Raises LeaseLostError."""
        # A citation that has started may still be expanded, and a draft only grows.
        self._draft = self._draft.with_beginning(self._expand(_UNFINISHED.sub("", text)))
        more = len(self._draft.content) - len(self._stored.content)
        late = self._clock() - self._stored_at >= FLUSH_SECONDS
        if self._draft != self._stored and (late or more >= FLUSH_CHARS):
            await self._write()

    async def on_message(self, text: str, calls: Sequence[ToolCall]) -> None:
        """Text next to tool calls is no part of the answer: the answer replaces it."""
        if calls:
            self._looks += tuple(_tool_use(call) for call in calls)
            self._draft = self._draft.with_tool_uses(self._looks)
        else:
            self._draft = self._draft.with_text(self._expand(text))
        if self._draft != self._stored:
            await self._write()

    @property
    def draft(self) -> Draft:
        return self._draft

    async def _write(self) -> None:
        draft = self._draft
        try:
            async with leased_transaction(self._database, self._lease) as transaction:
                await conversations.store_partial_answer(
                    transaction,
                    self._answer_id,
                    draft=draft.number,
                    content=draft.content,
                    tool_uses=draft.tool_uses,
                )
        except LeaseLostError:
            raise
        except TransientError:
            # PostgreSQL is unavailable while the model goes on. The paid answer continues, because
            # the next write contains this text too.
            return
        self._stored, self._stored_at = draft, self._clock()


def _tool_use(call: ToolCall) -> dict[str, Any]:
    return {"tool": call.name, "about": _subject(call.arguments)[:MAX_ABOUT_CHARS]}


def _subject(arguments: str) -> str:
    """Returns the subject of a tool call: the first text among its arguments."""
    try:
        parsed = json.loads(arguments or "{}")
    except (ValueError, RecursionError):
        return ""
    values = parsed.values() if isinstance(parsed, dict) else ()
    return next((" ".join(value.split()) for value in values if isinstance(value, str)), "")
