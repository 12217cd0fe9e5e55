"""Deadlines and limits of a server's connections, measured by a clock that the tests set."""

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
from tests.support.waiting import wait_until

LIVE: Final = b"GET /health/live HTTP/1.1\r\nHost: x\r\n\r\n"
UPLOAD: Final = b"POST /upload HTTP/1.1\r\nHost: x\r\nContent-Length: 100000\r\n\r\n"
BLOCKING: Final = b"GET /blocking HTTP/1.1\r\nHost: x\r\n\r\n"
ENDLESS: Final = b"GET /endless HTTP/1.1\r\nHost: x\r\n\r\n"


class Client:
    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._reader = reader
        self._writer = writer

    async def send(self, data: bytes) -> None:
        self._writer.write(data)
        await self._writer.drain()

    async def status(self) -> int:
        """Reads the head of the next response; returns its status."""
        async with asyncio.timeout(10):
            head = await self._reader.readuntil(b"\r\n\r\n")
        return int(head.split()[1])

    async def body(self, length: int) -> bytes:
        async with asyncio.timeout(10):
            return await self._reader.readexactly(length)

    async def end(self) -> bytes:
        """Returns all bytes that arrive until the server closes the connection."""
        received = b""
        try:
            async with asyncio.timeout(10):
                while data := await self._reader.read(65536):
                    received += data
        except ConnectionResetError:
            pass
        return received


@dataclass
class Server:
    port: int
    limits: ConnectionLimits
    release: asyncio.Event = field(default_factory=asyncio.Event)
    """When set, responses at /blocking are sent."""
    now: float = 1000.0
    cut_off: list[str] = field(default_factory=list)
    """Paths of requests whose bodies did not arrive in full."""
    clients: list[Client] = field(default_factory=list)
    """Keeps the connections open: an unreferenced one is closed."""

    async def connect(self, data: bytes = b"", source: str = "127.0.0.1") -> Client:
        client = Client(
            *await asyncio.open_connection("127.0.0.1", self.port, local_addr=(source, 0))
        )
        self.clients.append(client)
        if data:
            await client.send(data)
        return client

    async def connect_blocking(self, source: str = "127.0.0.1") -> Client:
        """Returns a client whose request the server is handling."""
        before = self.busy
        client = await self.connect(BLOCKING, source)
        await self.wait_until(lambda: self.busy > before, "a request in progress")
        return client

    @property
    def busy(self) -> int:
        return len(self.limits._total.by_state[connection_limits._State.BUSY])

    @property
    def open(self) -> int:
        return len(self.limits._total)

    async def wait_until(self, condition: Callable[[], object], what: str) -> None:
        async def is_reached() -> bool:
            return bool(condition())

        await wait_until(is_reached, what=what)


