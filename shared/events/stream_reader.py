"""Reads the stream: its history from any point, then live."""

import asyncio
import json
import re
from collections import deque
from collections.abc import AsyncGenerator, AsyncIterator, Sequence
from contextlib import aclosing, asynccontextmanager, suppress
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from functools import cached_property
from ssl import SSLError
from typing import Any, Final, Protocol
from uuid import UUID

import nats
from nats.aio.client import Client
from nats.aio.msg import Msg
from nats.errors import Error as NatsError
from nats.js import JetStreamContext
from nats.js.api import AckPolicy, ConsumerConfig, DeliverPolicy
from nats.js.errors import Error as JetStreamError
from nats.js.errors import NotFoundError

from shared.errors import PermanentError, TransientError
from shared.events.codec import agent_id_of, decode
from shared.events.credentials import Credentials
from shared.events.envelope import Event
from shared.events.models import EVENTS
from shared.events.permissions import OPERATOR
from shared.events.rejection import is_rejection
from shared.events.stream_admin import Queue, list_queues
from shared.events.topology import STREAM
from shared.urls import strip_secrets

CONNECT_SECONDS = 3.0
FETCH_SECONDS = 10.0
RETRY_SECONDS = 0.5
BATCH = 100
MAX_ERRORS_KEPT = 20
MAX_SEQUENCE: Final = 2**63 - 1
_POSITION: Final = re.compile(r"(\d{1,19})(?:-(\d{1,14}))?", re.ASCII)

_EPHEMERAL: dict[str, Any] = {
    "ack_policy": AckPolicy.NONE,
    "mem_storage": True,
    "num_replicas": 1,
    "inactive_threshold": 30.0,
}
"""A reader's consumer is not shared, and is removed when the reader disconnects."""


_ABOUT_A_MILLISECOND: Final = timedelta(milliseconds=2)
"""NATS reports times in several forms, which are rounded differently."""


class EventInStream(Protocol):
    """What tells an event of the stream from others."""

    @property
    def sequence(self) -> int: ...
    @property
    def stored_at(self) -> datetime | None: ...


@dataclass(frozen=True)
class StreamPosition:
    """A position of a reader: it has had everything up to `sequence`.

    After a power failure, NATS may have lost its newest events, and then it uses their sequences again. `stored_at` tells
    which event the reader has had: an event that is stored later has a later time.
    """

    sequence: int
    stored_at: datetime | None = None
    """Of the event with that sequence, to the millisecond. None if there is none, or it is unknown."""

    def __str__(self) -> str:
        if self.stored_at is None:
            return str(self.sequence)
        return f"{self.sequence}-{round(self.stored_at.timestamp() * 1000)}"

    @classmethod
    def parse(cls, text: str) -> "StreamPosition":
        """Parses what `str` returns. Raises ValueError."""
        match = _POSITION.fullmatch(text)
        if match is None or int(match[1]) > MAX_SEQUENCE:
            raise ValueError(f"{text[:40]!r} is not a position in the stream")
        if match[2] is None:
            return cls(int(match[1]))
        return cls(int(match[1]), datetime.fromtimestamp(int(match[2]) / 1000, UTC))

    def is_at(self, event: "EventInStream") -> bool:
        """Whether `event` is the event that the reader has received last."""
        return self.sequence == event.sequence and (
            self.stored_at is None
            or event.stored_at is None
            or abs(event.stored_at - self.stored_at) <= _ABOUT_A_MILLISECOND
        )


@dataclass(frozen=True)
class StoredEvent:
    """An event as stored in the stream."""

    sequence: int
    subject: str
    stored_at: datetime
    payload: bytes

    @property
    def position(self) -> StreamPosition:
        """The position after this event."""
        return StreamPosition(self.sequence, self.stored_at)

    @cached_property
    def event(self) -> Event | None:
        """None if this version cannot parse it."""
        try:
            return decode(self.payload)
        except PermanentError:
            return None

    @cached_property
    def agent_id(self) -> UUID | None:
        """None only if it is not an event at all."""
        return agent_id_of(self.payload)


@dataclass(frozen=True)
class StreamState:
    """The contents of the stream at one moment."""

    events: int
    size_bytes: int
    max_bytes: int | None
    """At this size the oldest events are discarded; None if there is no limit."""
    first: int
    """Sequence of the oldest event; of the next one, if there is none."""
    last: int
    """Sequence of the newest event ever stored; 0 if there was none."""
    made_at: datetime
    """A different time means a different stream, whose sequences start again."""


async def stream_state(client: Client) -> StreamState | None:
    """The state of the stream; None if there is no stream. Raises TransientError if NATS does not answer."""
    try:
        info = await client.jetstream().stream_info(STREAM)
    except NotFoundError:
        return None
    except (NatsError, TimeoutError) as error:
        raise TransientError(f"NATS does not report the state of its stream: {error!r}") from error
    state = info.state
    assert info.created is not None, "NATS always reports when a stream was created"
    first = state.first_seq if state.messages else state.last_seq + 1
    limit = info.config.max_bytes
    max_bytes = limit if limit is not None and limit > 0 else None
    return StreamState(state.messages, state.bytes, max_bytes, first, state.last_seq, info.created)


