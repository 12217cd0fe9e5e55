"""How much waits for each actor on the bus, for people who watch."""

from dataclasses import dataclass

from nats.aio.client import Client
from nats.js.errors import NotFoundError

from shared.events.topology import CONSUMERS, STREAM


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
