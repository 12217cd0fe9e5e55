"""The event hub: one reader of the stream in this process, for all listeners."""

import asyncio
import json
from collections.abc import Iterable, Sequence
from contextlib import aclosing, suppress
from dataclasses import dataclass
from datetime import datetime
from itertools import islice
from typing import Final
from uuid import UUID

from fastapi.sse import KEEPALIVE_COMMENT, format_sse_event

from services.api.queries import agents
from services.api.streaming.event_window import CHUNK_BYTES, CHUNK_EVENTS, Gap, Heard, Window
from shared.database.engine import Database
from shared.errors import TransientError
from shared.events.credentials import Credentials
from shared.events.stream_admin import Queue
from shared.events.stream_reader import History, Stored, Told, at, batches, listening
from shared.events.topology import STREAM
from shared.runtime.background import whatever_happens
from shared.runtime.logging import logger

MOST_REMEMBERED: Final = 50_000


class Owners:
    """Remembers what it has once found: an agent never changes hands, and no id is given twice."""

    def __init__(self, database: Database) -> None:
        self._database = database
        self._known: dict[UUID, UUID] = {}

    async def of(self, agent_ids: Iterable[UUID]) -> dict[UUID, UUID]:
        """Agent to owner; agents that were deleted have none. Raises TransientError while Postgres is away."""
        wanted = set(agent_ids)
        found = {agent_id: self._known[agent_id] for agent_id in wanted & self._known.keys()}
        if unknown := wanted - found.keys():
            async with self._database.transaction() as session:
                found |= (looked_up := await agents.owners(session, unknown))
            self._remember(looked_up)
        return found

    def _remember(self, found: dict[UUID, UUID]) -> None:
        self._known |= found
        for oldest in list(islice(self._known, max(0, len(self._known) - MOST_REMEMBERED))):
            del self._known[oldest]


RETRY_MILLISECONDS: Final = 1000
"""When a listener that was cut off should come again."""
END: Final = "end"
KEEP_ALIVE: Final = KEEPALIVE_COMMENT
OPENING: Final = format_sse_event(comment="vigil", retry=RETRY_MILLISECONDS)


def event(told: Told) -> bytes:
    """Its sequence, its name, and the event itself as it stands on the bus."""
    data = told.payload.decode(errors="replace")
    return format_sse_event(id=str(told.sequence), event=told.subject, data_str=data)


def place(sequence: int) -> bytes:
    """Where a listener stands that was sent nothing yet, so that it can come back there. It is not told as an event."""
    return format_sse_event(id=str(sequence))


def end(why: str, detail: str) -> bytes:
    return format_sse_event(event=END, data_str=json.dumps({"why": why, "detail": detail}))


LOOK_AGAIN_SECONDS: Final = 0.5
MOST_READING_BACK: Final = 4
"""Listeners that read the stream itself at the same time; the others wait for their turn, a chunk each."""

log = logger(__name__)


@dataclass(frozen=True)
class Past:
    """A piece of the stream, of which `heard` is what is anybody's."""

    first: int
    last: int
    heard: Sequence[Heard]


