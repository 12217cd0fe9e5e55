"""Reading the stream: its history from any point, then live."""

import asyncio
import json
from collections import deque
from collections.abc import AsyncGenerator, AsyncIterator, Sequence
from contextlib import aclosing, asynccontextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import cached_property
from ssl import SSLError
from typing import Any, Final
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
from shared.events.codec import agent_of, decode
from shared.events.credentials import Credentials, is_refusal
from shared.events.envelope import Event
from shared.events.models import EVENTS
from shared.events.permissions import OPERATOR
from shared.events.stream_admin import Queue, queues
from shared.events.topology import STREAM

CONNECT_SECONDS = 3.0
FETCH_SECONDS = 2.0
LOOK_AGAIN_SECONDS = 0.5
BATCH = 100
COMPLAINTS_KEPT = 20

_FLEETING: dict[str, Any] = {
    "ack_policy": AckPolicy.NONE,
    "mem_storage": True,
    "num_replicas": 1,
    "inactive_threshold": 30.0,
}
"""A reader's consumer is nobody else's, and goes when its reader does."""


@dataclass(frozen=True)
class Told:
    """An event as it stands in the stream."""

    sequence: int
    subject: str
    told_at: datetime
    payload: bytes

    @cached_property
    def event(self) -> Event | None:
        """None where this version cannot read it."""
        try:
            return decode(self.payload)
        except PermanentError:
            return None

    @cached_property
    def agent_id(self) -> UUID | None:
        """None only where it is no event at all."""
        return agent_of(self.payload)


@dataclass(frozen=True)
class Stored:
    """What the stream keeps at this moment."""

    events: int
    size_bytes: int
    first: int
    """Sequence of the oldest event; where there is none, that of the next."""
    last: int
    """Of the newest event that ever was; 0 where there was none."""
    made_at: datetime
    """Another one is another stream, whose sequences begin anew."""


async def stored(client: Client) -> Stored | None:
    """None where there is no stream. Raises TransientError where NATS does not say."""
    try:
        found = await client.jetstream().stream_info(STREAM)
    except NotFoundError:
        return None
    except (NatsError, TimeoutError) as error:
        raise TransientError(f"NATS does not tell of its stream: {error!r}") from error
    state = found.state
    assert found.created is not None, "NATS always tells when a stream was made"
    first = state.first_seq if state.messages else state.last_seq + 1
    return Stored(state.messages, state.bytes, first, state.last_seq, found.created)


@asynccontextmanager
async def listening(
    url: str, credentials: Credentials | None = None, *, name: str = "tail"
) -> AsyncIterator[Client]:
    """A connection for `follow`; it outlives restarts of NATS. `name` is shown by NATS's monitoring.

    Raises TransientError where nobody answers at `url`, or does not let `credentials` in.
    """
    complaints: deque[Exception] = deque(maxlen=COMPLAINTS_KEPT)

    async def hear(complaint: Exception) -> None:
        """The client goes on connecting by itself; its default is to print tracebacks."""
        complaints.append(complaint)

    shown = credentials or Credentials(OPERATOR)
    try:
        async with asyncio.timeout(CONNECT_SECONDS):
            client = await nats.connect(
                url,
                name=f"vigil-{name}",
                max_reconnect_attempts=-1,
                error_cb=hear,
                **shown.options(),
            )
    except (TimeoutError, NatsError) as error:
        raise TransientError(_why_not(url, shown, [error, *complaints])) from error
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
) -> AsyncIterator[Told]:
    """Every event whose subject matches `pattern`, in order and once each, for ever; NATS may restart meanwhile.

    Starts at `from_sequence` or `since`, with each subject's last event where `last`, and else with what is new.
    Raises PermanentError where there is no stream.
    """
    start = await _start(client, from_sequence, since, last)
    while True:
        try:
            async with aclosing(batches(client, start, pattern)) as following:
                async for batch in following:
                    for told in batch:
                        start = at(told.sequence + 1)
                        yield told
        except TransientError:
            # NATS is away, or has restarted and forgotten the consumer, which is kept in memory.
            await asyncio.sleep(LOOK_AGAIN_SECONDS)


async def batches(
    client: Client, start: ConsumerConfig, pattern: str = ">"
) -> AsyncGenerator[list[Told], None]:
    """The events from `start` on, as they come; an empty list wherever none has come for `FETCH_SECONDS`.

    Raises TransientError where NATS is away, or has lost the consumer or the whole stream.
    """
    try:
        subscription = await client.jetstream().pull_subscribe(pattern, stream=STREAM, config=start)
        async with aclosing(_fetched(subscription)) as fetched:
            async for batch in fetched:
                yield batch
    except (NatsError, JetStreamError) as error:
        raise TransientError(f"NATS tells no more: {error!r}") from error


def at(sequence: int) -> ConsumerConfig:
    """A reader's consumer that begins there."""
    return ConsumerConfig(
        deliver_policy=DeliverPolicy.BY_START_SEQUENCE, opt_start_seq=sequence, **_FLEETING
    )


