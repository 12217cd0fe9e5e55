"""`vigil upgrade` and `vigil migrate` where NATS has lost the stream, or a newer version has migrated the tables."""

import asyncio

from sqlalchemy import text

from cli.doctor import Verdict
from cli.upgrade import examine_upgrade
from shared.database.engine import Database
from shared.events.stream_admin import stream_exists
from shared.events.topology import STREAM
from shared.runtime.bus import Bus
from shared.runtime.provision import provision
from shared.runtime.settings import Settings

COMPATIBLE = (
    """comment on table alembic_version is '{"migrated_by": "99.1.0", "oldest_reader": "0.3.0"}'"""
)


async def test_a_missing_stream_is_noted_and_created(settings: Settings, bus: Bus) -> None:
    await bus.jetstream.delete_stream(STREAM)
    findings = await asyncio.to_thread(lambda: list(examine_upgrade(settings)))
    assert [each.verdict for each in findings if each.name == "nats"] == [Verdict.NOTE]
    assert [each for each in findings if each.verdict is Verdict.BAD] == []
    await provision(settings)
    assert await stream_exists(bus.jetstream)


async def test_a_consumer_with_other_settings_is_noted(settings: Settings, bus: Bus) -> None:
    await bus.jetstream.delete_consumer(STREAM, "researcher")
    findings = await asyncio.to_thread(lambda: list(examine_upgrade(settings)))
    assert [each.verdict for each in findings if each.name == "consumer"] == [Verdict.NOTE]


async def test_a_nats_that_is_away_stops_the_upgrade(settings: Settings) -> None:
    away = settings.model_copy(update={"nats_url": "nats://127.0.0.1:1"})
    findings = await asyncio.to_thread(lambda: list(examine_upgrade(away)))
    assert [each.verdict for each in findings if each.name == "nats"] == [Verdict.BAD]


async def test_an_older_version_leaves_a_newer_stream_alone_and_creates_a_missing_one(
    settings: Settings, database: Database, bus: Bus
) -> None:
    async with database.transaction() as session:
        await session.execute(text("update alembic_version set version_num = '9999'"))
        await session.execute(text(COMPATIBLE))
    await bus.jetstream.delete_consumer(STREAM, "researcher")
    assert (await provision(settings)).is_newer
    consumers = await bus.jetstream.consumers_info(STREAM)
    assert "researcher" not in {each.name for each in consumers}
    await bus.jetstream.delete_stream(STREAM)
    assert (await provision(settings)).is_newer
    consumers = await bus.jetstream.consumers_info(STREAM)
    assert "researcher" in {each.name for each in consumers}