class Hub:
    """Follows the stream while `run` runs, over every absence of NATS and Postgres, and wakes the listeners."""

    def __init__(
        self,
        url: str,
        credentials: Credentials,
        owners: Owners,
        window: Window,
        most_listeners: int,
    ) -> None:
        self.window = window
        self.most_listeners = most_listeners
        self.listeners = 0
        self.is_live = False
        """The window has once reached the stream's end: what is new is known from what was."""
        self.stopping = False
        self.news = asyncio.Event()
        """Set at the next change, and then replaced."""
        self._url = url
        self._credentials = credentials
        self._owners = owners
        self._history: History | None = None
        self._made_at: datetime | None = None
        self._told_away: str | None = None
        self._reading_back = asyncio.Semaphore(MOST_READING_BACK)

    async def run(self) -> None:
        """Until it is cancelled."""
        while True:
            await whatever_happens(self._follow_unless_away, "the events are followed again soon")
            await asyncio.sleep(LOOK_AGAIN_SECONDS)

    def stop(self) -> None:
        """Every listener is told to come again, and goes."""
        self.stopping = True
        self._tell()

    async def hear(self, news: asyncio.Event, seconds: float) -> None:
        """Returns when there is `news`, or after so many seconds."""
        with suppress(TimeoutError):
            async with asyncio.timeout(seconds):
                await news.wait()

    async def held(self) -> Stored:
        """What the stream holds. Raises TransientError where that is not known."""
        held = await self._stream().held()
        if held is None:
            raise TransientError(f"there is no stream {STREAM}: run `vigil migrate`")
        return held

    async def queues(self) -> list[Queue]:
        """How much waits for each actor. Raises TransientError where that is not known."""
        return await self._stream().queues()

    async def last_before(self, moment: datetime) -> int:
        """Where a listener stands that wants what is new since `moment`. Raises TransientError."""
        before = await self._stream().last_before(moment)
        return (await self.held()).last if before is None else before

    async def read_back(self, sequence: int) -> Past | None:
        """What stands in the stream behind `sequence`, a chunk at most. Raises TransientError."""
        async with self._reading_back:
            told = await self._stream().after(sequence, most=CHUNK_EVENTS, most_bytes=CHUNK_BYTES)
            if not told:
                return None
            return Past(told[0].sequence, told[-1].sequence, await self._heard(told))

    def _stream(self) -> History:
        if self._history is None:
            raise TransientError(f"NATS at {self._url} is away")
        return self._history

    async def _follow_unless_away(self) -> None:
        """An absence is told once, however often it is looked whether it is over."""
        try:
            await self._follow()
        except TransientError as error:
            if str(error) != self._told_away:
                self._told_away = str(error)
                log.warning("no events for the time being", reason=self._told_away)

    async def _follow(self) -> None:
        """Until NATS or Postgres is away, or the stream is another one, each of which raises TransientError."""
        async with listening(self._url, self._credentials, name="api") as client:
            self._history = History(client)
            try:
                held = await self.held()
                self._begin(held)
                self._told_away = None
                async with aclosing(batches(client, at(self.window.last + 1))) as following:
                    async for batch in following:
                        await self._take(batch)
                        if not self.is_live and (not batch or self.window.last >= held.last):
                            self._go_live()
            finally:
                self._history = None

    def _begin(self, held: Stored) -> None:
        """Where the window ends, or, in a stream that is new to it, so that its newest events are in it."""
        before_first = held.first - 1
        if not self._continues(held):
            after = max(before_first, held.last - self.window.most_events)
            self.window.begin(after, new_stream_from=before_first)
            self._made_at, self.is_live = held.made_at, False
        elif self.window.last < before_first:
            self.window.begin(before_first)
        if self.window.last >= held.last:
            self._go_live()
        self._tell()

    def _continues(self, held: Stored) -> bool:
        """Whether it is the stream that the window was read from, with all of what was read."""
        return self._made_at == held.made_at and self.window.last <= held.last

    def _go_live(self) -> None:
        self.is_live = True
        self._tell()

    async def _take(self, batch: Sequence[Told]) -> None:
        if batch:
            heard = await self._heard(batch)
            self.window.extend(heard, batch[0].sequence, batch[-1].sequence)
            self._tell()

    async def _heard(self, batch: Sequence[Told]) -> list[Heard]:
        """Without what is nobody's: no events, and those of agents that were deleted."""
        about = [(told, told.agent_id) for told in batch]
        owners = await self._owners.of(agent_id for _, agent_id in about if agent_id is not None)
        return [
            Heard(told.sequence, told.subject, agent_id, owners[agent_id], event(told))
            for told, agent_id in about
            if agent_id is not None and agent_id in owners
        ]

    def _tell(self) -> None:
        self.news.set()
        self.news = asyncio.Event()


GAP: Final = "gap"


def gap(found: Gap) -> bytes:
    data = {"why": found.why, "first": found.first, "last": found.last}
    return format_sse_event(id=str(found.resume_after), event=GAP, data_str=json.dumps(data))
