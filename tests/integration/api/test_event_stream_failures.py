"""The event stream while the API, NATS or the stream restarts."""

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
from tests.support.api.signed_in import create_token
from tests.support.factories import make_agent
from tests.support.lost_events import events_that_are_lost
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
    """A server that a test starts and stops."""
    server = EmbeddedNats(tmp_path / "nats", free_port(), tmp_path / "nats.log")
    yield server
    server.stop()


async def publish_to(url: str, agent_id: UUID, *numbers: int) -> None:
    bus = Bus(url, name="test")
    await bus.connect()
    await publish(bus, agent_id, *numbers)
    await bus.close()


@pytest.mark.parametrize("how", [*slow(signal.SIGTERM), signal.SIGKILL])
async def test_no_event_is_lost_over_a_restart_of_the_api(
    settings: Settings, bus: Bus, agent_id: UUID, tmp_path: Path, how: signal.Signals
) -> None:
    process = OwnersApi(settings, tmp_path / "api.log", await create_token(settings))
    try:
        await process.start()
        async with listening(process) as before:
            await before.wait_for_event_id()
            await publish(bus, agent_id, 1, 2)
            await before.wait_for_numbers(1, 2)
            await process.end(how)
            await before.wait_for_end()
        await publish(bus, agent_id, 3, 4)
        await process.start()
        async with listening(process, last_event_id=before.last_event_id) as after:
            await after.wait_for_numbers(3, 4)
            await publish(bus, agent_id, 5)
            await after.wait_for_numbers(3, 4, 5)
    finally:
        await process.end(signal.SIGKILL)
    reasons = ["stopping"] if how is signal.SIGTERM else []
    assert [end["why"] for end in before.of(END)] == reasons
    assert "graceful shutdown exceeded" not in process.log.read_text()


async def test_listeners_survive_a_restart_of_nats(
    settings: Settings, own_nats: EmbeddedNats, agent_id: UUID
) -> None:
    own_nats.start()
    own = settings.model_copy(update={"nats_url": own_nats.url, "event_window": 2})
    await provision_stream(own)
    async with serving(own) as api, listening(api) as listener:
        await listener.wait_for_event_id()
        await publish_to(own.nats_url, agent_id, 1)
        await listener.wait_for_numbers(1)
        own_nats.stop()
        own_nats.start()
        await publish_to(own.nats_url, agent_id, 2, 3, 4, 5)
        await listener.wait_for_numbers(1, 2, 3, 4, 5)
        assert ids_of(listener.events) == [1, 2, 3, 4, 5]
        assert (listener.of(GAP), listener.is_over) == ([], False)


async def test_listeners_get_the_events_that_take_the_sequences_of_lost_ones(
    settings: Settings, own_nats: EmbeddedNats, agent_id: UUID, tmp_path: Path
) -> None:
    own_nats.start()
    own = settings.model_copy(update={"nats_url": own_nats.url, "event_window": 2})
    await provision_stream(own)
    await publish_to(own.nats_url, agent_id, 1)
    async with serving(own) as api, listening(api, "/events?after=0") as listener:
        with events_that_are_lost(own_nats, tmp_path / "kept"):
            await publish_to(own.nats_url, agent_id, 2, 3)
            await listener.wait_for_numbers(1, 2, 3)
        position = listener.last_event_id
        await publish_to(own.nats_url, agent_id, 4, 5, 6)
        await listener.wait_for_numbers(1, 2, 3, 4, 5, 6)
        assert ids_of(listener.events) == [1, 2, 3, 2, 3, 4]
        assert (listener.of(GAP), listener.is_over) == ([], False)
    # The api does not know any more that NATS has lost events: the position tells.
    async with serving(own) as api, listening(api, last_event_id=position) as listener:
        await listener.wait_for_numbers(4, 5, 6)
        assert (listener.of(GAP), ids_of(listener.events)) == ([], [2, 3, 4])


async def test_without_nats_other_requests_succeed_and_listeners_wait(
    settings: Settings, own_nats: EmbeddedNats, agent_id: UUID
) -> None:
    own = settings.model_copy(update={"nats_url": own_nats.url})
    async with (
        serving(own) as api,
        listening(api, "/events?after=0") as listener,
        api.client() as client,
    ):
        assert (await client.get(f"{api.url}/health/ready")).status_code == 200
        assert (await client.get("/agents")).status_code == 200
        assert not listener.is_over
        own_nats.start()
        await provision_stream(own)
        await publish_to(own.nats_url, agent_id, 1)
        await listener.wait_for_numbers(1)


async def test_a_recreated_stream_is_a_gap_and_is_sent_from_its_first_event(
    settings: Settings, bus: Bus, agent_id: UUID
) -> None:
    async with serving(settings) as api, listening(api) as listener:
        await listener.wait_for_event_id()
        await publish(bus, agent_id, 1, 2, 3)
        await listener.wait_for_numbers(1, 2, 3)
        await bus.jetstream.delete_stream(STREAM)
        await provision_stream(settings)
        await publish(bus, agent_id, 4, 5)
        await listener.wait_for_numbers(1, 2, 3, 4, 5)
        assert ids_of(listener.events) == [1, 2, 3, 1, 2]
        assert listener.of(GAP) == [{"why": "stream_made_anew", "first": 4, "last": None}]


async def test_a_purged_stream_continues(settings: Settings, bus: Bus, agent_id: UUID) -> None:
    async with serving(settings) as api, listening(api) as listener:
        await listener.wait_for_event_id()
        await publish(bus, agent_id, 1, 2)
        await listener.wait_for_numbers(1, 2)
        await bus.jetstream.purge_stream(STREAM)
        await publish(bus, agent_id, 3)
        await listener.wait_for_numbers(1, 2, 3)
        assert listener.of(GAP) == []


async def test_an_event_waits_while_its_owner_cannot_be_looked_up(
    settings: Settings, bus: Bus, agent_id: UUID, monkeypatch: pytest.MonkeyPatch
) -> None:
    """While Postgres is unavailable, no event is sent or skipped before its owner is known."""
    from services.api.streaming.event_hub import OwnerCache
    from shared.errors import TransientError

    original, is_away = OwnerCache.of, True
    lookups = 0

    async def of_or_error(self: OwnerCache, agent_ids: object) -> dict[UUID, UUID]:
        nonlocal lookups
        lookups += 1
        if is_away:
            raise TransientError("PostgreSQL: away")
        return await original(self, agent_ids)  # type: ignore[arg-type]  # passed through unchanged

    async with serving(settings) as api, listening(api) as listener:
        await listener.wait_for_event_id()
        monkeypatch.setattr(OwnerCache, "of", of_or_error)
        await publish(bus, agent_id, 1, 2)
        await eventually(lambda: lookups >= 2, "two lookups of the owners")
        assert listener.numbers == []
        is_away = False
        await listener.wait_for_numbers(1, 2)
