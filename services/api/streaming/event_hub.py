"""The event hub: one reader of the event stream in this process, for all SSE clients."""

import asyncio
import json
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import aclosing, contextmanager, suppress
from dataclasses import dataclass
from datetime import datetime
from itertools import islice
from typing import Any, Final
from uuid import UUID

from fastapi.sse import KEEPALIVE_COMMENT, format_sse_event

from services.api.http.problem_details import TooManyError
from services.api.streaming.event_window import (
    CHUNK_BYTES,
    CHUNK_EVENTS,
    BufferedEvent,
    Gap,
    ReplayBuffer,
)
from shared.database.engine import Database
from shared.database.statements import CompiledStatement, uuid_array
from shared.errors import TransientError
from shared.events.credentials import Credentials
from shared.events.stream_admin import Queue
from shared.events.stream_reader import (
    StoredEvent,
    StreamHistory,
    StreamPosition,
    StreamState,
    connect_reader,
    read_batches,
    start_at_sequence,
)
from shared.events.topology import STREAM
from shared.runtime.background import log_and_continue
from shared.runtime.logging import logger

MAX_CACHED_OWNERS: Final = 50_000
_OWNERS: Final = CompiledStatement(
    "select id, owner_id from agents where id = any(cast(:ids as uuid[]))"
)


class OwnerCache:
    """Caches the owners of agents. An agent never changes its owner, and ids are never reused."""

    def __init__(self, database: Database) -> None:
        self._database = database
        self._cache: dict[UUID, UUID] = {}

    async def of(self, agent_ids: Iterable[UUID]) -> dict[UUID, UUID]:
        """Returns agent id to owner id, without deleted agents.

        Raises TransientError while PostgreSQL is unavailable.
        """
        unique_ids = set(agent_ids)
        owners = {agent_id: self._cache[agent_id] for agent_id in unique_ids & self._cache.keys()}
        if unknown := unique_ids - owners.keys():
            async with self._database.transaction() as session:
                rows = await _OWNERS.rows(session, {"ids": uuid_array(unknown)})
                owners |= (looked_up := {row.id: row.owner_id for row in rows})
            self._remember(looked_up)
        return owners

    def _remember(self, owners: dict[UUID, UUID]) -> None:
        self._cache |= owners
        for oldest in list(islice(self._cache, max(0, len(self._cache) - MAX_CACHED_OWNERS))):
            del self._cache[oldest]


RETRY_MILLISECONDS: Final = 1000
"""When a disconnected client should reconnect."""
END: Final = "end"
KEEP_ALIVE: Final = KEEPALIVE_COMMENT
OPENING: Final = format_sse_event(comment="vigil", retry=RETRY_MILLISECONDS)


def event_frame(event: StoredEvent) -> bytes:
    """Encodes a stored event as an SSE frame: its position, its name, and its JSON."""
    data = event.payload.decode(errors="replace")
    return format_sse_event(id=str(event.position), event=event.subject, data_str=data)


def position_frame(position: StreamPosition) -> bytes:
    """Encodes a client's position before its first event, so that it can reconnect there.

    Clients see no event.
    """
    return format_sse_event(id=str(position))


def end_frame(why: str, detail: str) -> bytes:
    return format_sse_event(event=END, data_str=json.dumps({"why": why, "detail": detail}))


RECONNECT_SECONDS: Final = 0.5
MAX_READING_BACK: Final = 4
"""Clients that read from the stream itself at the same time; others wait for their turn, one chunk each."""

log = logger(__name__)


@dataclass(frozen=True)
class StreamChunk:
    """A chunk of the stream; `events` are those that have an owner."""

    first: int
    last: int
    events: Sequence[BufferedEvent]


BUSY_SECONDS: Final = 15.0
"""Time after which a user with too many streams may try again."""


