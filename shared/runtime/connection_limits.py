"""Limits per client of an HTTP server: time to send a request, connections, and memory for unread responses.

uvicorn has no deadline for a request's head or body, and no limit by address. `protocol_of` adds both to its HTTP/1.1
protocol. At a limit, a new connection replaces the oldest one that has not sent its request, so half-open connections
displace each other, and a client that sends a request at once is always served.
"""

import asyncio
import os
import resource
import socket
from collections import Counter, OrderedDict
from collections.abc import Callable, Iterable
from contextlib import suppress
from enum import Enum, auto
from ipaddress import IPv6Address, ip_address, ip_network
from time import monotonic
from typing import Any, Final

import h11
from starlette.types import ASGIApp, Receive, Scope, Send
from uvicorn.protocols.http.h11_impl import H11Protocol

from shared.runtime.logging import logger

HEAD_SECONDS: Final = 10.0
"""From the start of a connection, or the first byte of a later request, to the end of the request's head."""
BODY_SECONDS: Final = 10.0
"""From the end of the head to the end of the body; extended by what has arrived, at `BODY_BYTES_PER_SECOND`."""
BODY_BYTES_PER_SECOND: Final = 1024
IDLE_SECONDS: Final = 5
"""Between two requests of one connection."""
UNREAD_SECONDS: Final = 60.0
"""How long a client may leave a response unread. Event streams have a shorter limit of their own."""
CLOSING_SECONDS: Final = 10.0
"""How long a closed connection may take to deliver what was written to it."""
RETRY_AFTER_SECONDS: Final = 2
HEALTH: Final = "/health/"
HEALTH_CONNECTIONS: Final = 32
"""In addition to the total limit, for health checks only."""
ACCEPTED_AT_ONCE: Final = 64
"""Connections that asyncio accepts in one go; more would delay other requests."""
WAITING_TO_BE_ACCEPTED: Final = 2048
"""Backlog in the kernel, which needs no file descriptors."""
SPARE_FILES: Final = 128
"""File descriptors for databases, the bus and logs."""
LOW_FILE_LIMIT: Final = 4096
MAX_FILES: Final = 65_536
"""More descriptors than any limit here needs; some systems allow a billion."""
_SWEEP_SECONDS: Final = 1.0
_LOG_SECONDS: Final = 10.0
_NETWORK_BITS: Final = 64

log = logger(__name__)


