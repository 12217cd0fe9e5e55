"""The scheduler's composition root."""

from services.scheduler.dead_letter_retries import Retrier
from services.scheduler.reconciler import Reconciler
from services.scheduler.scheduler import Clock, Ticker
from shared.events.topology import CONSUMERS
from shared.runtime.connections import bus_of, database_of
from shared.runtime.consumer import Actor
from shared.runtime.settings import Settings


def build(settings: Settings) -> Actor:
    database = database_of(settings, "scheduler", pool_size=3)
    bus = bus_of(settings, "scheduler")
    clock = Clock(
        Ticker(database, settings.iteration_deadline_seconds),
        Reconciler(database, settings.resend_after_seconds),
        Retrier(database, bus),
        bus,
        settings.scheduler_tick_seconds,
    )
    return Actor(
        "scheduler",
        handlers=dict.fromkeys(CONSUMERS["scheduler"].hears, clock.wake),
        bus=bus,
        database=database,
        slots=1,
        drain_seconds=settings.drain_seconds,
        background=[clock.tick_for_ever, clock.reconcile_for_ever],
    )