class EventHub:
    """Follows the stream while `run` runs, reconnecting to NATS and PostgreSQL, and wakes the listeners."""

    def __init__(
        self,
        url: str,
        credentials: Credentials,
        owners: OwnerCache,
        window: ReplayBuffer,
        max_listeners: int,
        max_listeners_per_user: int,
        on_events: Callable[[], None] = lambda: None,
    ) -> None:
        """`on_events` is called when events have arrived."""
        self._on_events = on_events
        self.window = window
        self.max_listeners = max_listeners
        self._max_listeners_per_user = max_listeners_per_user
        self._listeners_by_user: Counter[UUID] = Counter()
        self.is_live = False
        """Whether the buffer has reached the stream's end once, so that new events can be told from old ones."""
        self.stopping = False
        self.news = asyncio.Event()
        """Set at the next change, and then replaced."""
        self._url = url
        self._credentials = credentials
        self._owners = owners
        self._history: StreamHistory | None = None
        self._made_at: datetime | None = None
        self._newest: StoredEvent | None = None
        """The newest event that was read of the stream."""
        self._logged_outage: str | None = None
        self._reading_back = asyncio.Semaphore(MAX_READING_BACK)

    @property
    def listeners(self) -> int:
        """The number of open streams of events and answers."""
        return self._listeners_by_user.total()

    @contextmanager
    def listening(self, user_id: UUID) -> Iterator[None]:
        """Counts a stream of the user while it is open.

        Raises TooManyError where the user has too many, and TransientError where all users together have.
        """
        if self._listeners_by_user[user_id] >= self._max_listeners_per_user:
            raise TooManyError(
                f"You have {self._max_listeners_per_user} event streams open, the most that one user may have: close one, "
                "such as a page of the web UI in another browser, or `vigil tail`.",
                BUSY_SECONDS,
            )
        if self.listeners >= self.max_listeners:
            raise TransientError(f"the maximum of {self.max_listeners} event listeners is reached")
        self._listeners_by_user[user_id] += 1
        try:
            yield
        finally:
            self._listeners_by_user[user_id] -= 1
            if not self._listeners_by_user[user_id]:
                del self._listeners_by_user[user_id]

    async def run(self) -> None:
        """Runs until cancelled."""
        while True:
            await log_and_continue(self._follow_unless_away, "the events are followed again soon")
            await asyncio.sleep(RECONNECT_SECONDS)

    def stop(self) -> None:
        """Disconnects every listener; they reconnect."""
        self.stopping = True
        self._notify()

    async def wait_for(self, news: asyncio.Event, seconds: float) -> None:
        """Waits for `news`, or `seconds`."""
        with suppress(TimeoutError):
            async with asyncio.timeout(seconds):
                await news.wait()

    async def stream_state(self) -> StreamState:
        """Returns the state of the stream. Raises TransientError while that is unknown."""
        state = await self._stream().state()
        if state is None:
            raise TransientError(f"there is no stream {STREAM}: the scheduler creates it")
        return state

    async def queues(self) -> list[Queue]:
        """Returns the queue of each consumer. Raises TransientError while that is unknown."""
        return await self._stream().queues()

    @property
    def server_version(self) -> str:
        """The version of NATS. Raises TransientError while it is away."""
        return self._stream().server_version

    @property
    def end(self) -> StreamPosition:
        """The position at the end of the buffer."""
        last = self.window.last
        is_known = self._newest is not None and self._newest.sequence == last
        return self._newest.position if self._newest and is_known else StreamPosition(last)

    async def find(self, position: StreamPosition, state: StreamState) -> int:
        """Returns the sequence after which a client at `position` continues. Raises TransientError."""
        async with self._reading_back:
            return await self._stream().find(position, state)

    async def last_before(self, moment: datetime) -> int:
        """Returns the position for events since `moment`. Raises TransientError."""
        position = await self._stream().last_before(moment)
        return (await self.stream_state()).last if position is None else position

    async def read_back(self, sequence: int) -> StreamChunk | None:
        """Returns the next chunk of the stream after `sequence`. Raises TransientError."""
        async with self._reading_back:
            batch = await self._stream().read_after(
                sequence, max_events=CHUNK_EVENTS, max_bytes=CHUNK_BYTES
            )
            if not batch:
                return None
            return StreamChunk(batch[0].sequence, batch[-1].sequence, await self._parse(batch))

    def _stream(self) -> StreamHistory:
        if self._history is None:
            raise TransientError(f"NATS at {self._url} is unavailable")
        return self._history

    async def _follow_unless_away(self) -> None:
        """Follows the stream, and logs each outage once."""
        try:
            await self._follow()
        except TransientError as error:
            if str(error) != self._logged_outage:
                self._logged_outage = str(error)
                log.warning(
                    "events are unavailable; the API keeps trying", reason=self._logged_outage
                )

    async def _follow(self) -> None:
        """Runs until NATS or PostgreSQL is unavailable or the stream was recreated; each raises TransientError."""
        async with connect_reader(self._url, self._credentials, name="api") as client:
            self._history = StreamHistory(client)
            try:
                state = await self.stream_state()
                await self._begin(state)
                self._logged_outage = None
                async with aclosing(
                    read_batches(client, start_at_sequence(self.window.last + 1))
                ) as subscription:
                    async for batch in subscription:
                        await self._take(batch)
                        if not self.is_live and (not batch or self.window.last >= state.last):
                            self._go_live()
            finally:
                self._history = None

    async def _begin(self, state: StreamState) -> None:
        """Continues at the end of the buffer, or, in a new stream, so that its newest events are in it.

        If NATS has lost its newest events, clients continue after those that it has kept.
        """
        before_first = state.first - 1
        is_known = self._made_at == state.made_at
        kept = await self._stream().find(self.end, state) if is_known else None
        if kept is None or kept > state.last:
            after = max(before_first, state.last - self.window.max_events)
            self._begin_anew(state, after, new_stream_from=before_first)
        elif kept < self.window.last:
            # No client may be ahead of the buffer, which notices if events are lost again.
            after = max(kept, before_first)
            self._begin_anew(state, after, new_stream_from=after, has_lost_newest=True)
        elif self.window.last < before_first:
            self.window.begin(before_first)
        if self.window.last >= state.last:
            self._go_live()
        self._notify()

    def _begin_anew(self, state: StreamState, after: int, **stream: Any) -> None:
        self.window.begin(after, **stream)
        self._made_at, self._newest, self.is_live = state.made_at, None, False

    def _go_live(self) -> None:
        self.is_live = True
        self._notify()

    async def _take(self, batch: Sequence[StoredEvent]) -> None:
        if batch:
            events = await self._parse(batch)
            self.window.extend(events, batch[0].sequence, batch[-1].sequence)
            self._newest = batch[-1]
            self._notify()
            self._on_events()

    async def _parse(self, batch: Sequence[StoredEvent]) -> list[BufferedEvent]:
        """Parses a batch. Leaves out messages that are no events, and events of deleted agents."""
        about = [(event, event.agent_id) for event in batch]
        owners = await self._owners.of(agent_id for _, agent_id in about if agent_id is not None)
        return [
            BufferedEvent(
                event.sequence,
                event.subject,
                agent_id,
                owners[agent_id],
                event_frame(event),
                event.stored_at,
            )
            for event, agent_id in about
            if agent_id is not None and agent_id in owners
        ]

    def _notify(self) -> None:
        self.news.set()
        self.news = asyncio.Event()


GAP: Final = "gap"


def gap_frame(gap: Gap) -> bytes:
    data = {"why": gap.why, "first": gap.first, "last": gap.last}
    return format_sse_event(id=str(gap.resume_after), event=GAP, data_str=json.dumps(data))