def address_group(host: str) -> str:
    """The address that a client's connections are counted by: for IPv6 its /64 network, which one client usually owns."""
    try:
        address = ip_address(host)
    except ValueError:
        return host
    if not isinstance(address, IPv6Address):
        return host
    if address.ipv4_mapped is not None:
        return str(address.ipv4_mapped)
    return address.exploded[: _NETWORK_BITS // 4 + _NETWORK_BITS // 16 - 1]


def raise_file_limit() -> int:
    """Raises this process's soft limit of open files to the hard limit and returns it. Logs a low limit."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    new_limit = MAX_FILES if hard == resource.RLIM_INFINITY else min(hard, MAX_FILES)
    if soft != resource.RLIM_INFINITY and soft < new_limit:
        # macOS reports a hard limit that it does not grant; then the soft limit stays.
        with suppress(ValueError, OSError):
            resource.setrlimit(resource.RLIMIT_NOFILE, (new_limit, hard))
            soft = new_limit
    files = MAX_FILES if soft == resource.RLIM_INFINITY else soft
    if files < LOW_FILE_LIMIT:
        log.warning(
            "the limit on open files is low; to allow more connections, raise the hard limit (ulimit -Hn)",
            files=files,
            recommended=LOW_FILE_LIMIT,
        )
    return files


def lengthen_queues(sockets: Iterable[Any]) -> None:
    """Raises the backlog of listening sockets, which asyncio sets to the number that it accepts at once."""
    for listening_socket in sockets:
        with socket.socket(fileno=os.dup(listening_socket.fileno())) as duplicate:
            duplicate.listen(WAITING_TO_BE_ACCEPTED)


class _State(Enum):
    """What a connection is doing, in the order in which connections are displaced."""

    HEAD = auto()
    """The client has not sent all of a request's head."""
    IDLE = auto()
    """A request was answered, and no other has started."""
    BODY = auto()
    """The client has not sent all of a request's body."""
    BUSY = auto()
    """The server handles a request, or sends its response."""


class _Pool:
    """Connections that share a limit, in the order in which they entered their state."""

    def __init__(self, limit: int) -> None:
        self.limit = limit
        self.by_state: dict[_State, OrderedDict[_Connection, None]] = {
            state: OrderedDict() for state in _State
        }

    def __len__(self) -> int:
        return sum(map(len, self.by_state.values()))

    @property
    def is_busy(self) -> bool:
        """True if none of its connections can be displaced by a new one."""
        return len(self.by_state[_State.BUSY]) >= self.limit

    def oldest_waiting(self) -> "_Connection | None":
        """The connection to displace first; None if all are busy."""
        for state, connections in self.by_state.items():
            if connections and state is not _State.BUSY:
                return next(iter(connections))
        return None


class ConnectionLimits:
    """Counts a server's connections, in total and by address, and closes those beyond a limit."""

    def __init__(
        self,
        total: int,
        per_address: int,
        *,
        proxies: Iterable[str] = (),
        clock: Callable[[], float] = monotonic,
    ) -> None:
        """`proxies` are addresses and networks without a limit by address."""
        self.clock = clock
        self._total = _Pool(total)
        self._per_address = per_address
        self._of_address: dict[str, _Pool] = {}
        proxy_list = list(proxies)
        self._trusts_all = "*" in proxy_list
        self._proxies = [
            ip_network(network, strict=False) for network in proxy_list if network != "*"
        ]
        self._sweeping: asyncio.TimerHandle | None = None
        self._closed: Counter[str] = Counter()
        self._logged_at = -_LOG_SECONDS

    @classmethod
    def within(
        cls, files: int, total: int, per_address: int, proxies: Iterable[str]
    ) -> "ConnectionLimits":
        """Limits to `total`, but at most what a process with `files` file descriptors can have."""
        possible = files - 2 * ACCEPTED_AT_ONCE - SPARE_FILES - HEALTH_CONNECTIONS
        return cls(max(1, min(total, possible)), per_address, proxies=proxies)

    def open(self, connection: "_Connection") -> None:
        """Counts a new connection; displaces another for it, or refuses it if all others are busy."""
        address = None if self._is_proxy(connection.host) else address_group(connection.host)
        pools = [self._total]
        if address in self._of_address:
            pools.insert(0, self._of_address[address])
        # If no half-open connection can be displaced, new connections are accepted only for health checks.
        all_busy = any(pool.is_busy for pool in pools)
        for pool in pools:
            if len(pool) < pool.limit + (HEALTH_CONNECTIONS if pool.is_busy else 0):
                continue
            displaced = pool.oldest_waiting()
            if displaced is None:
                self.close(connection, "refused", status=503)
                return
            self.close(displaced, "displaced", status=503)
        if all_busy:
            connection.answer_health_only()
        connection.pools.append(self._total)
        if address is not None:
            pool_of_address = self._of_address.setdefault(address, _Pool(self._per_address))
            connection.pools.append(pool_of_address)
        self.enter(connection, connection.state)
        self._sweep_soon()

    def enter(self, connection: "_Connection", state: _State) -> None:
        for pool in connection.pools:
            pool.by_state[connection.state].pop(connection, None)
            pool.by_state[state][connection] = None
        connection.state = state

    def forget(self, connection: "_Connection") -> None:
        """Stops counting a connection. Idempotent."""
        for pool in connection.pools:
            pool.by_state[connection.state].pop(connection, None)
        connection.pools = []
        address = address_group(connection.host)
        if address in self._of_address and not len(self._of_address[address]):
            del self._of_address[address]

    def close(self, connection: "_Connection", why: str, *, status: int) -> None:
        self._closed[why] += 1
        self.forget(connection)
        connection.end(status)
        self._sweep_soon()

    def _is_proxy(self, host: str) -> bool:
        try:
            address = ip_address(host)
        except ValueError:
            return False
        if isinstance(address, IPv6Address) and address.ipv4_mapped is not None:
            address = address.ipv4_mapped
        return self._trusts_all or any(address in network for network in self._proxies)

    def _sweep_soon(self) -> None:
        if self._sweeping is None:
            loop = asyncio.get_running_loop()
            self._sweeping = loop.call_later(_SWEEP_SECONDS, self._sweep)

    def _sweep(self) -> None:
        self._sweeping = None
        now = self.clock()
        connections = [
            connection_item for queue in self._total.by_state.values() for connection_item in queue
        ]
        for connection in connections:
            if (why := connection.overdue(now)) is not None:
                self.close(connection, why, status=408)
        self._log(now)
        if connections or self._closed:
            self._sweep_soon()

    def _log(self, now: float) -> None:
        """One line for all connections closed since the last one."""
        if not self._closed or now - self._logged_at < _LOG_SECONDS:
            return
        top_address = max(
            self._of_address, key=lambda address: len(self._of_address[address]), default=None
        )
        log.warning(
            "closed connections that exceeded the client limits",
            **self._closed,
            open=len(self._total),
            busiest_address=top_address,
            open_from_there=0 if top_address is None else len(self._of_address[top_address]),
        )
        self._closed.clear()
        self._logged_at = now


class _Connection(H11Protocol):
    """uvicorn's connection, with limits."""

    def __init__(self, limits: ConnectionLimits, **of_uvicorn: Any) -> None:
        super().__init__(**of_uvicorn)
        self.limits = limits
        self.pools: list[_Pool] = []
        self.state = _State.HEAD
        self.host = ""
        self._since = 0.0
        self._body_bytes = 0
        self._unread_since: float | None = None
        self._closing_since: float | None = None

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]  # as in uvicorn
        super().connection_made(transport)
        self.host = self.client[0] if self.client else ""
        self._since = self.limits.clock()
        self.limits.open(self)

    def connection_lost(self, exc: Exception | None) -> None:
        self.limits.forget(self)
        super().connection_lost(exc)

    def data_received(self, data: bytes) -> None:
        if self.transport.is_closing():
            return
        self._body_bytes += len(data)
        super().data_received(data)
        self._update_state()

    def on_response_complete(self) -> None:
        super().on_response_complete()
        self._update_state()

    def pause_writing(self) -> None:
        super().pause_writing()
        self._unread_since = self.limits.clock()

    def resume_writing(self) -> None:
        super().resume_writing()
        self._unread_since = None

    def answer_health_only(self) -> None:
        self.app = _health_only(self.app)

    def overdue(self, now: float) -> str | None:
        """Which deadline has passed, or None."""
        if self.transport.is_closing():
            if self._closing_since is None:
                self._closing_since = now
            return "undelivered" if now - self._closing_since > CLOSING_SECONDS else None
        if self._unread_since is not None and now - self._unread_since > UNREAD_SECONDS:
            return "unread"
        seconds = now - self._since
        match self.state:
            case _State.HEAD:
                return "slow_head" if seconds > HEAD_SECONDS else None
            case _State.IDLE:
                return "idle" if seconds > IDLE_SECONDS + _SWEEP_SECONDS else None
            case _State.BODY:
                return self._overdue_body(now)
            case _State.BUSY:
                return None

    def end(self, status: int) -> None:
        """Closes the connection at once, with an error response if none has started."""
        if not self.transport.is_closing() and self._may_respond(status):
            self.transport.write(_RESPONSES[status])
        if self.transport.get_write_buffer_size():
            self.transport.abort()
        else:
            self.transport.close()

    def _update_state(self) -> None:
        state = self._state_now()
        if state is not self.state and self.pools:
            self._since, self._body_bytes = self.limits.clock(), 0
            self.limits.enter(self, state)

    def _state_now(self) -> _State:
        if self.conn.their_state is h11.SEND_BODY:
            return _State.BODY
        if self.conn.their_state is not h11.IDLE:
            return _State.BUSY
        return _State.HEAD if self.cycle is None or self.conn.trailing_data[0] else _State.IDLE

    def _may_respond(self, status: int) -> bool:
        if self.state is _State.HEAD:
            # Browsers open connections in advance, and expect no response on an unused one.
            return status != 408 or bool(self.conn.trailing_data[0])
        return self.state is _State.BODY and not self.cycle.response_started

    def _overdue_body(self, now: float) -> str | None:
        has_response = self.cycle.response_complete
        if not has_response and (self.flow.read_paused or self.cycle.waiting_for_100_continue):
            # The application has not read it yet.
            self._since, self._body_bytes = now, 0
        more = 0.0 if has_response else self._body_bytes / BODY_BYTES_PER_SECOND
        return "slow_body" if now - self._since > BODY_SECONDS + more else None


