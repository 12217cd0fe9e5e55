"""The event stream while the api, NATS or the stream itself comes and goes."""

import signal
from collections.abc import Iterator
from pathlib import Path
from uuid import UUID

import pytest

from cli.local.nats import EmbeddedNats
from cli.local.ports import free_port
from shared.database.engine import Database
from shared.events.topology import STREAM
from shared.runtime.bus import Bus
from shared.runtime.provision import provision_stream
from shared.runtime.settings import Settings
from tests.support.api.signed_in import token_of
from tests.support.making import make_agent
from tests.support.marks import slow
from tests.support.streams import (
    END,
    GAP,
    OwnersApi,
    eventually,
    ids_of,
    listening,
    publish,
    serving,
)


@pytest.fixture
async def agent_id(database: Database) -> UUID:
    return (await make_agent(database, name="Lithium")).id


@pytest.fixture
def own_nats(tmp_path: Path) -> Iterator[EmbeddedNats]:
    """A server that a test may stop; not yet started."""
    server = EmbeddedNats(tmp_path / "nats", free_port(), tmp_path / "nats.log")
    yield server
    server.stop()


async def say(url: str, agent_id: UUID, *numbers: int) -> None:
    bus = Bus(url, name="test")
    await bus.connect()
    await publish(bus, agent_id, *numbers)
    await bus.close()


@pytest.mark.parametrize("how", [*slow(signal.SIGTERM), signal.SIGKILL])
async def test_over_a_restart_of_the_api_nothing_is_lost(
    settings: Settings, bus: Bus, agent_id: UUID, tmp_path: Path, how: signal.Signals
) -> None:
    process = OwnersApi(settings, tmp_path / "api.log", await token_of(settings))
    try:
        await process.start()
        async with listening(process) as before:
            await before.has_place()
            await publish(bus, agent_id, 1, 2)
            await before.hears(1, 2)
            await process.end(how)
            await before.ends()
        await publish(bus, agent_id, 3, 4)
        await process.start()
        async with listening(process, last_event_id=before.place) as after:
            await after.hears(3, 4)
            await publish(bus, agent_id, 5)
            await after.hears(3, 4, 5)
    finally:
        await process.end(signal.SIGKILL)
    reasons = ["stopping"] if how is signal.SIGTERM else []
    assert [each["why"] for each in before.of(END)] == reasons
    assert "graceful shutdown exceeded" not in process.log.read_text()


async def test_a_restart_of_nats_is_outlived(
    settings: Settings, own_nats: EmbeddedNats, agent_id: UUID
) -> None:
    own_nats.start()
    own = settings.model_copy(update={"nats_url": own_nats.url, "event_window": 2})
    await provision_stream(own)
    async with serving(own) as api, listening(api) as ear:
        await ear.has_place()
        await say(own.nats_url, agent_id, 1)
        await ear.hears(1)
        own_nats.stop()
        own_nats.start()
        await say(own.nats_url, agent_id, 2, 3, 4, 5)
        await ear.hears(1, 2, 3, 4, 5)
        assert ids_of(ear.events) == [1, 2, 3, 4, 5]
        assert (ear.of(GAP), ear.is_over) == ([], False)


async def test_without_nats_all_else_is_answered_and_listeners_wait(
    settings: Settings, own_nats: EmbeddedNats, agent_id: UUID
) -> None:
    own = settings.model_copy(update={"nats_url": own_nats.url})
    async with (
        serving(own) as api,
        listening(api, "/events?after=0") as ear,
        api.client() as client,
    ):
        assert (await client.get(f"{api.url}/health/ready")).status_code == 200
        assert (await client.get("/agents")).status_code == 200
        assert not ear.is_over
        own_nats.start()
        await provision_stream(own)
        await say(own.nats_url, agent_id, 1)
        await ear.hears(1)


async def test_a_stream_made_anew_is_a_gap_and_is_told_from_its_first(
    settings: Settings, bus: Bus, agent_id: UUID
) -> None:
    async with serving(settings) as api, listening(api) as ear:
        await ear.has_place()
        await publish(bus, agent_id, 1, 2, 3)
        await ear.hears(1, 2, 3)
        await bus.jetstream.delete_stream(STREAM)
        await provision_stream(settings)
        await publish(bus, agent_id, 4, 5)
        await ear.hears(1, 2, 3, 4, 5)
        assert ids_of(ear.events) == [1, 2, 3, 1, 2]
        assert ear.of(GAP) == [{"why": "stream_made_anew", "first": 4, "last": None}]


async def test_an_emptied_stream_goes_on(settings: Settings, bus: Bus, agent_id: UUID) -> None:
    async with serving(settings) as api, listening(api) as ear:
        await ear.has_place()
        await publish(bus, agent_id, 1, 2)
        await ear.hears(1, 2)
        await bus.jetstream.purge_stream(STREAM)
        await publish(bus, agent_id, 3)
        await ear.hears(1, 2, 3)
        assert ear.of(GAP) == []


async def test_while_nobody_can_say_whose_an_event_is_it_waits(
    settings: Settings, bus: Bus, agent_id: UUID, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Postgres is away; not one event is shown, or passed over, before it is known whose it is."""
    from services.api.streaming.event_hub import OwnerCache
    from shared.errors import TransientError

    of, away = OwnerCache.of, True
    asked = 0

    async def of_while_away(self: OwnerCache, agent_ids: object) -> dict[UUID, UUID]:
        nonlocal asked
        asked += 1
        if away:
            raise TransientError("PostgreSQL: away")
        return await of(self, agent_ids)  # type: ignore[arg-type]  # as it was given

    async with serving(settings) as api, listening(api) as ear:
        await ear.has_place()
        monkeypatch.setattr(OwnerCache, "of", of_while_away)
        await publish(bus, agent_id, 1, 2)
        await eventually(lambda: asked >= 2, "the owners to be asked for twice")
        assert ear.numbers == []
        away = False
        await ear.hears(1, 2)
