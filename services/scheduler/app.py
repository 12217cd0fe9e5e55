"""The scheduler's composition root."""

from datetime import timedelta

from services.scheduler.dead_letter_retries import Retrier
from services.scheduler.installation_metrics import InstallationMetrics
from services.scheduler.pruner import Pruner
from services.scheduler.reconciler import Reconciler
from services.scheduler.router import create_router
from services.scheduler.scheduler import Clock, Ticker
from services.scheduler.stream_keeper import StreamKeeper
from shared.runtime.connections import create_bus, create_database
from shared.runtime.consumer import MessageConsumer
from shared.runtime.settings import Settings


def build(settings: Settings) -> MessageConsumer:
    database = create_database(settings, "scheduler", pool_size=3)
    bus = create_bus(settings, "scheduler")
    clock = Clock(
        Ticker(database, settings.iteration_deadline_seconds),
        Reconciler(database, settings.resend_after_seconds),
        Retrier(database, bus),
        bus,
        settings.scheduler_tick_seconds,
    )
    pruner = Pruner(
        database,
        settings.retention_policy,
        every_seconds=settings.retention_every_seconds,
        search_ttl=timedelta(seconds=settings.search_ttl_seconds),
    )
    return MessageConsumer(
        "scheduler",
        create_router(clock.wake),
        bus=bus,
        database=database,
        background=[clock.run_ticks, clock.run_reconciler, pruner.run],
        from_connection=[StreamKeeper(bus, settings).run],
        further_metrics=[InstallationMetrics(database, settings.data_directory)],
    )
