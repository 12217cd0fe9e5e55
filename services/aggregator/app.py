"""The aggregator's composition root."""

from services.aggregator.deadlines import Deadlines
from services.aggregator.handler import Aggregate
from services.aggregator.router import create_router
from shared.runtime.connections import create_bus, create_database
from shared.runtime.consumer import MessageConsumer
from shared.runtime.settings import Settings

CONCURRENCY = 4


def build(settings: Settings) -> MessageConsumer:
    concurrency = settings.concurrency or CONCURRENCY
    database = create_database(settings, "aggregator", pool_size=concurrency + 1)
    bus = create_bus(settings, "aggregator")
    aggregate = Aggregate(database)
    return MessageConsumer(
        "aggregator",
        create_router(aggregate, concurrency),
        bus=bus,
        database=database,
        background=[Deadlines(database, bus, aggregate, settings.iteration_deadline_seconds).watch],
    )
