"""Composes an actor whose work is steps: all who ask the model are made here."""

from collections.abc import Awaitable, Callable, Mapping, Sequence
from types import MappingProxyType

from shared.events.topology import CONSUMERS
from shared.runtime.actor import Actor
from shared.runtime.reaching import bus_of, database_of
from shared.runtime.settings import Settings
from shared.runtime.work import OnFailure, StepHandler, Work
from shared.store.database import Database
from shared.store.words import StepKind

CONNECTIONS_PER_SLOT = 2
"""One for the work, one for the lease's renewal."""


def step_database(name: str, settings: Settings, *, slots: int) -> Database:
    return database_of(
        settings, name, pool_size=CONNECTIONS_PER_SLOT * (settings.slots or slots) + 1
    )


def step_actor(
    name: str,
    settings: Settings,
    database: Database,
    works: Mapping[StepKind, Work],
    *,
    slots: int,
    closing: Sequence[Callable[[], Awaitable[None]]] = (),
    on_failure: Mapping[StepKind, OnFailure] = MappingProxyType({}),
    is_followed: bool = False,
) -> Actor:
    """`slots` is the actor's own default; the settings may say otherwise. For `is_followed` see `StepHandler`."""
    handler = StepHandler(
        name,
        database,
        worker=settings.worker_name,
        lease_seconds=settings.lease_seconds,
        max_attempts=settings.max_attempts,
        works=works,
        on_failure=on_failure,
        is_followed=is_followed,
    )
    return Actor(
        name,
        handlers=dict.fromkeys(CONSUMERS[name].hears, handler),
        bus=bus_of(settings, name),
        database=database,
        slots=settings.slots or slots,
        drain_seconds=settings.drain_seconds,
        closing=closing,
    )
