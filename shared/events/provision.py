"""Makes the stream and the consumers, or brings them up to date. The one place that does."""

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
from nats.js.errors import NotFoundError

from shared.events.topology import (
    CONSUMERS,
    DUPLICATE_WINDOW_SECONDS,
    STREAM,
    Consumer,
    subject_roots,
)


async def provision(
    jetstream: JetStreamContext,
    *,
    max_age_seconds: float,
    max_bytes: int,
    replicas: int = 1,
) -> None:
    """Idempotent. `max_age_seconds` and `max_bytes` bound the history that can be read back."""
    stream = StreamConfig(
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
    try:
        await jetstream.stream_info(STREAM)
        await jetstream.update_stream(stream)
    except NotFoundError:
        await jetstream.add_stream(stream)
    for consumer in CONSUMERS.values():
        await jetstream.add_consumer(STREAM, wanted(consumer))


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
