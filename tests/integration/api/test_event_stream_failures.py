"""The event stream while the API, NATS or the stream restarts, positions in it, and many listeners."""

import asyncio
import signal
import socket
from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from uuid import UUID

import pytest

from cli.local.nats import EmbeddedNats
from cli.local.ports import free_port
from services.api.streaming import event_stream
from shared.database.engine import Database
from shared.events import stream_reader
from shared.events.stream_reader import StreamPosition
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
    Serving,
    eventually,
    ids_of,
    insight_completed,
    listening,
    publish,
    serving,
)


@pytest.fixture
async def agent_id(database: Database) -> UUID:
    return (await make_agent(database, name="Lithium")).id


@pytest.fixture(autouse=True)
def _short_fetches(monkeypatch: pytest.MonkeyPatch) -> None:
    """A fetch that waits when NATS restarts gets no answer: this is how long it goes on waiting."""
    monkeypatch.setattr(stream_reader, "FETCH_SECONDS", 1.0)


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


SMALL = 5

FLOOD = 200

LARGE_TEXT = "x" * 50_000


@pytest.fixture
async def api(settings: Settings) -> AsyncIterator[Serving]:
    """An API with a small replay buffer."""
    async with serving(settings.model_copy(update={"event_window": SMALL})) as started:
        yield started


async def test_a_replay_from_before_the_buffer_continues_in_it_without_loss(
    api: Serving, bus: Bus, agent_id: UUID, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("services.api.streaming.event_hub.CHUNK_EVENTS", 3)
    await publish(bus, agent_id, *range(1, 31))
    async with listening(api, "/events?after=2") as listener:
        await listener.wait_for_numbers(*range(3, 31))
        await publish(bus, agent_id, 31, 32)
        await listener.wait_for_numbers(*range(3, 33))
    assert ids_of(listener.events) == [*range(3, 33)]


async def test_expired_events_are_reported_as_a_gap(
    settings: Settings, bus: Bus, agent_id: UUID
) -> None:
    await publish(bus, agent_id, *range(1, 13))
    await bus.jetstream.purge_stream(STREAM, seq=9)
    async with serving(settings) as api:
        async with listening(api, last_event_id="3") as listener:
            await listener.wait_for_numbers(*range(9, 13))
        assert listener.received[1].event == GAP
        assert listener.of(GAP) == [{"why": "expired", "first": 4, "last": 8}]
        assert listener.received[1].id == "8"  # a client that resumes here gets no second gap
        async with listening(api, last_event_id="8") as resumed:
            await resumed.wait_for_numbers(*range(9, 13))
        assert resumed.of(GAP) == []


async def test_all_events_of_a_purged_stream_are_reported_as_a_gap(
    settings: Settings, bus: Bus, agent_id: UUID
) -> None:
    await publish(bus, agent_id, *range(1, 6))
    async with serving(settings) as api:
        async with listening(api, last_event_id="5") as listener:
            await listener.wait_for_numbers()
        await bus.jetstream.purge_stream(STREAM)
        async with serving(settings) as other, listening(other, last_event_id="2") as listener:
            await eventually(lambda: bool(listener.of(GAP)), "a gap")
            await publish(bus, agent_id, 6)
            await listener.wait_for_numbers(6)
    assert listener.of(GAP) == [{"why": "expired", "first": 3, "last": 5}]


async def test_a_position_beyond_the_stream_is_a_gap_and_all_events_are_sent(
    api: Serving, bus: Bus, agent_id: UUID
) -> None:
    await publish(bus, agent_id, 1, 2)
    async with listening(api, last_event_id="1000") as listener:
        await listener.wait_for_numbers(1, 2)
    assert listener.of(GAP) == [{"why": "stream_made_anew", "first": 1001, "last": None}]


async def test_a_slow_client_is_disconnected_with_the_reason_and_resumes(
    api: Serving, bus: Bus, agent_id: UUID, monkeypatch: pytest.MonkeyPatch
) -> None:
    """When the client reads again it gets the buffered events, the reason and the end."""
    monkeypatch.setattr(event_stream, "SLOW_CHUNK_SECONDS", 0.0)
    async with SlowClient.at(api) as client:
        await eventually(lambda: api.app.state.hub.listeners == 1, "the client to listen")
        await client.wait_for_position()
        total = await flood(bus, agent_id, api)
        received = await client.read_to_end()
    assert b"event: end\n" in received
    assert b'"too_slow"' in received
    event_id = received.rpartition(b"\nid: ")[2].split()[0].decode()
    position = StreamPosition.parse(event_id).sequence
    assert 1 < position < total
    monkeypatch.setattr(event_stream, "SLOW_CHUNK_SECONDS", 60.0)
    async with listening(api, last_event_id=event_id) as listener:
        await eventually(lambda: len(listener.events) == total - position, "the rest")
    assert ids_of(listener.events) == [*range(position + 1, total + 1)]
    assert (listener.of(GAP), listener.of(END)) == ([], [])


async def test_a_stalled_client_is_disconnected_and_little_is_buffered_for_it(
    settings: Settings, bus: Bus, agent_id: UUID, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(event_stream, "STALLED_CHUNK_SECONDS", 0.5)
    async with serving(settings) as api, SlowClient.at(api) as client:
        await client.wait_for_position()
        total = await flood(bus, agent_id, api)
        await eventually(lambda: api.app.state.hub.listeners == 0, "the client to be disconnected")
        received = await client.read_to_end()
    assert b"event: end\n" not in received
    assert (
        received.count(b"\nevent: ") < total
    )  # only the buffers of the operating system took some


async def flood(bus: Bus, agent_id: UUID, api: Serving) -> int:
    """Publishes more than all buffers hold; returns the number of events once the API has read them."""
    for _ in range(FLOOD):
        await bus.publish(insight_completed(agent_id, LARGE_TEXT))
    await eventually(lambda: api.app.state.hub.window.last == FLOOD, "the api to read all")
    return FLOOD


class SlowClient:
    """A listener that reads only on request."""

    def __init__(self, connection: socket.socket) -> None:
        self._connection = connection
        self._read = b""

    @staticmethod
    def at(api: Serving) -> "_SlowClientContext":
        return _SlowClientContext(api)

    async def wait_for_position(self) -> None:
        """Reads until the first position arrives."""
        loop = asyncio.get_running_loop()
        while b"id: " not in self._read:
            self._read += await loop.sock_recv(self._connection, 1000)

    async def read_to_end(self) -> bytes:
        """Returns all that was received until the connection was closed."""
        loop = asyncio.get_running_loop()
        async with asyncio.timeout(30):
            while chunk := await loop.sock_recv(self._connection, 1_000_000):
                self._read += chunk
        return self._read


class _SlowClientContext:
    def __init__(self, api: Serving) -> None:
        self._host, _, self._port = api.url.removeprefix("http://").partition(":")
        self._token = api.token
        self._connection = socket.socket()

    async def __aenter__(self) -> SlowClient:
        self._connection.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        self._connection.setblocking(False)
        loop = asyncio.get_running_loop()
        await loop.sock_connect(self._connection, (self._host, int(self._port)))
        # HTTP/1.0, so that the response is not chunked.
        request = f"GET /api/v1/events HTTP/1.0\r\nHost: {self._host}\r\nAuthorization: Bearer {self._token}\r\n\r\n"
        await loop.sock_sendall(self._connection, request.encode())
        return SlowClient(self._connection)

    async def __aexit__(self, *_: object) -> None:
        self._connection.close()
