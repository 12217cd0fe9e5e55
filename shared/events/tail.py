"""Reads the stream back for people: from any point of its history, then live."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from datetime import datetime

import nats
from nats.aio.client import Client
from nats.errors import TimeoutError as NatsTimeoutError
from nats.js.api import ConsumerConfig, DeliverPolicy
from nats.js.errors import NotFoundError

from shared.errors import PermanentError, TransientError
from shared.events.codec import decode
from shared.events.envelope import Event
from shared.events.topology import STREAM

CONNECT_SECONDS = 5.0


@dataclass(frozen=True)
class Told:
    """An event as it stands in the stream; `event` is None where this version cannot read it."""

    sequence: int
    subject: str
    told_at: datetime
    event: Event | None
    payload: bytes


@dataclass(frozen=True)
class Stored:
    """What the stream keeps at this moment."""

    events: int
    size_bytes: int


async def stored(client: Client) -> Stored | None:
    """None where there is no stream."""
    try:
        state = (await client.jetstream().stream_info(STREAM)).state
    except NotFoundError:
        return None
    return Stored(state.messages, state.bytes)


@asynccontextmanager
async def listening(url: str) -> AsyncIterator[Client]:
    """A connection for `follow`; it outlives restarts of NATS. Raises TransientError where nobody answers at `url`."""
    try:
        async with asyncio.timeout(CONNECT_SECONDS):
            client = await nats.connect(
                url, name="vigil-tail", max_reconnect_attempts=-1, error_cb=_ignore
            )
    except TimeoutError as error:
        raise TransientError(f"no NATS answers at {url}") from error
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
    """Every event whose subject matches `pattern`, in order, for ever.

    Starts at `from_sequence` or `since`, with each subject's last event where `last`, and else with what is new.
    """
    if from_sequence is not None:
        config = ConsumerConfig(
            deliver_policy=DeliverPolicy.BY_START_SEQUENCE, opt_start_seq=from_sequence
        )
    elif since is not None:
        config = ConsumerConfig(deliver_policy=DeliverPolicy.BY_START_TIME, opt_start_time=since)
    else:
        policy = DeliverPolicy.LAST_PER_SUBJECT if last else DeliverPolicy.NEW
        config = ConsumerConfig(deliver_policy=policy)
    subscription = await client.jetstream().subscribe(
        pattern, stream=STREAM, ordered_consumer=True, config=config
    )
    try:
        while True:
            try:
                message = await subscription.next_msg(timeout=5)
            except NatsTimeoutError:
                continue
            yield Told(
                message.metadata.sequence.stream,
                message.subject,
                message.metadata.timestamp,
                _readable(message.data),
                message.data,
            )
    finally:
        await subscription.unsubscribe()


async def _ignore(_: Exception) -> None:
    """The client goes on connecting by itself; its default is to print tracebacks."""


def _readable(payload: bytes) -> Event | None:
    try:
        return decode(payload)
    except PermanentError:
        return None
