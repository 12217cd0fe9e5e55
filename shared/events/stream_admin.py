"""Provisioning of the stream and its consumers, and the depths of their queues."""

from dataclasses import dataclass
from typing import Final

from nats.aio.client import Client
from nats.errors import Error as NatsError
from nats.js import JetStreamContext
from nats.js.api import (
    AckPolicy,
    ConsumerConfig,
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
"""The server's code for a cluster that does not see enough of its nodes: a refusal (400) that passes."""
NO_CLUSTER: Final = 10074
"""The server's code where replicas are asked of a single node: an error of the server's (500) that stays."""


async def provision(
    jetstream: JetStreamContext,
    *,
    max_age_seconds: float,
    max_bytes: int,
    replicas: int = 1,
) -> None:
    """Idempotent. `max_age_seconds` and `max_bytes` bound the history that can be read back.

    Raises TransientError where NATS cannot do it yet, as while its nodes elect a leader, and PermanentError where
    it will not.
    """
    stream = _stream(max_age_seconds, max_bytes, replicas)
    try:
        await _make_stream(jetstream, stream)
        for consumer in CONSUMERS.values():
            await _make_consumer(jetstream, wanted(consumer))
    except APIError as error:
        if _stays(error):
            raise PermanentError("bus_refused", f"NATS refuses: {error.description}") from error
        raise TransientError(f"NATS is not ready: {error.description}") from error
    except (NatsError, TimeoutError) as error:
        raise TransientError(f"NATS is not ready: {error}") from error


def _stays(error: APIError) -> bool:
    refused = isinstance(error, BadRequestError) and error.err_code != TOO_FEW_PEERS
    return refused or error.err_code == NO_CLUSTER


def _stream(max_age_seconds: float, max_bytes: int, replicas: int) -> StreamConfig:
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


async def _make_stream(jetstream: JetStreamContext, stream: StreamConfig) -> None:
    try:
        await jetstream.stream_info(STREAM)
        await jetstream.update_stream(stream)
    except NotFoundError:
        await jetstream.add_stream(stream)


async def _make_consumer(jetstream: JetStreamContext, consumer: ConsumerConfig) -> None:
    name = str(consumer.durable_name)
    try:
        found = (await jetstream.consumer_info(STREAM, name)).config
        if found.deliver_policy != consumer.deliver_policy:
            # An older version's. It cannot be changed, only made again; what that misses, the reconciler says.
            await jetstream.delete_consumer(STREAM, name)
    except NotFoundError:
        pass
    await jetstream.add_consumer(STREAM, consumer)


def wanted(consumer: Consumer) -> ConsumerConfig:
    """The settings `consumer` must have on the server."""
    return ConsumerConfig(
        durable_name=consumer.actor,
        ack_policy=AckPolicy.EXPLICIT,
        ack_wait=consumer.ack_wait_seconds,
        # Never given up by the server, where it would be lost silently: tries are counted in Postgres.
        max_deliver=-1,
        max_ack_pending=consumer.max_ack_pending,
        # A consumer that had to be made again would else be told the whole history; what it missed, the reconciler says.
        deliver_policy=DeliverPolicy.NEW,
        filter_subjects=consumer.subjects,
    )


async def fault(jetstream: JetStreamContext, consumer: Consumer) -> str | None:
    """What is wrong with `consumer` on the server, in words, or None."""
    try:
        found = (await jetstream.consumer_info(STREAM, consumer.actor)).config
    except NotFoundError:
        return f"consumer {consumer.actor!r} is not on stream {STREAM}; run `vigil migrate`"
    want = wanted(consumer)
    single = [found.filter_subject] if found.filter_subject else []
    if sorted(found.filter_subjects or single) != sorted(want.filter_subjects or []):
        return f"consumer {consumer.actor!r} hears other subjects; run `vigil migrate`"
    if found.ack_wait != want.ack_wait or found.max_deliver != want.max_deliver:
        return f"consumer {consumer.actor!r} has other settings; run `vigil migrate`"
    return None


@dataclass(frozen=True)
class Queue:
    """One actor's consumer at this moment. All of it is None where the consumer is not there."""

    actor: str
    lag: int | None = None
    """Messages that nobody has taken yet."""
    in_flight: int | None = None
    """Messages that were taken and not yet acked."""
    idle_slots: int | None = None
    """Slots of all replicas that wait for a message."""
    delivered: int | None = None
    """Deliveries since the consumer was made; two readings tell a rate."""


async def queues(client: Client) -> list[Queue]:
    """Of every actor, in the order of the topology."""
    return [await _queue(client, actor) for actor in CONSUMERS]


async def _queue(client: Client, actor: str) -> Queue:
    try:
        found = await client.jetstream().consumer_info(STREAM, actor)
    except NotFoundError:
        return Queue(actor)
    delivered = found.delivered.consumer_seq if found.delivered else 0
    return Queue(actor, found.num_pending, found.num_ack_pending, found.num_waiting, delivered)
