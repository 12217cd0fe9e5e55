"""What happens to every billed request: latency, faults, the answer, the meter."""

import asyncio
from collections.abc import Awaitable, Callable, Iterable, Mapping
from dataclasses import dataclass, field
from functools import partial
from typing import Any

from starlette.requests import Request
from starlette.responses import Response

from sandbox.http.call import Call, RefusedError
from sandbox.http.faults import Fault, FaultBook, FaultKind
from sandbox.http.keys import KeyMemory
from sandbox.http.meter import Meter
from sandbox.http.reply import PiecesResponse, Reply, Sending, refusal
from sandbox.http.scripts import ScriptQueue

SPOILING = frozenset({FaultKind.MALFORMED_JSON, FaultKind.UNKNOWN_TOOL, FaultKind.WRONG_ARGUMENTS})

ReadCall = Callable[[Request], Awaitable[Call]]
"""From a request to a call, or RefusedError."""
Respond = Callable[[Call, frozenset[FaultKind]], Awaitable[Reply]]
"""From a call and what is to be spoiled in its answer to the reply, or RefusedError."""
ErrorShape = Callable[[str], Mapping[str, Any]]
"""How the interface words an error of the server."""


@dataclass(slots=True)
class Levers:
    """What a sandbox counts and what tests have ordered of it."""

    meter: Meter = field(default_factory=Meter)
    faults: FaultBook = field(default_factory=FaultBook)
    scripts: ScriptQueue = field(default_factory=ScriptQueue)
    keys: KeyMemory = field(default_factory=KeyMemory)

    def reset(self) -> None:
        """As if just started."""
        self.meter, self.faults = Meter(), FaultBook()
        self.scripts, self.keys = ScriptQueue(), KeyMemory()


@dataclass(frozen=True, slots=True)
class BilledEndpoint:
    """One path of an interface."""

    read: ReadCall
    respond: Respond
    error_shape: ErrorShape
    levers: Levers
    latency_seconds: float
    pace_seconds: float = 0.0

    async def __call__(self, request: Request) -> Response:
        """Answer, as ordered."""
        try:
            call = await self.read(request)
            answer = partial(self._answer, request, call)
            return await self.levers.keys.once(request, call, answer)
        except RefusedError as error:
            return refusal(error)

    async def _answer(self, request: Request, call: Call) -> PiecesResponse:
        meter = self.levers.meter
        received = meter.receive()
        faults = self.levers.faults.take(call)
        try:
            await asyncio.sleep(self.latency_seconds + ordered_latency_seconds(faults))
            await strike(request, faults, self.error_shape)
            reply = await self.respond(call, spoiling(faults))
        except RefusedError as error:
            there = not await request.is_disconnected()
            meter.record(call, received, error.status, delivered=there)
            raise
        sending = sending_of(faults, self.pace_seconds)
        there = not await request.is_disconnected()
        meter.record(call, received, 200, delivered=there and not sending.cut, usd=reply.usd)
        return PiecesResponse(reply, sending)


def ordered_latency_seconds(faults: Iterable[Fault]) -> float:
    """By how much the answer is late."""
    return sum(each.latency_seconds for each in faults)


def spoiling(faults: Iterable[Fault]) -> frozenset[FaultKind]:
    """What is to be spoiled in the answer."""
    return frozenset(each.kind for each in faults) & SPOILING


def sending_of(faults: Iterable[Fault], pace_seconds: float = 0.0) -> Sending:
    """How the reply is to be sent."""
    kinds = {each.kind: each for each in faults}
    stall = kinds.get(FaultKind.STALL)
    return Sending(
        cut=FaultKind.CUT in kinds,
        pace_seconds=pace_seconds,
        stall_seconds=stall.stall_seconds if stall else 0.0,
    )


async def strike(request: Request, faults: Iterable[Fault], error_shape: ErrorShape) -> None:
    """Raises the RefusedError that was ordered, for a hang after it."""
    for fault in faults:
        if fault.kind is FaultKind.STATUS:
            raise _ordered_refusal(fault, error_shape)
        if fault.kind is FaultKind.HANG:
            await _client_gone(request, fault.hang_seconds)
            raise RefusedError(504, error_shape("The sandbox was told to hang."))


def _ordered_refusal(fault: Fault, error_shape: ErrorShape) -> RefusedError:
    wait = fault.retry_after_seconds
    headers = {} if wait is None else {"retry-after": f"{wait:g}"}
    body = error_shape(f"The sandbox was told to answer {fault.status}.")
    return RefusedError(fault.status, body, headers)


async def _client_gone(request: Request, seconds: float) -> None:
    """Wait until the client closes its connection, at most so long."""
    try:
        async with asyncio.timeout(seconds):
            while (await request.receive())["type"] != "http.disconnect":
                continue
    except TimeoutError:
        return
