"""Listeners that come from before the window, and those that fall out of it."""

import asyncio
import socket
from collections.abc import AsyncIterator
from uuid import UUID

import pytest

from services.api.streaming import event_stream
from shared.database.engine import Database
from shared.events.topology import STREAM
from shared.runtime.bus import Bus
from shared.runtime.settings import Settings
from tests.support.making import make_agent
from tests.support.streams import (
    END,
    GAP,
    Serving,
    concluded,
    eventually,
    ids_of,
    listening,
    publish,
    serving,
)

SMALL = 5
FLOOD = 200
LARGE_TEXT = "x" * 50_000


@pytest.fixture
async def api(settings: Settings) -> AsyncIterator[Serving]:
    """It remembers next to nothing."""
    async with serving(settings.model_copy(update={"event_window": SMALL})) as started:
        yield started


@pytest.fixture
async def agent_id(database: Database) -> UUID:
    return (await make_agent(database, name="Lithium")).id


async def test_from_before_the_window_into_it_without_a_seam(
    api: Serving, bus: Bus, agent_id: UUID, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("services.api.streaming.event_hub.CHUNK_EVENTS", 3)
    await publish(bus, agent_id, *range(1, 31))
    async with listening(api, "/events?after=2") as ear:
        await ear.hears(*range(3, 31))
        await publish(bus, agent_id, 31, 32)
        await ear.hears(*range(3, 33))
    assert ids_of(ear.events) == [*range(3, 33)]


async def test_what_is_no_longer_kept_is_a_gap(
    settings: Settings, bus: Bus, agent_id: UUID
) -> None:
    await publish(bus, agent_id, *range(1, 13))
    await bus.jetstream.purge_stream(STREAM, seq=9)
    async with serving(settings) as api:
        async with listening(api, last_event_id="3") as ear:
            await ear.hears(*range(9, 13))
        assert ear.told[1].event == GAP
        assert ear.of(GAP) == [{"why": "expired", "first": 4, "last": 8}]
        assert ear.told[1].id == "8"  # who comes back from here is not told again
        async with listening(api, last_event_id="8") as again:
            await again.hears(*range(9, 13))
        assert again.of(GAP) == []


async def test_of_a_stream_that_was_emptied_all_is_a_gap(
    settings: Settings, bus: Bus, agent_id: UUID
) -> None:
    await publish(bus, agent_id, *range(1, 6))
    async with serving(settings) as api:
        async with listening(api, last_event_id="5") as ear:
            await ear.hears()
        await bus.jetstream.purge_stream(STREAM)
        async with serving(settings) as other, listening(other, last_event_id="2") as ear:
            await eventually(lambda: bool(ear.of(GAP)), "a gap")
            await publish(bus, agent_id, 6)
            await ear.hears(6)
    assert ear.of(GAP) == [{"why": "expired", "first": 3, "last": 5}]


async def test_a_place_that_the_stream_never_had_is_a_gap_and_all_of_it_is_told(
    api: Serving, bus: Bus, agent_id: UUID
) -> None:
    await publish(bus, agent_id, 1, 2)
    async with listening(api, last_event_id="1000") as ear:
        await ear.hears(1, 2)
    assert ear.of(GAP) == [{"why": "stream_made_anew", "first": 1001, "last": None}]


async def test_who_takes_too_little_is_cut_off_with_the_reason_and_resumes(
    api: Serving, bus: Bus, agent_id: UUID, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Once it reads again: what it was sent, why it is cut off, and the end."""
    monkeypatch.setattr(event_stream, "SLOW_CHUNK_SECONDS", 0.0)
    async with Dawdler.at(api) as dawdler:
        await eventually(lambda: api.app.state.hub.listeners == 1, "it to listen")
        await dawdler.opened()
        total = await flood(bus, agent_id, api)
        sent = await dawdler.rest()
    assert b"event: end\n" in sent
    assert b'"too_slow"' in sent
    place = int(sent.rpartition(b"\nid: ")[2].split()[0])
    assert 1 < place < total
    monkeypatch.setattr(event_stream, "SLOW_CHUNK_SECONDS", 60.0)
    async with listening(api, last_event_id=str(place)) as ear:
        await eventually(lambda: len(ear.events) == total - place, "the rest")
    assert ids_of(ear.events) == [*range(place + 1, total + 1)]
    assert (ear.of(GAP), ear.of(END)) == ([], [])


async def test_who_takes_nothing_is_cut_off_and_holds_next_to_nothing(
    settings: Settings, bus: Bus, agent_id: UUID, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(event_stream, "STALLED_CHUNK_SECONDS", 0.5)
    async with serving(settings) as api, Dawdler.at(api) as dawdler:
        await dawdler.opened()
        total = await flood(bus, agent_id, api)
        await eventually(lambda: api.app.state.hub.listeners == 0, "it to be cut off")
        sent = await dawdler.rest()
    assert b"event: end\n" not in sent
    assert (
        sent.count(b"\nevent: ") < total
    )  # the system's buffers took some, and this process no more


async def flood(bus: Bus, agent_id: UUID, api: Serving) -> int:
    """More than any buffer between takes; returns how many events when the api has read them all."""
    for _ in range(FLOOD):
        await bus.publish(concluded(agent_id, LARGE_TEXT))
    await eventually(lambda: api.app.state.hub.window.last == FLOOD, "the api to read all")
    return FLOOD


class Dawdler:
    """A listener that reads only when it is told to."""

    def __init__(self, connection: socket.socket) -> None:
        self._connection = connection
        self._read = b""

    @staticmethod
    def at(api: Serving) -> "_Opened":
        return _Opened(api)

    async def opened(self) -> None:
        """It has its place."""
        loop = asyncio.get_running_loop()
        while b"id: " not in self._read:
            self._read += await loop.sock_recv(self._connection, 1000)

    async def rest(self) -> bytes:
        """All that it was sent, until it was cut off."""
        loop = asyncio.get_running_loop()
        async with asyncio.timeout(30):
            while part := await loop.sock_recv(self._connection, 1_000_000):
                self._read += part
        return self._read


class _Opened:
    def __init__(self, api: Serving) -> None:
        self._host, _, self._port = api.url.removeprefix("http://").partition(":")
        self._token = api.token
        self._connection = socket.socket()

    async def __aenter__(self) -> Dawdler:
        self._connection.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        self._connection.setblocking(False)
        loop = asyncio.get_running_loop()
        await loop.sock_connect(self._connection, (self._host, int(self._port)))
        # As HTTP/1.0, so that the answer comes as it is and not in chunks.
        asked = f"GET /api/v1/events HTTP/1.0\r\nHost: {self._host}\r\nAuthorization: Bearer {self._token}\r\n\r\n"
        await loop.sock_sendall(self._connection, asked.encode())
        return Dawdler(self._connection)

    async def __aexit__(self, *_: object) -> None:
        self._connection.close()
