"""Provisions the stream and its consumers, and reads the depths of their queues."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Final

from nats.aio.client import Client
from nats.errors import Error as NatsError
from nats.js import JetStreamContext
from nats.js.api import (
    AckPolicy,
    ConsumerConfig,
    ConsumerInfo,
    DeliverPolicy,
    DiscardPolicy,
    RetentionPolicy,
    StorageType,
    StreamConfig,
)
from nats.js.errors import APIError, BadRequestError, NotFoundError

from shared.errors import PermanentError, TransientError
from shared.events.topology import (
    CONSUMERS,
    DUPLICATE_WINDOW_SECONDS,
    STREAM,
    Consumer,
    subject_roots,
)

TOO_FEW_PEERS: Final = 10005
"""Error code of a cluster that does not see enough of its nodes: a 400 that is temporary."""
NO_CLUSTER: Final = 10074
"""Error code for replicas on a single node: a 500 that is permanent."""


async def provision(
    jetstream: JetStreamContext,
    *,
    max_age_seconds: float,
    max_bytes: int,
    replicas: int = 1,
) -> None:
    """Creates or updates the stream and its consumers. Idempotent.

    `max_age_seconds` and `max_bytes` limit the history that can be read. Raises TransientError if NATS cannot do it
    yet, as during a leader election, and PermanentError if it refuses.
    """
    stream = _stream_config(max_age_seconds, max_bytes, replicas)
    try:
        await _ensure_stream(jetstream, stream)
        for consumer in CONSUMERS.values():
            await _ensure_consumer(jetstream, consumer_config(consumer))
    except APIError as error:
        if _is_permanent(error):
            raise PermanentError(
                "bus_refused", f"NATS refused the request: {error.description}"
            ) from error
        raise TransientError(f"NATS is not ready: {error.description}") from error
    except (NatsError, TimeoutError) as error:
        raise TransientError(f"NATS is not ready: {error}") from error


def _is_permanent(error: APIError) -> bool:
    is_bad_request = isinstance(error, BadRequestError) and error.err_code != TOO_FEW_PEERS
    return is_bad_request or error.err_code == NO_CLUSTER


def _stream_config(max_age_seconds: float, max_bytes: int, replicas: int) -> StreamConfig:
    return StreamConfig(
        name=STREAM,
        subjects=subject_roots(),
        retention=RetentionPolicy.LIMITS,
        discard=DiscardPolicy.OLD,
        storage=StorageType.FILE,
        max_age=max_age_seconds,
        max_bytes=max_bytes,
        duplicate_window=DUPLICATE_WINDOW_SECONDS,
        num_replicas=replicas,
        allow_direct=True,
    )


async def stream_exists(jetstream: JetStreamContext) -> bool:
    """Raises TransientError if NATS cannot tell yet."""
    try:
        await jetstream.stream_info(STREAM)
    except NotFoundError:
        return False
    except (NatsError, TimeoutError) as error:
        raise TransientError(f"NATS is not ready: {error}") from error
    return True


@dataclass(frozen=True)
class StreamSummary:
    """What changes when the stream is created again, or one of its consumers is deleted."""

    created_at: datetime | None
    consumers: int
    """Including those of readers."""


async def summarize_stream(jetstream: JetStreamContext) -> StreamSummary | None:
    """One request. None if there is no stream. Raises TransientError."""
    try:
        info = await jetstream.stream_info(STREAM)
    except NotFoundError:
        return None
    except (NatsError, TimeoutError) as error:
        raise TransientError(f"NATS is not ready: {error}") from error
    return StreamSummary(info.created, info.state.consumer_count)


async def find_missing(jetstream: JetStreamContext) -> Sequence[Consumer]:
    """The consumers that do not exist; all of them, if the stream does not. Raises TransientError."""
    missing: list[Consumer] = []
    try:
        for consumer in CONSUMERS.values():
            try:
                await jetstream.consumer_info(STREAM, consumer.service)
            except NotFoundError:
                missing.append(consumer)
    except (NatsError, TimeoutError) as error:
        raise TransientError(f"NATS is not ready: {error}") from error
    return missing


async def create_missing(
    jetstream: JetStreamContext,
    missing: Sequence[Consumer],
    *,
    max_age_seconds: float,
    max_bytes: int,
    replicas: int,
) -> None:
    """Creates these consumers, and the stream if it is missing. Changes nothing that exists. Raises TransientError."""
    try:
        if not await stream_exists(jetstream):
            await jetstream.add_stream(_stream_config(max_age_seconds, max_bytes, replicas))
        for consumer in missing:
            await jetstream.add_consumer(STREAM, consumer_config(consumer))
    except (NatsError, TimeoutError) as error:
        raise TransientError(f"NATS did not create the stream or a consumer: {error}") from error


async def _ensure_stream(jetstream: JetStreamContext, stream: StreamConfig) -> None:
    try:
        await jetstream.stream_info(STREAM)
        await jetstream.update_stream(stream)
    except NotFoundError:
        await jetstream.add_stream(stream)


async def _ensure_consumer(jetstream: JetStreamContext, consumer: ConsumerConfig) -> None:
    name = str(consumer.durable_name)
    try:
        current = (await jetstream.consumer_info(STREAM, name)).config
        if current.deliver_policy != consumer.deliver_policy:
            # Created by an older version. The policy cannot be changed, only recreated; the reconciler republishes
            # what the new consumer misses.
            await jetstream.delete_consumer(STREAM, name)
    except NotFoundError:
        pass
    await jetstream.add_consumer(STREAM, consumer)


def consumer_config(consumer: Consumer) -> ConsumerConfig:
    """The settings that `consumer` must have on the server."""
    return ConsumerConfig(
        durable_name=consumer.service,
        ack_policy=AckPolicy.EXPLICIT,
        ack_wait=consumer.ack_wait_seconds,
        # The server never gives up, because it would lose the message silently: attempts are counted in PostgreSQL.
        max_deliver=-1,
        max_ack_pending=consumer.max_ack_pending,
        # Otherwise a recreated consumer would receive the whole history; the reconciler republishes what it missed.
        deliver_policy=DeliverPolicy.NEW,
        filter_subjects=consumer.subjects,
    )


async def find_consumer_fault(
    jetstream: JetStreamContext,
    consumer: Consumer,
    observe: Callable[[ConsumerInfo], None] = lambda _: None,
) -> str | None:
    """What is wrong with `consumer` on the server, or None. `observe` receives its state."""
    try:
        info = await jetstream.consumer_info(STREAM, consumer.service)
        observe(info)
        actual = info.config
    except NotFoundError:
        return f"consumer {consumer.service!r} is not on stream {STREAM}"
    expected = consumer_config(consumer)
    single = [actual.filter_subject] if actual.filter_subject else []
    if sorted(actual.filter_subjects or single) != sorted(expected.filter_subjects or []):
        return f"consumer {consumer.service!r} subscribes to other subjects; run `vigil migrate`"
    if actual.ack_wait != expected.ack_wait or actual.max_deliver != expected.max_deliver:
        return f"consumer {consumer.service!r} has other settings; run `vigil migrate`"
    return None


@dataclass(frozen=True)
class Queue:
    """The state of one service's consumer. All fields are None if the consumer does not exist."""

    service: str
    lag: int | None = None
    """Messages not delivered yet."""
    in_flight: int | None = None
    """Messages delivered and not acked yet."""
    waiting_replicas: int | None = None
    """Replicas that wait for a message: each has one open request while it has a free slot."""
    delivered: int | None = None
    """Deliveries since the consumer was created; two readings give a rate."""


async def list_queues(client: Client) -> list[Queue]:
    """The queue of every service, in the order of the topology."""
    return [await _queue(client, service) for service in CONSUMERS]


async def _queue(client: Client, service: str) -> Queue:
    try:
        info = await client.jetstream().consumer_info(STREAM, service)
    except NotFoundError:
        return Queue(service)
    delivered = info.delivered.consumer_seq if info.delivered else 0
    return Queue(service, info.num_pending, info.num_ack_pending, info.num_waiting, delivered)
