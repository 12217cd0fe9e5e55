"""Listeners that start before the replay buffer, and listeners that are too slow."""

import asyncio
import socket
from collections.abc import AsyncIterator
from uuid import UUID

import pytest

from services.api.streaming import event_stream
from shared.database.engine import Database
from shared.events.stream_reader import StreamPosition
from shared.events.topology import STREAM
from shared.runtime.bus import Bus
from shared.runtime.settings import Settings
from tests.support.factories import make_agent
from tests.support.streams import (
    END,
    GAP,
    Serving,
    eventually,
    ids_of,
    insight_completed,
    listening,
    publish,
    serving,
)

SMALL = 5
FLOOD = 200
LARGE_TEXT = "x" * 50_000


@pytest.fixture
async def api(settings: Settings) -> AsyncIterator[Serving]:
    """An API with a small replay buffer."""
    async with serving(settings.model_copy(update={"event_window": SMALL})) as started:
        yield started


@pytest.fixture
async def agent_id(database: Database) -> UUID:
    return (await make_agent(database, name="Lithium")).id


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