@asynccontextmanager
async def connect_reader(
    url: str, credentials: Credentials | None = None, *, name: str = "tail"
) -> AsyncIterator[Client]:
    """A connection for `follow`; it survives restarts of NATS. `name` is shown in NATS's monitoring.

    Raises TransientError if there is no answer at `url`, or NATS rejects the credentials.
    """
    errors: deque[Exception] = deque(maxlen=MAX_ERRORS_KEPT)

    async def note_error(error: Exception) -> None:
        """Collects errors. The client reconnects by itself; by default it would print tracebacks."""
        errors.append(error)

    used_credentials = credentials or Credentials(OPERATOR)
    try:
        async with asyncio.timeout(CONNECT_SECONDS):
            client = await nats.connect(
                url,
                name=f"vigil-{name}",
                max_reconnect_attempts=-1,
                error_cb=note_error,
                **used_credentials.options(),
            )
    except (TimeoutError, NatsError) as error:
        raise TransientError(_connect_error(url, used_credentials, [error, *errors])) from error
    try:
        yield client
    finally:
        await client.close()


async def follow(
    client: Client,
    pattern: str = ">",
    *,
    from_sequence: int | None = None,
    since: datetime | None = None,
    last: bool = False,
) -> AsyncIterator[StoredEvent]:
    """Every event whose subject matches `pattern`, in order and exactly once, forever, also across restarts of NATS.

    Starts at `from_sequence` or `since`, with each subject's last event if `last`, and otherwise with new events.
    Raises PermanentError if there is no stream.
    """
    start = await _start(client, from_sequence, since, last)
    starts_now = from_sequence is None and since is None and not last
    position = await _newest(client, start) if starts_now else None
    while True:
        try:
            state = await stream_state(client)
            if position is not None and state is not None:
                sequence = await StreamHistory(client).find(position, state)
                start = start_at_sequence(sequence + 1)
            async with aclosing(read_batches(client, start, pattern)) as stream:
                async for batch in stream:
                    for stored_event in batch:
                        position = stored_event.position
                        yield stored_event
        except TransientError:
            # NATS is unavailable, or has restarted and lost the consumer, which is kept in memory.
            await asyncio.sleep(RETRY_SECONDS)


async def read_batches(
    client: Client, start: ConsumerConfig, pattern: str = ">"
) -> AsyncGenerator[list[StoredEvent], None]:
    """The events from `start` on, in batches; an empty list if there was none for `FETCH_SECONDS`.

    Raises TransientError if NATS is unavailable, or has lost the consumer or the stream.
    """
    try:
        subscription = await client.jetstream().pull_subscribe(pattern, stream=STREAM, config=start)
        async with aclosing(_fetch(subscription)) as fetches:
            async for batch in fetches:
                yield batch
    except (NatsError, JetStreamError) as error:
        raise TransientError(f"NATS stopped sending events: {error!r}") from error


def start_at_sequence(sequence: int) -> ConsumerConfig:
    """Configuration of a reader's consumer that starts at `sequence`."""
    return ConsumerConfig(
        deliver_policy=DeliverPolicy.BY_START_SEQUENCE, opt_start_seq=sequence, **_EPHEMERAL
    )


async def _start(
    client: Client, from_sequence: int | None, since: datetime | None, last: bool
) -> ConsumerConfig:
    if from_sequence is not None:
        return start_at_sequence(from_sequence)
    if since is not None:
        return ConsumerConfig(
            deliver_policy=DeliverPolicy.BY_START_TIME, opt_start_time=since, **_EPHEMERAL
        )
    if last:
        return ConsumerConfig(deliver_policy=DeliverPolicy.LAST_PER_SUBJECT, **_EPHEMERAL)
    try:
        # By number instead of "new", so that nothing is missed if the consumer has to be recreated.
        return start_at_sequence((await client.jetstream().stream_info(STREAM)).state.last_seq + 1)
    except NotFoundError as error:
        raise PermanentError(
            "no_stream", f"there is no stream {STREAM}: run `vigil migrate`"
        ) from error


async def _newest(client: Client, start: ConsumerConfig) -> StreamPosition | None:
    """The position of the event before `start`, if NATS answers."""
    assert start.opt_start_seq is not None
    with suppress(TransientError):
        history = StreamHistory(client)
        newest = start.opt_start_seq - 1
        events = await history.read_after(max(newest - 1, 0), max_events=1, max_bytes=1)
        if events and events[0].sequence == newest:
            return events[0].position
    return None


async def _fetch(
    subscription: JetStreamContext.PullSubscription,
) -> AsyncGenerator[list[StoredEvent], None]:
    """Fetches until the consumer is gone, which raises."""
    try:
        while True:
            try:
                messages = await subscription.fetch(BATCH, timeout=FETCH_SECONDS)
            except TimeoutError:  # nats-py raises its own kind, and the plain one too
                messages = []
            yield [
                StoredEvent(
                    message.metadata.sequence.stream,
                    message.subject,
                    message.metadata.timestamp,
                    message.data,
                )
                for message in messages
            ]
    finally:
        await subscription.unsubscribe()


