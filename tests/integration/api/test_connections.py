"""Deadlines and limits of a server's connections, by a clock that the tests set."""

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Final

import pytest
import uvicorn
from starlette.applications import Starlette
from starlette.requests import ClientDisconnect, Request
from starlette.responses import PlainTextResponse, Response, StreamingResponse
from starlette.routing import Route
from structlog.testing import capture_logs

from shared.runtime import connection_limits
from shared.runtime.connection_limits import (
    ACCEPTED_AT_ONCE,
    BODY_BYTES_PER_SECOND,
    BODY_SECONDS,
    CLOSING_SECONDS,
    HEAD_SECONDS,
    HEALTH_CONNECTIONS,
    UNREAD_SECONDS,
    ConnectionLimits,
    protocol_of,
)
from tests.support.waiting import until

LIVE: Final = b"GET /health/live HTTP/1.1\r\nHost: x\r\n\r\n"
UPLOAD: Final = b"POST /upload HTTP/1.1\r\nHost: x\r\nContent-Length: 100000\r\n\r\n"
HELD: Final = b"GET /held HTTP/1.1\r\nHost: x\r\n\r\n"
ENDLESS: Final = b"GET /endless HTTP/1.1\r\nHost: x\r\n\r\n"


class Client:
    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._reader = reader
        self._writer = writer

    async def send(self, data: bytes) -> None:
        self._writer.write(data)
        await self._writer.drain()

    async def status(self) -> int:
        """Of the next answer, whose head is read."""
        async with asyncio.timeout(10):
            head = await self._reader.readuntil(b"\r\n\r\n")
        return int(head.split()[1])

    async def end(self) -> bytes:
        """All that arrives until the server closes the connection."""
        found = b""
        try:
            async with asyncio.timeout(10):
                while more := await self._reader.read(65536):
                    found += more
        except ConnectionResetError:
            pass
        return found


@dataclass
class Served:
    port: int
    limits: ConnectionLimits
    release: asyncio.Event = field(default_factory=asyncio.Event)
    """Set, and the answers at /held are sent."""
    now: float = 1000.0
    cut_off: list[str] = field(default_factory=list)
    """Paths of requests whose bodies did not come to their end."""
    clients: list[Client] = field(default_factory=list)
    """A connection that nothing refers to is closed."""

    async def connect(self, data: bytes = b"", source: str = "127.0.0.1") -> Client:
        client = Client(
            *await asyncio.open_connection("127.0.0.1", self.port, local_addr=(source, 0))
        )
        self.clients.append(client)
        if data:
            await client.send(data)
        return client

    async def held(self, source: str = "127.0.0.1") -> Client:
        """On which the server is working."""
        before = self.busy
        client = await self.connect(HELD, source)
        await self.reaches(lambda: self.busy > before, "a request that is worked on")
        return client

    @property
    def busy(self) -> int:
        return len(self.limits._total.by_state[connection_limits._State.BUSY])

    @property
    def open(self) -> int:
        return len(self.limits._total)

    async def reaches(self, look: Callable[[], object], what: str) -> None:
        async def looked() -> bool:
            return bool(look())

        await until(looked, what=what)


@asynccontextmanager
async def served(limits: ConnectionLimits) -> AsyncIterator[Served]:
    async def live(_: Request) -> Response:
        return PlainTextResponse("alive")

    async def held(_: Request) -> Response:
        await found.release.wait()
        return PlainTextResponse("done")

    async def endless(_: Request) -> Response:
        async def pieces() -> AsyncIterator[bytes]:
            while True:
                yield bytes(65536)
                await asyncio.sleep(0)

        return StreamingResponse(pieces())

    async def upload(request: Request) -> Response:
        try:
            await request.body()
        except ClientDisconnect:
            found.cut_off.append(request.url.path)
        return PlainTextResponse("taken")

    app = Starlette(
        routes=[
            Route("/health/live", live),
            Route("/held", held),
            Route("/endless", endless),
            Route("/upload", upload, methods=["POST"]),
        ]
    )
    config = uvicorn.Config(
        app,
        port=0,
        http=protocol_of(limits),
        ws="none",
        log_config=None,
        access_log=False,
        timeout_graceful_shutdown=1,
    )
    server = uvicorn.Server(config)
    serving = asyncio.create_task(server.serve())
    await until(lambda: asyncio.sleep(0, server.started), what="the server")
    found = Served(server.servers[0].sockets[0].getsockname()[1], limits)
    limits.clock = lambda: found.now
    try:
        yield found
    finally:
        found.release.set()
        server.should_exit = True
        await serving