async def _start(
    client: Client, from_sequence: int | None, since: datetime | None, last: bool
) -> ConsumerConfig:
    if from_sequence is not None:
        return at(from_sequence)
    if since is not None:
        return ConsumerConfig(
            deliver_policy=DeliverPolicy.BY_START_TIME, opt_start_time=since, **_FLEETING
        )
    if last:
        return ConsumerConfig(deliver_policy=DeliverPolicy.LAST_PER_SUBJECT, **_FLEETING)
    try:
        # By number rather than "new", so that nothing is missed should the consumer have to be made again.
        return at((await client.jetstream().stream_info(STREAM)).state.last_seq + 1)
    except NotFoundError as error:
        raise PermanentError(
            "no_stream", f"there is no stream {STREAM}: run `vigil migrate`"
        ) from error


async def _fetched(
    subscription: JetStreamContext.PullSubscription,
) -> AsyncGenerator[list[Told], None]:
    """Until the consumer is gone, which raises."""
    try:
        while True:
            try:
                messages = await subscription.fetch(BATCH, timeout=FETCH_SECONDS)
            except TimeoutError:  # nats-py raises its own kind, and the plain one too
                messages = []
            yield [
                Told(
                    each.metadata.sequence.stream, each.subject, each.metadata.timestamp, each.data
                )
                for each in messages
            ]
    finally:
        await subscription.unsubscribe()


def _why_not(url: str, credentials: Credentials, complaints: Sequence[Exception]) -> str:
    if any(is_refusal(complaint) for complaint in complaints):
        return f"NATS at {url} does not let {credentials.user!r} in: check user and password"
    for complaint in complaints:
        if isinstance(complaint, SSLError):
            return f"NATS at {url}: {complaint}"
    return f"no NATS answers at {url}"


ANSWER_SECONDS: Final = 5.0
_STATUS: Final = "Status"
_NO_MORE: Final = "204"
_NONE: Final = "404"


@dataclass(frozen=True)
class History:
    """The stream over one connection. What NATS does not answer in time is a TransientError."""

    client: Client

    async def held(self) -> Stored | None:
        """None where there is no stream."""
        return await stored(self.client)

    async def queues(self) -> list[Queue]:
        """How much waits for each actor."""
        try:
            async with asyncio.timeout(ANSWER_SECONDS):
                return await queues(self.client)
        except (NatsError, TimeoutError) as error:
            raise TransientError(f"NATS does not tell what waits: {error!r}") from error

    async def after(self, sequence: int, *, most: int, most_bytes: int) -> list[Told]:
        """The oldest events behind `sequence`, in order: at least one where there is any.

        With more than one replica of the stream, one that lags may answer: none may then mean none yet.
        """
        return await self._ask(seq=sequence + 1, batch=most, max_bytes=most_bytes)

    async def last_before(self, moment: datetime) -> int | None:
        """Sequence of what stands before the first event since `moment`; None where there is none since then."""
        found = await self._ask(start_time=moment.astimezone(UTC).isoformat(), batch=1)
        return found[0].sequence - 1 if found else None

    async def _ask(self, **request: Any) -> list[Told]:
        try:
            async with aclosing(self._answers(request)) as answers:
                return [_told(message) async for message in answers]
        except (NatsError, TimeoutError) as error:
            raise TransientError(f"NATS does not read its stream back: {error!r}") from error

    async def _answers(self, request: dict[str, Any]) -> AsyncGenerator[Msg, None]:
        inbox = self.client.new_inbox()
        subscription = await self.client.subscribe(inbox)
        try:
            asked = json.dumps(request).encode()
            await self.client.publish(f"$JS.API.DIRECT.GET.{STREAM}", asked, reply=inbox)
            while True:
                message = await subscription.next_msg(timeout=ANSWER_SECONDS)
                status = (message.headers or {}).get(_STATUS)
                if status in (_NO_MORE, _NONE):
                    return
                if status is not None:
                    raise TransientError(f"NATS does not read its stream back: {status}")
                yield message
        finally:
            await subscription.unsubscribe()


def _told(message: Msg) -> Told:
    headers = message.headers or {}
    return Told(
        int(headers["Nats-Sequence"]),
        headers["Nats-Subject"],
        datetime.fromisoformat(headers["Nats-Time-Stamp"]),
        message.data,
    )


EVERYTHING = ">"


def pattern_of(written: str) -> str:
    """What was written as a pattern: a noun alone means all of its events. Raises ValueError where no event can match."""
    nouns = {event.subject.partition(".")[0] for event in EVENTS}
    pattern = f"{written}.*" if written in nouns else written
    if pattern != EVERYTHING and not any(matches(pattern, event.subject) for event in EVENTS):
        known = ", ".join(event.subject for event in EVENTS)
        raise ValueError(f"no event is named {written!r}; there are {known}")
    return pattern


def matches(pattern: str, subject: str) -> bool:
    wanted, given = pattern.split("."), subject.split(".")
    if wanted[-1] == EVERYTHING:
        if len(given) < len(wanted):
            return False
        wanted, given = wanted[:-1], given[: len(wanted) - 1]
    return len(wanted) == len(given) and all(
        token in ("*", word) for token, word in zip(wanted, given, strict=True)
    )