def _connect_error(url: str, credentials: Credentials, errors: Sequence[Exception]) -> str:
    url = strip_secrets(url)
    if any(is_rejection(error) for error in errors):
        return f"NATS at {url} rejects the user {credentials.user!r}: check user and password"
    for error in errors:
        if isinstance(error, SSLError):
            return f"NATS at {url}: {error}"
    return f"NATS does not answer at {url}"


ANSWER_SECONDS: Final = 5.0
_STATUS: Final = "Status"
_END_OF_BATCH: Final = "204"
_NO_MESSAGES: Final = "404"


@dataclass(frozen=True)
class StreamHistory:
    """Reads the stream over one connection. Raises TransientError if NATS does not answer in time."""

    client: Client

    async def state(self) -> StreamState | None:
        """The state of the stream; None if there is no stream."""
        return await stream_state(self.client)

    @property
    def server_version(self) -> str:
        """The version of the NATS server, such as `2.12.1`."""
        version = self.client.connected_server_version
        return f"{version.major}.{version.minor}.{version.patch}"

    async def queues(self) -> list[Queue]:
        """The queue of every service."""
        try:
            async with asyncio.timeout(ANSWER_SECONDS):
                return await list_queues(self.client)
        except (NatsError, TimeoutError) as error:
            raise TransientError(f"NATS does not report its queues: {error!r}") from error

    async def read_after(
        self, sequence: int, *, max_events: int, max_bytes: int
    ) -> list[StoredEvent]:
        """The oldest events after `sequence`, in order: at least one if there is any.

        With a replicated stream, a lagging replica may answer, so an empty list may mean none yet.
        """
        return await self._request(seq=sequence + 1, batch=max_events, max_bytes=max_bytes)

    async def find(self, position: StreamPosition, state: StreamState) -> int:
        """The sequence after which a reader at `position` continues, not above the position.

        If NATS has lost the event at the position, it is the sequence before the first event that was stored later. If the
        event has expired, that cannot be determined. `state` was read before: what is stored meanwhile is not skipped.
        """
        if position.stored_at is None:
            return position.sequence
        following = await self._request(seq=max(position.sequence, 1), batch=1)
        if following and (
            following[0].sequence > position.sequence or position.is_at(following[0])
        ):
            return position.sequence
        before = await self.last_before(position.stored_at + _ABOUT_A_MILLISECOND)
        return min(position.sequence, state.last if before is None else before)

    async def last_before(self, moment: datetime) -> int | None:
        """Sequence before the first event since `moment`; None if there is none since then."""
        events = await self._request(start_time=moment.astimezone(UTC).isoformat(), batch=1)
        return events[0].sequence - 1 if events else None

    async def _request(self, **request: Any) -> list[StoredEvent]:
        try:
            async with aclosing(self._messages(request)) as messages:
                return [_stored_event(message) async for message in messages]
        except (NatsError, TimeoutError) as error:
            raise TransientError(
                f"NATS does not return events from its stream: {error!r}"
            ) from error

    async def _messages(self, request: dict[str, Any]) -> AsyncGenerator[Msg, None]:
        inbox = self.client.new_inbox()
        subscription = await self.client.subscribe(inbox)
        try:
            payload = json.dumps(request).encode()
            await self.client.publish(f"$JS.API.DIRECT.GET.{STREAM}", payload, reply=inbox)
            while True:
                message = await subscription.next_msg(timeout=ANSWER_SECONDS)
                status = (message.headers or {}).get(_STATUS)
                if status in (_END_OF_BATCH, _NO_MESSAGES):
                    return
                if status is not None:
                    raise TransientError(f"NATS does not return events from its stream: {status}")
                yield message
        finally:
            await subscription.unsubscribe()


def _stored_event(message: Msg) -> StoredEvent:
    headers = message.headers or {}
    return StoredEvent(
        int(headers["Nats-Sequence"]),
        headers["Nats-Subject"],
        datetime.fromisoformat(headers["Nats-Time-Stamp"]),
        message.data,
    )


EVERYTHING = ">"


def parse_subject_pattern(text: str) -> str:
    """The subject pattern of a filter: a noun alone means all of its events. Raises ValueError if no event can match."""
    nouns = {event.subject.partition(".")[0] for event in EVENTS}
    pattern = f"{text}.*" if text in nouns else text
    if pattern != EVERYTHING and not any(matches(pattern, event.subject) for event in EVENTS):
        subjects = ", ".join(event.subject for event in EVENTS)
        raise ValueError(f"no event matches {text!r}; the events are {subjects}")
    return pattern


def matches(pattern: str, subject: str) -> bool:
    pattern_tokens, subject_tokens = pattern.split("."), subject.split(".")
    if pattern_tokens[-1] == EVERYTHING:
        if len(subject_tokens) < len(pattern_tokens):
            return False
        pattern_tokens, subject_tokens = (
            pattern_tokens[:-1],
            subject_tokens[: len(pattern_tokens) - 1],
        )
    return len(pattern_tokens) == len(subject_tokens) and all(
        token in ("*", word) for token, word in zip(pattern_tokens, subject_tokens, strict=True)
    )