def protocol_of(limits: ConnectionLimits) -> type[asyncio.Protocol]:
    """The HTTP protocol class for uvicorn."""

    class Connection(_Connection):
        def __init__(self, **of_uvicorn: Any) -> None:
            super().__init__(limits, **of_uvicorn)

    return Connection


def _response(status: str, *headers: str, text: str) -> bytes:
    lines = [
        f"HTTP/1.1 {status}",
        "Content-Type: text/plain; charset=utf-8",
        f"Content-Length: {len(text)}",
        "Connection: close",
        *headers,
    ]
    return ("\r\n".join(lines) + f"\r\n\r\n{text}").encode()


_RETRY_AFTER: Final = ("Retry-After", str(RETRY_AFTER_SECONDS))
_TOO_MANY_TEXT: Final = "Too many connections are open: try again in a few seconds.\n"
_RESPONSES: Final = {
    408: _response("408 Request Timeout", text="The request took too long to arrive.\n"),
    503: _response("503 Service Unavailable", ": ".join(_RETRY_AFTER), text=_TOO_MANY_TEXT),
}


def _health_only(app: ASGIApp) -> ASGIApp:
    headers = [
        (name.lower().encode(), value.encode())
        for name, value in (_RETRY_AFTER, ("Connection", "close"))
    ]

    async def answer(scope: Scope, receive: Receive, send: Send) -> None:
        if scope["path"].startswith(HEALTH):
            await app(scope, receive, send)
            return
        body = _TOO_MANY_TEXT.encode()
        length = (b"content-length", str(len(body)).encode())
        await send({"type": "http.response.start", "status": 503, "headers": [*headers, length]})
        await send({"type": "http.response.body", "body": body})

    return answer
