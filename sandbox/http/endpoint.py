"""What happens to every billed request: latency, faults, the answer, the meter."""

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.types import Receive, Scope, Send

from sandbox.http.call import Call, RefusedError
from sandbox.http.faults import Fault, FaultBook, FaultKind
from sandbox.http.meter import Meter
from sandbox.http.scripts import ScriptQueue

SPOILING = frozenset({FaultKind.MALFORMED_JSON, FaultKind.UNKNOWN_TOOL, FaultKind.WRONG_ARGUMENTS})

ReadCall = Callable[[Request], Awaitable[Call]]
"""From a request to a call, or RefusedError."""
Respond = Callable[[Call, frozenset[FaultKind]], Awaitable["Reply"]]
"""From a call and what is to be spoiled in its answer to the reply, or RefusedError."""
ErrorShape = Callable[[str], Mapping[str, Any]]
"""How the interface words an error of the server."""


@dataclass(frozen=True, slots=True)
class Reply:
    """An answer with status 200, in the pieces it is sent in."""

    pieces: tuple[bytes, ...]
    media_type: str = "application/json"

    @property
    def streamed(self) -> bool:
        """Whether the client reads it piece by piece."""
        return self.media_type == "text/event-stream"


@dataclass(slots=True)
class Levers:
    """What a sandbox counts and what tests have ordered of it."""

    meter: Meter = field(default_factory=Meter)
    faults: FaultBook = field(default_factory=FaultBook)
    scripts: ScriptQueue = field(default_factory=ScriptQueue)

    def reset(self) -> None:
        """As if just started."""
        self.meter, self.faults, self.scripts = Meter(), FaultBook(), ScriptQueue()


@dataclass(frozen=True, slots=True)
class BilledEndpoint:
    """One path of an interface."""

    read: ReadCall
    respond: Respond
    error_shape: ErrorShape
    levers: Levers
    latency_seconds: float

    async def __call__(self, request: Request) -> Response:
        """Answer, as ordered."""
        meter = self.levers.meter
        try:
            call = await self.read(request)
        except RefusedError as error:
            return _refusal(error)
        received = meter.receive()
        faults = self.levers.faults.take(call)
        try:
            await self._delay(request, faults)
            reply = await self.respond(call, frozenset(each.kind for each in faults) & SPOILING)
        except RefusedError as error:
            there = not await request.is_disconnected()
            meter.record(call, received, error.status, delivered=there)
            return _refusal(error)
        cut = any(fault.kind is FaultKind.CUT for fault in faults)
        there = not await request.is_disconnected()
        meter.record(call, received, 200, delivered=there and not cut)
        return PiecesResponse(reply, cut=cut)

    async def _delay(self, request: Request, faults: list[Fault]) -> None:
        await asyncio.sleep(self.latency_seconds + sum(each.latency_seconds for each in faults))
        for fault in faults:
            if fault.kind is FaultKind.STATUS:
                raise self._ordered_refusal(fault)
            if fault.kind is FaultKind.HANG:
                await _client_gone(request, fault.hang_seconds)
                raise RefusedError(504, self.error_shape("The sandbox was told to hang."))

    def _ordered_refusal(self, fault: Fault) -> RefusedError:
        wait = fault.retry_after_seconds
        headers = {} if wait is None else {"retry-after": f"{wait:g}"}
        body = self.error_shape(f"The sandbox was told to answer {fault.status}.")
        return RefusedError(fault.status, body, headers)


async def _client_gone(request: Request, seconds: float) -> None:
    """Wait until the client closes its connection, at most so long."""
    try:
        async with asyncio.timeout(seconds):
            while (await request.receive())["type"] != "http.disconnect":
                continue
    except TimeoutError:
        return


def _refusal(error: RefusedError) -> Response:
    return JSONResponse(dict(error.body), error.status, dict(error.headers))


class PiecesResponse(Response):
    """A reply sent piece by piece; when cut, the connection closes after half of it."""

    def __init__(self, reply: Reply, *, cut: bool) -> None:
        super().__init__(media_type=reply.media_type)
        self._pieces = reply.pieces
        self._cut = cut
        if reply.streamed:
            del self.headers["content-length"]
        else:
            self.headers["content-length"] = str(sum(map(len, reply.pieces)))

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Leaving a response unfinished makes the server close the connection: that is the cut."""
        start = {"type": "http.response.start", "status": 200, "headers": self.raw_headers}
        await send(start)
        whole = b"".join(self._pieces)
        pieces = (whole[: len(whole) // 2],) if self._cut else self._pieces
        for piece in pieces:
            await send({"type": "http.response.body", "body": piece, "more_body": True})
        if not self._cut:
            await send({"type": "http.response.body", "body": b"", "more_body": False})
