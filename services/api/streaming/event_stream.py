"""The stream of events to one listener (SSE)."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Final
from uuid import UUID

from starlette.responses import StreamingResponse
from starlette.types import Message, Receive, Scope, Send

from services.api.streaming import event_hub
from services.api.streaming.event_hub import LOOK_AGAIN_SECONDS, Hub
from services.api.streaming.event_window import Cursor, Gap, Heard
from shared.errors import TransientError
from shared.events.stream_reader import matches
from shared.runtime.logging import logger

KEEP_ALIVE_SECONDS: Final = 15.0
TAKES_SLOWLY_SECONDS: Final = 5.0
"""How long a listener may let one chunk wait, when all that comes next has to be read from the stream for it alone."""
CHECK_AGAIN_SECONDS: Final = 30.0
"""How long a credential that is no more keeps a stream, at most."""

STOPPING: Final = ("stopping", "Vigil's api is being stopped: come again, and go on where you are.")
TOO_SLOW: Final = (
    "too_slow",
    "You take events more slowly than they come: come again, and go on where you are.",
)
NOT_ALLOWED: Final = ("not_allowed", "The credential that you came in with is no longer good.")


@dataclass(frozen=True)
class Wanted:
    """What one listener may see, and of that, what it asks for. No pattern: every event."""

    owner_id: UUID
    agent_id: UUID | None = None
    patterns: tuple[str, ...] = ()

    def includes(self, heard: Heard) -> bool:
        return (
            heard.owner_id == self.owner_id
            and self.agent_id in (None, heard.agent_id)
            and (not self.patterns or any(matches(each, heard.subject) for each in self.patterns))
        )


From = int | datetime | None
"""Behind that sequence, since that moment, or live from now."""


class Listener:
    """`still_allowed` is asked now and then; its TransientError changes nothing."""

    def __init__(
        self, hub: Hub, wanted: Wanted, begin: From, still_allowed: Callable[[], Awaitable[bool]]
    ) -> None:
        self._hub = hub
        self._wanted = wanted
        self._from = begin
        self._still_allowed = still_allowed
        self._cursor: Cursor | None = None
        self._is_too_slow = False
        self._checked_at = self._now()
        self._sent_at = self._now()

    async def frames(self) -> AsyncIterator[bytes]:
        """For ever, unless the listener is cut off; then the last frame says why."""
        yield event_hub.OPENING
        while (why := await self._end()) is None:
            news = self._hub.news  # before the look: what comes after it is heard
            found = await self._look()
            if found:
                self._sent_at = self._now()
                yield found
                self._is_too_slow = self._was_slow()
            elif found is None:
                await self._hub.hear(news, self._patience())
            if self._now() - self._sent_at >= KEEP_ALIVE_SECONDS:
                self._sent_at = self._now()
                yield event_hub.KEEP_ALIVE
        yield event_hub.end(*why)

    async def _end(self) -> tuple[str, str] | None:
        """Why it is cut off, as a word and a sentence."""
        if self._hub.stopping:
            return STOPPING
        if self._is_too_slow:
            return TOO_SLOW
        if self._now() - self._checked_at >= CHECK_AGAIN_SECONDS:
            self._checked_at = self._now()
            try:
                if not await self._still_allowed():
                    return NOT_ALLOWED
            except TransientError:
                return None  # whoever would have to say so is away
        return None

    def _was_slow(self) -> bool:
        """With the chunk that it has just taken."""
        took_seconds = self._now() - self._sent_at
        is_left_behind = self._cursor is not None and self._cursor.is_before(self._hub.window)
        return is_left_behind and took_seconds > TAKES_SLOWLY_SECONDS

    def _patience(self) -> float:
        """Seconds until something is to be done though nothing has happened."""
        if self._cursor is None or self._cursor.is_before(self._hub.window):
            return LOOK_AGAIN_SECONDS
        keep_alive = self._sent_at + KEEP_ALIVE_SECONDS
        check_again = self._checked_at + CHECK_AGAIN_SECONDS
        return max(0.0, min(keep_alive, check_again) - self._now())

    async def _look(self) -> bytes | None:
        """What is to be sent next, which may be nothing of all that was found; None where nothing was."""
        try:
            if self._cursor is None:
                return await self._take_place()
            match self._cursor.look(self._hub.window):
                case Gap() as gap:
                    return event_hub.gap(gap)
                case None:
                    return await self._read_back(self._cursor)
                case heard:
                    return await self._of_window(heard)
        except TransientError:
            return None  # NATS or Postgres is away; the listener is kept

    async def _of_window(self, heard: Sequence[Heard]) -> bytes | None:
        if not heard:
            return None
        await asyncio.sleep(
            0
        )  # what is not for this listener is passed by without a wait, and may be much
        return self._joined(heard)

    async def _read_back(self, cursor: Cursor) -> bytes | None:
        past = await self._hub.read_back(cursor.sequence)
        if past is None:
            # Nothing is left, unless whoever answered lags behind: where the stream begins is known for certain.
            before_first = min((await self._hub.held()).first - 1, self._hub.window.after)
            gap = cursor.read(before_first + 1, before_first)
            return event_hub.gap(gap) if gap else None
        gap = cursor.read(past.first, past.last)
        return (event_hub.gap(gap) if gap else b"") + self._joined(past.heard)

    async def _take_place(self) -> bytes | None:
        """None where it is not known yet what is new, or where anything stands."""
        window = self._hub.window
        if not window.stream or (self._from is None and not self._hub.is_live):
            return None
        match self._from:
            case None:
                self._cursor = Cursor(window.last, window.stream)
                return event_hub.place(window.last)
            case int() as sequence if sequence <= window.last:
                self._cursor = Cursor(sequence, window.stream)
                return b""
            case int() as sequence:
                return await self._take_place_ahead(sequence)
            case moment:
                before = await self._hub.last_before(moment)
                self._cursor = Cursor(before, window.stream)
                return event_hub.place(before)

    async def _take_place_ahead(self, sequence: int) -> bytes:
        """Of the window; if it is ahead of the stream too, it was told by another stream."""
        held = await self._hub.held()
        stream = self._hub.window.stream
        if sequence <= held.last:
            self._cursor = Cursor(sequence, stream)
            return b""
        self._cursor = Cursor(held.first - 1, stream)
        return event_hub.gap(Gap("stream_made_anew", sequence + 1, None, held.first - 1))

    def _joined(self, heard: Sequence[Heard]) -> bytes:
        return b"".join(each.frame for each in heard if self._wanted.includes(each))

    def _now(self) -> float:
        return asyncio.get_running_loop().time()


TAKES_NOTHING_SECONDS: Final = 30.0
"""How long a listener may let a chunk wait before it is cut off."""
HEADERS: Final = {"Cache-Control": "no-store", "X-Accel-Buffering": "no"}
"""No proxy may keep events back, or keep them at all."""

log = logger(__name__)


class EventStream(StreamingResponse):
    """Server-Sent Events of one listener, who counts among the hub's as long as they are sent."""

    media_type = "text/event-stream"

    def __init__(self, hub: Hub, listener: Listener) -> None:
        super().__init__(listener.frames(), headers=HEADERS)
        self._hub = hub

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        self._hub.listeners += 1
        try:
            await super().__call__(scope, receive, send)
        finally:
            self._hub.listeners -= 1

    async def stream_response(self, send: Send) -> None:
        async def send_in_time(message: Message) -> None:
            async with asyncio.timeout(TAKES_NOTHING_SECONDS):
                await send(message)

        try:
            await super().stream_response(send_in_time)
        except TimeoutError:
            log.warning("a listener takes nothing, and is cut off", seconds=TAKES_NOTHING_SECONDS)
