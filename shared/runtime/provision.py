"""The one-shot that the others wait for: tables, the owner, stream and consumers."""

import asyncio
from uuid import UUID

from shared.events.provision import provision as provision_bus
from shared.runtime.bus import Bus
from shared.runtime.settings import Settings
from shared.store import agents, migrate
from shared.store.database import Database


async def provision(settings: Settings) -> UUID:
    """Idempotent; brings an older installation up to date. Returns the owner's id."""
    await asyncio.to_thread(migrate.upgrade, settings.database_url)
    await provision_stream(settings)
    database = Database(settings.database_url, name="provision", pool_size=1)
    try:
        async with database.transaction() as session:
            return await agents.ensure_user(session, settings.owner)
    finally:
        await database.close()


async def provision_stream(settings: Settings) -> None:
    bus = Bus(settings.nats_url, name="provision")
    await bus.connect()
    try:
        await provision_bus(
            bus.jetstream,
            max_age_seconds=settings.stream_max_age_seconds,
            max_bytes=settings.stream_max_bytes,
            replicas=settings.stream_replicas,
        )
    finally:
        await bus.close()
