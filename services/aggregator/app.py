"""The aggregator's composition root."""

from services.aggregator.aggregate import Aggregate
from services.aggregator.deadlines import Deadlines
from shared.events.topology import CONSUMERS
from shared.runtime.actor import Actor
from shared.runtime.bus import Bus
from shared.runtime.settings import Settings
from shared.store.database import Database

SLOTS = 4


def build(settings: Settings) -> Actor:
    slots = settings.slots or SLOTS
    database = Database(settings.database_url, name="aggregator", pool_size=slots + 1)
    bus = Bus(settings.nats_url, name="aggregator")
    aggregate = Aggregate(database)
    return Actor(
        "aggregator",
        handlers=dict.fromkeys(CONSUMERS["aggregator"].hears, aggregate),
        bus=bus,
        database=database,
        slots=slots,
        drain_seconds=settings.drain_seconds,
        background=[Deadlines(database, bus, aggregate).watch],
    )
