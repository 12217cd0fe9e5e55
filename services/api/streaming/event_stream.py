"""The event stream of one SSE client."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Final
from uuid import UUID

from starlette.responses import StreamingResponse
from starlette.types import Message, Send

from services.api.streaming import event_hub
from services.api.streaming.event_hub import RECONNECT_SECONDS, EventHub
from services.api.streaming.event_window import BufferedEvent, Cursor, Gap
from shared.errors import TransientError
from shared.events.stream_reader import StreamPosition, matches
from shared.runtime.logging import logger

KEEP_ALIVE_SECONDS: Final = 15.0
SLOW_CHUNK_SECONDS: Final = 5.0
"""How long a client may take for a chunk when everything that follows has to be read from the stream for it alone."""
REVALIDATION_SECONDS: Final = 30.0
"""The maximum time that a revoked credential keeps its stream."""

STOPPING: Final = (
    "stopping",
    "The API is shutting down: reconnect to continue from your position.",
)
TOO_SLOW: Final = (
    "too_slow",
    "You read events more slowly than they arrive: reconnect to continue from your position.",
)
NOT_ALLOWED: Final = ("not_allowed", "Your credential is no longer valid.")


@dataclass(frozen=True)
class EventFilter:
    """Which events a client may see, and which of these it requests.

    Without patterns: every event.
    """

    owner_id: UUID
    agent_id: UUID | None = None
    patterns: tuple[str, ...] = ()

    def includes(self, event: BufferedEvent) -> bool:
        return (
            event.owner_id == self.owner_id
            and self.agent_id in (None, event.agent_id)
            and (
                not self.patterns
                or any(matches(pattern, event.subject) for pattern in self.patterns)
            )
        )


StartAt = StreamPosition | datetime | None
"""After that position, since that moment, or from now on."""


class Listener:
    """One SSE client. `still_allowed` is checked at intervals; its TransientError is ignored."""

    def __init__(
        self,
        hub: EventHub,
        event_filter: EventFilter,
        begin: StartAt,
        still_allowed: Callable[[], Awaitable[bool]],
    ) -> None:
        self._hub = hub
        self._filter = event_filter
        self._from = begin
        self._still_allowed = still_allowed
        self._cursor: Cursor | None = None
        self._is_too_slow = False
        self._checked_at = self._now()
        self._sent_at = self._now()

    async def frames(self) -> AsyncIterator[bytes]:
        """Yields frames until the client is disconnected; the last frame says why."""
        yield event_hub.OPENING
        while (why := await self._end()) is None:
            news = self._hub.news  # read before the events, so that no change is missed
            frames = await self._look()
            if frames:
                self._sent_at = self._now()
                yield frames
                self._is_too_slow = self._was_slow()
            elif frames is None:
                await self._hub.wait_for(news, self._patience())
            if self._now() - self._sent_at >= KEEP_ALIVE_SECONDS:
                self._sent_at = self._now()
                yield event_hub.KEEP_ALIVE
        yield event_hub.end_frame(*why)

    async def _end(self) -> tuple[str, str] | None:
        """Returns why the stream ends, as a word and a sentence."""
        if self._hub.stopping:
            return STOPPING
        if self._is_too_slow:
            return TOO_SLOW
        if self._now() - self._checked_at >= REVALIDATION_SECONDS:
            self._checked_at = self._now()
            try:
                if not await self._still_allowed():
                    return NOT_ALLOWED
            except TransientError:
                return None  # the check is not possible now
        return None

    def _was_slow(self) -> bool:
        """Returns whether the client was too slow with its last chunk."""
        took_seconds = self._now() - self._sent_at
        is_left_behind = self._cursor is not None and self._cursor.is_before(self._hub.window)
        return is_left_behind and took_seconds > SLOW_CHUNK_SECONDS

    def _patience(self) -> float:
        """Returns the seconds until something has to be done though no event arrived."""
        if self._cursor is None or self._cursor.is_before(self._hub.window):
            return RECONNECT_SECONDS
        keep_alive = self._sent_at + KEEP_ALIVE_SECONDS
        check_again = self._checked_at + REVALIDATION_SECONDS
        return max(0.0, min(keep_alive, check_again) - self._now())

    async def _look(self) -> bytes | None:
        """Returns the next frames, which may be empty after filtering; None where there are no new events."""
        try:
            if self._cursor is None:
                return await self._take_place()
            match self._cursor.look(self._hub.window):
                case Gap() as gap:
                    return event_hub.gap_frame(gap)
                case None:
                    return await self._read_back(self._cursor)
                case events:
                    return await self._of_window(events)
        except TransientError:
            return None  # NATS or PostgreSQL is unavailable; the listener stays connected

    async def _of_window(self, events: Sequence[BufferedEvent]) -> bytes | None:
        if not events:
            return None
        await asyncio.sleep(
            0
        )  # skipping events of other listeners never waits, and there can be many
        return self._joined(events)

    async def _read_back(self, cursor: Cursor) -> bytes | None:
        past = await self._hub.read_back(cursor.sequence)
        if past is None:
            # The stream is empty, unless the responding server lags behind: the first sequence is
            # certain.
            before_first = min((await self._hub.stream_state()).first - 1, self._hub.window.after)
            gap = cursor.read(before_first + 1, before_first)
            return event_hub.gap_frame(gap) if gap else None
        # No further than the buffer, which notices if NATS loses events.
        end = self._hub.window.last
        gap = cursor.read(past.first, max(past.first - 1, min(past.last, end)))
        events = [event for event in past.events if event.sequence <= end]
        return (event_hub.gap_frame(gap) if gap else b"") + self._joined(events)

    async def _take_place(self) -> bytes | None:
        """Returns the frames that follow from the position; None while it cannot be determined yet."""
        window = self._hub.window
        if not window.stream or (self._from is None and not self._hub.is_live):
            return None
        match self._from:
            case None:
                self._cursor = Cursor(window.last, window.stream)
                return event_hub.position_frame(self._hub.end)
            case StreamPosition() as position:
                return await self._take_place_at(position)
            case moment:
                sequence = await self._hub.last_before(moment)
                if sequence > window.last:
                    return None  # no listener is ahead of the buffer
                self._cursor = Cursor(sequence, window.stream)
                return event_hub.position_frame(StreamPosition(sequence))

    async def _take_place_at(self, position: StreamPosition) -> bytes | None:
        """Returns None until the buffer has come to the position.

        A position beyond the end of the stream, or older than the stream, belongs to another stream.
        """
        window = self._hub.window
        stream = window.stream
        buffered = window.at(position.sequence)
        if position.sequence <= window.last and (
            position.stored_at is None or (buffered is not None and position.is_at(buffered))
        ):
            self._cursor = Cursor(position.sequence, stream)
            return b""
        state = await self._hub.stream_state()
        if state.last < window.last:
            return None  # the buffer does not know yet that NATS has lost events
        sequence = await self._hub.find(position, state)
        is_older = position.stored_at is not None and position.stored_at < state.made_at
        if sequence <= state.last and not is_older:
            if sequence > window.last:
                return None
            self._cursor = Cursor(sequence, stream)
            return b""
        self._cursor = Cursor(state.first - 1, stream)
        return event_hub.gap_frame(
            Gap("stream_made_anew", position.sequence + 1, None, state.first - 1)
        )

    def _joined(self, events: Sequence[BufferedEvent]) -> bytes:
        return b"".join(item.frame for item in events if self._filter.includes(item))

    def _now(self) -> float:
        return asyncio.get_running_loop().time()


STALLED_CHUNK_SECONDS: Final = 30.0
"""How long a client may take for a chunk before it is disconnected."""
HEADERS: Final = {"Cache-Control": "no-store", "X-Accel-Buffering": "no"}
"""Proxies must neither buffer nor cache events."""

log = logger(__name__)


class EventStream(StreamingResponse):
    """The Server-Sent Events response of one client."""

    media_type = "text/event-stream"

    def __init__(self, listener: Listener) -> None:
        super().__init__(listener.frames(), headers=HEADERS)

    async def stream_response(self, send: Send) -> None:
        async def send_in_time(message: Message) -> None:
            async with asyncio.timeout(STALLED_CHUNK_SECONDS):
                await send(message)

        try:
            await super().stream_response(send_in_time)
        except TimeoutError:
            log.warning(
                "disconnecting an event listener that does not read", seconds=STALLED_CHUNK_SECONDS
            )