@asynccontextmanager
async def serve(limits: ConnectionLimits) -> AsyncIterator[Server]:
    async def live(_: Request) -> Response:
        return PlainTextResponse("alive")

    async def blocking(_: Request) -> Response:
        await harness.release.wait()
        return PlainTextResponse("done")

    async def endless(_: Request) -> Response:
        async def chunks() -> AsyncIterator[bytes]:
            while True:
                yield bytes(65536)
                await asyncio.sleep(0)

        return StreamingResponse(chunks())

    async def upload(request: Request) -> Response:
        try:
            await request.body()
        except ClientDisconnect:
            harness.cut_off.append(request.url.path)
        return PlainTextResponse("taken")

    app = Starlette(
        routes=[
            Route("/health/live", live),
            Route("/blocking", blocking),
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
    await wait_until(lambda: asyncio.sleep(0, server.started), what="the server")
    harness = Server(server.servers[0].sockets[0].getsockname()[1], limits)
    limits.clock = lambda: harness.now
    try:
        yield harness
    finally:
        harness.release.set()
        server.should_exit = True
        await serving


@pytest.fixture(autouse=True)
def _frequent_sweeps(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(connection_limits, "_SWEEP_SECONDS", 0.02)


@pytest.mark.parametrize(
    ("head", "expected"),
    [
        (b"", b""),
        (b"GET /health/li", b"HTTP/1.1 408 "),
        (LIVE[:-2] + b"X-Slow: a", b"HTTP/1.1 408 "),
    ],
)
async def test_a_request_head_has_a_deadline_of_ten_seconds(head: bytes, expected: bytes) -> None:
    async with serve(ConnectionLimits(10, 10)) as server:
        client = await server.connect(head)
        await server.wait_until(lambda: server.open == 1, "a connection")
        server.now += HEAD_SECONDS - 1
        # More bytes do not extend the deadline.
        await client.send(b"GE" if not head else b"a")
        other = await server.connect(LIVE)
        assert await other.status() == 200
        server.now += 1.1
        response = await client.end()
        assert response.startswith(expected or b"HTTP/1.1 408 ")


@pytest.mark.parametrize("target_bytes", [7_900, 8_192, 9_000, 10_240])
@pytest.mark.parametrize("piece_bytes", [1_448, 4_096, 100_000])
async def test_a_long_address_is_answered_at_once_in_whatever_pieces_it_arrives(
    target_bytes: int, piece_bytes: int
) -> None:
    """Also on a connection that has had a request."""
    head = LIVE.replace(b"/live", b"/live?" + b"x" * target_bytes)
    async with serve(ConnectionLimits(10, 10)) as server:
        client = await server.connect()
        for _ in range(2):
            for start in range(0, len(head), piece_bytes):
                await client.send(head[start : start + piece_bytes])
                await asyncio.sleep(0)
            assert await client.status() == 200
            await client.body(len("alive"))


async def test_an_unused_connection_is_closed_without_a_response() -> None:
    async with serve(ConnectionLimits(10, 10)) as server:
        client = await server.connect()
        await server.wait_until(lambda: server.open == 1, "a connection")
        server.now += HEAD_SECONDS + 0.1
        assert await client.end() == b""


async def test_the_head_of_a_later_request_has_the_same_deadline() -> None:
    async with serve(ConnectionLimits(10, 10)) as server:
        client = await server.connect(LIVE + LIVE[:20])
        assert await client.status() == 200
        server.now += HEAD_SECONDS + 0.1
        assert b"HTTP/1.1 408 " in await client.end()


async def test_a_body_has_ten_seconds_and_more_while_it_arrives() -> None:
    async with serve(ConnectionLimits(10, 10)) as server:
        client = await server.connect(UPLOAD)
        state = server.limits._total.by_state[connection_limits._State.BODY]
        await server.wait_until(lambda: len(state) == 1, "a body")
        await client.send(bytes(5 * BODY_BYTES_PER_SECOND))
        (connection,) = state
        await server.wait_until(lambda: connection._body_bytes, "a part of it")
        server.now += BODY_SECONDS + 4
        assert await (await server.connect(LIVE)).status() == 200
        assert server.cut_off == []
        server.now += 2
        assert (await client.end()).startswith(b"HTTP/1.1 408 ")
        await server.wait_until(lambda: server.cut_off == ["/upload"], "an aborted request")


async def test_a_body_answered_before_its_end_does_not_keep_its_connection_open() -> None:
    async with serve(ConnectionLimits(10, 10)) as server:
        client = await server.connect(UPLOAD.replace(b"/upload", b"/health/live"))
        assert await client.status() == 405
        await client.send(bytes(100 * BODY_BYTES_PER_SECOND // 2))
        server.now += BODY_SECONDS + 0.1
        assert b"HTTP/1.1 4" not in await client.end()


async def test_a_client_that_does_not_read_the_response_is_disconnected() -> None:
    async with serve(ConnectionLimits(10, 10)) as server:
        client = await server.connect(ENDLESS)
        (connection,) = await _connections(server, 1)
        await server.wait_until(lambda: connection._unread_since, "an unread response")
        server.now += UNREAD_SECONDS + 0.1
        await server.wait_until(lambda: server.open == 0, "its end")
        assert await client.end()


async def test_a_client_that_does_not_read_the_end_of_the_response_is_disconnected() -> None:
    async with serve(ConnectionLimits(10, 10)) as server:
        client = await server.connect(ENDLESS)
        (connection,) = await _connections(server, 1)
        await server.wait_until(lambda: connection._unread_since, "an unread response")
        connection.transport.close()
        await server.wait_until(lambda: connection._closing_since, "a connection that is closing")
        server.now += CLOSING_SECONDS + 0.1
        await server.wait_until(lambda: server.open == 0, "its end")
        assert await client.end()


async def test_handling_a_request_has_no_deadline() -> None:
    async with serve(ConnectionLimits(10, 10)) as server:
        client = await server.connect_blocking()
        server.now += 100_000
        assert await (await server.connect(LIVE)).status() == 200
        server.release.set()
        assert await client.status() == 200


async def test_half_open_connections_displace_only_each_other() -> None:
    limits = ConnectionLimits(100, 4)
    with capture_logs() as lines:
        async with serve(limits) as server:
            busy = await server.connect_blocking()
            half_open = [await server.connect(b"GET /") for _ in range(9)]
            assert await (await server.connect(LIVE)).status() == 200
            for displaced in half_open[:7]:
                assert b"Retry-After: 2" in await displaced.end()
            assert server.open == 4
            server.release.set()
            assert await busy.status() == 200
            server.now += 60
            await server.wait_until(
                lambda: any("displaced" in line for line in lines), "a log line"
            )


async def test_connections_are_limited_per_address() -> None:
    async with serve(ConnectionLimits(100, 3)) as server:
        for _ in range(3):
            await server.connect_blocking()
        rejected = await (await server.connect(UPLOAD)).end()
        assert rejected.startswith(b"HTTP/1.1 503 ")
        assert b"retry-after: 2" in rejected
        await server.connect_blocking("127.0.0.2")


async def test_health_checks_succeed_when_all_connections_of_the_address_are_in_use() -> None:
    async with serve(ConnectionLimits(100, 3)) as server:
        for _ in range(3):
            await server.connect_blocking()
        for _ in range(3 * HEALTH_CONNECTIONS):
            await server.connect(b"GET /")
            assert await (await server.connect(LIVE)).status() == 200
        assert server.open <= 3 + HEALTH_CONNECTIONS


async def test_proxies_are_limited_only_by_the_total() -> None:
    async with serve(ConnectionLimits(10, 2, proxies=["127.0.0.0/30"])) as server:
        for _ in range(5):
            await server.connect_blocking("127.0.0.2")
        for _ in range(2):
            await server.connect_blocking("127.0.0.5")
        rejected = await (await server.connect(UPLOAD, "127.0.0.5")).end()
        assert rejected.startswith(b"HTTP/1.1 503 ")


async def test_health_checks_succeed_when_all_connections_are_in_use() -> None:
    async with serve(ConnectionLimits(3, 100)) as server:
        for _ in range(3):
            await server.connect_blocking()
        rejected = await (await server.connect(UPLOAD)).end()
        assert rejected.startswith(b"HTTP/1.1 503 ")
        assert b"retry-after: 2" in rejected
        for _ in range(3 * HEALTH_CONNECTIONS):
            await server.connect(b"GET /")
            assert await (await server.connect(LIVE)).status() == 200


async def test_half_open_connections_of_many_addresses_displace_each_other() -> None:
    async with serve(ConnectionLimits(10, 5)) as server:
        for number in range(100):
            await server.connect(b"GET /", f"127.0.0.{2 + number}")
        server.release.set()
        for source in ("127.0.0.1", "127.0.0.101"):
            assert await (await server.connect(BLOCKING, source)).status() == 200
        assert server.open <= 10


async def test_a_closed_connection_is_no_longer_counted() -> None:
    async with serve(ConnectionLimits(3, 3)) as server:
        for _ in range(10):
            client = await server.connect(LIVE[:-2] + b"Connection: close\r\n\r\n")
            assert b"alive" in await client.end()
        await server.wait_until(lambda: server.open == 0, "no connection")
        assert server.limits._of_address == {}


@pytest.mark.parametrize("files", [1024, 4096, 20_000])
def test_limits_leave_file_descriptors_for_connections_accepted_at_once(files: int) -> None:
    limits = ConnectionLimits.within(files, 10**9, 10**9, ())
    max_connections = limits._total.limit + HEALTH_CONNECTIONS
    assert max_connections + 2 * ACCEPTED_AT_ONCE + 64 < files
    assert limits._total.limit > files / 2


async def _connections(server: Server, count: int) -> list[connection_limits._Connection]:
    await server.wait_until(lambda: server.open == count, f"{count} connections")
    return [
        connection
        for connections in server.limits._total.by_state.values()
        for connection in connections
    ]