@pytest.fixture(autouse=True)
def _swept_often(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(connection_limits, "_SWEEP_SECONDS", 0.02)


@pytest.mark.parametrize(
    ("sent", "answer"),
    [
        (b"", b""),
        (b"GET /health/li", b"HTTP/1.1 408 "),
        (LIVE[:-2] + b"X-Slow: a", b"HTTP/1.1 408 "),
    ],
)
async def test_a_head_has_ten_seconds(sent: bytes, answer: bytes) -> None:
    async with served(ConnectionLimits(10, 10)) as server:
        client = await server.connect(sent)
        await server.reaches(lambda: server.open == 1, "a connection")
        server.now += HEAD_SECONDS - 1
        # More of it does not make it longer.
        await client.send(b"GE" if not sent else b"a")
        other = await server.connect(LIVE)
        assert await other.status() == 200
        server.now += 1.1
        ended = await client.end()
        assert ended.startswith(answer or b"HTTP/1.1 408 ")


async def test_an_unused_connection_is_closed_without_an_answer() -> None:
    async with served(ConnectionLimits(10, 10)) as server:
        client = await server.connect()
        await server.reaches(lambda: server.open == 1, "a connection")
        server.now += HEAD_SECONDS + 0.1
        assert await client.end() == b""


async def test_the_head_of_a_later_request_has_ten_seconds_too() -> None:
    async with served(ConnectionLimits(10, 10)) as server:
        client = await server.connect(LIVE + LIVE[:20])
        assert await client.status() == 200
        server.now += HEAD_SECONDS + 0.1
        assert b"HTTP/1.1 408 " in await client.end()


async def test_a_body_has_ten_seconds_and_longer_while_it_arrives() -> None:
    async with served(ConnectionLimits(10, 10)) as server:
        client = await server.connect(UPLOAD)
        state = server.limits._total.by_state[connection_limits._State.BODY]
        await server.reaches(lambda: len(state) == 1, "a body")
        await client.send(bytes(5 * BODY_BYTES_PER_SECOND))
        (connection,) = state
        await server.reaches(lambda: connection._body_bytes, "some of it")
        server.now += BODY_SECONDS + 4
        assert await (await server.connect(LIVE)).status() == 200
        assert server.cut_off == []
        server.now += 2
        assert (await client.end()).startswith(b"HTTP/1.1 408 ")
        await server.reaches(lambda: server.cut_off == ["/upload"], "a request that was cut off")


async def test_a_body_that_was_answered_before_its_end_cannot_hold_its_connection() -> None:
    async with served(ConnectionLimits(10, 10)) as server:
        client = await server.connect(UPLOAD.replace(b"/upload", b"/health/live"))
        assert await client.status() == 405
        await client.send(bytes(100 * BODY_BYTES_PER_SECOND // 2))
        server.now += BODY_SECONDS + 0.1
        assert b"HTTP/1.1 4" not in await client.end()


async def test_who_leaves_an_answer_unread_is_cut_off() -> None:
    async with served(ConnectionLimits(10, 10)) as server:
        client = await server.connect(ENDLESS)
        (connection,) = await _all(server, 1)
        await server.reaches(lambda: connection._unread_since, "an answer that nobody reads")
        server.now += UNREAD_SECONDS + 0.1
        await server.reaches(lambda: server.open == 0, "its end")
        assert await client.end()


async def test_who_does_not_take_the_last_of_an_answer_is_cut_off() -> None:
    async with served(ConnectionLimits(10, 10)) as server:
        client = await server.connect(ENDLESS)
        (connection,) = await _all(server, 1)
        await server.reaches(lambda: connection._unread_since, "an answer that nobody reads")
        connection.transport.close()
        await server.reaches(lambda: connection._closing_since, "a connection that is closing")
        server.now += CLOSING_SECONDS + 0.1
        await server.reaches(lambda: server.open == 0, "its end")
        assert await client.end()


async def test_work_and_its_answer_have_no_deadline() -> None:
    async with served(ConnectionLimits(10, 10)) as server:
        client = await server.held()
        server.now += 100_000
        assert await (await server.connect(LIVE)).status() == 200
        server.release.set()
        assert await client.status() == 200


async def test_half_open_connections_displace_each_other_and_nobody_else() -> None:
    limits = ConnectionLimits(100, 4)
    with capture_logs() as lines:
        async with served(limits) as server:
            busy = await server.held()
            half_open = [await server.connect(b"GET /") for _ in range(9)]
            assert await (await server.connect(LIVE)).status() == 200
            for displaced in half_open[:7]:
                assert b"Retry-After: 2" in await displaced.end()
            assert server.open == 4
            server.release.set()
            assert await busy.status() == 200
            server.now += 60
            await server.reaches(lambda: any("displaced" in line for line in lines), "a log line")


async def test_one_address_cannot_take_the_connections_of_others() -> None:
    async with served(ConnectionLimits(100, 3)) as server:
        for _ in range(3):
            await server.held()
        refused = await server.connect(LIVE)
        assert await refused.status() == 503
        assert await (await server.connect(LIVE, "127.0.0.2")).status() == 200


async def test_proxies_may_have_as_many_connections_as_there_are() -> None:
    async with served(ConnectionLimits(10, 2, proxies=["127.0.0.0/30"])) as server:
        for _ in range(5):
            await server.held("127.0.0.2")
        for _ in range(2):
            await server.held("127.0.0.5")
        assert await (await server.connect(LIVE, "127.0.0.5")).status() == 503


async def test_health_is_answered_when_all_connections_are_in_use() -> None:
    async with served(ConnectionLimits(3, 100)) as server:
        for _ in range(3):
            await server.held()
        other = await (await server.connect(UPLOAD)).end()
        assert other.startswith(b"HTTP/1.1 503 ")
        assert b"retry-after: 2" in other
        for _ in range(3 * HEALTH_CONNECTIONS):
            await server.connect(b"GET /")
            assert await (await server.connect(LIVE)).status() == 200


async def test_half_open_connections_of_many_addresses_displace_each_other() -> None:
    async with served(ConnectionLimits(10, 5)) as server:
        for number in range(100):
            await server.connect(b"GET /", f"127.0.0.{2 + number}")
        server.release.set()
        for source in ("127.0.0.1", "127.0.0.101"):
            assert await (await server.connect(HELD, source)).status() == 200
        assert server.open <= 10


async def test_a_closed_connection_is_forgotten() -> None:
    async with served(ConnectionLimits(3, 3)) as server:
        for _ in range(10):
            client = await server.connect(LIVE[:-2] + b"Connection: close\r\n\r\n")
            assert b"alive" in await client.end()
        await server.reaches(lambda: server.open == 0, "no connection")
        assert server.limits._of_address == {}


@pytest.mark.parametrize("files", [1024, 4096, 20_000])
def test_limits_leave_descriptors_for_what_is_accepted_at_once(files: int) -> None:
    limits = ConnectionLimits.within(files, 10**9, 10**9, ())
    most = limits._total.limit + HEALTH_CONNECTIONS
    assert most + 2 * ACCEPTED_AT_ONCE + 64 < files
    assert limits._total.limit > files / 2


async def _all(server: Served, count: int) -> list[connection_limits._Connection]:
    await server.reaches(lambda: server.open == count, f"{count} connections")
    return [each for found in server.limits._total.by_state.values() for each in found]
