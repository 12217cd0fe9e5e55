"""The aggregator's composition root."""

from services.aggregator.deadlines import Deadlines
from services.aggregator.handler import Aggregate
from shared.events.topology import CONSUMERS
from shared.runtime.connections import bus_of, database_of
from shared.runtime.consumer import Actor
from shared.runtime.settings import Settings

SLOTS = 4


def build(settings: Settings) -> Actor:
    slots = settings.slots or SLOTS
    database = database_of(settings, "aggregator", pool_size=slots + 1)
    bus = bus_of(settings, "aggregator")
    aggregate = Aggregate(database)
    return Actor(
        "aggregator",
        handlers=dict.fromkeys(CONSUMERS["aggregator"].hears, aggregate),
        bus=bus,
        database=database,
        slots=slots,
        drain_seconds=settings.drain_seconds,
        background=[Deadlines(database, bus, aggregate, settings.iteration_deadline_seconds).watch],
    )
