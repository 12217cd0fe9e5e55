"""A billed endpoint: parses the call, applies faults, answers, and records it in the meter."""

import asyncio
from collections.abc import Awaitable, Callable, Iterable, Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any

from starlette.requests import Request
from starlette.responses import Response

from sandbox.http.calls import Call, RefusedError
from sandbox.http.controls import Controls, Fault, FaultKind
from sandbox.http.streaming import PiecesResponse, Reply, SendOptions, error_response

CORRUPTIONS = frozenset(
    {FaultKind.MALFORMED_JSON, FaultKind.UNKNOWN_TOOL, FaultKind.WRONG_ARGUMENTS}
)

ParseCall = Callable[[Request], Awaitable[Call]]
"""Request to call. Raises RefusedError."""
Respond = Callable[[Call, frozenset[FaultKind]], Awaitable[Reply]]
"""Call and corruptions to reply. Raises RefusedError."""
ErrorShape = Callable[[str], Mapping[str, Any]]
"""The body of a server error in the interface's format."""


@dataclass(frozen=True, slots=True)
class BilledEndpoint:
    """A billed path of an interface."""

    parse_call: ParseCall
    respond: Respond
    error_shape: ErrorShape
    controls: Controls
    latency_seconds: float
    pace_seconds: float = 0.0

    async def __call__(self, request: Request) -> Response:
        """Answer the request, with the faults that apply to it."""
        try:
            call = await self.parse_call(request)
            answer = partial(self._answer, request, call)
            return await self.controls.keys.answer_once(request, call, answer)
        except RefusedError as error:
            return error_response(error)

    async def _answer(self, request: Request, call: Call) -> PiecesResponse:
        meter = self.controls.meter
        received = meter.receive()
        faults = self.controls.faults.matching(call)
        try:
            await asyncio.sleep(self.latency_seconds + fault_latency_seconds(faults))
            await apply_error_faults(request, faults, self.error_shape)
            reply = await self.respond(call, corruptions(faults))
        except RefusedError as error:
            is_connected = not await request.is_disconnected()
            meter.record(call, received, error.status, delivered=is_connected)
            raise
        sending = send_options(faults, self.pace_seconds)
        is_connected = not await request.is_disconnected()
        meter.record(
            call, received, 200, delivered=is_connected and not sending.is_cut_off, usd=reply.usd
        )
        return PiecesResponse(reply, sending)


def fault_latency_seconds(faults: Iterable[Fault]) -> float:
    """The total delay that faults add."""
    return sum(fault.latency_seconds for fault in faults)


def corruptions(faults: Iterable[Fault]) -> frozenset[FaultKind]:
    """The kinds of faults that corrupt the answer."""
    return frozenset(fault.kind for fault in faults) & CORRUPTIONS


def send_options(faults: Iterable[Fault], pace_seconds: float = 0.0) -> SendOptions:
    """How the reply is sent, given its faults."""
    faults_by_kind = {fault.kind: fault for fault in faults}
    stall = faults_by_kind.get(FaultKind.STALL)
    return SendOptions(
        is_cut_off=FaultKind.CUT in faults_by_kind,
        pace_seconds=pace_seconds,
        stall_seconds=stall.stall_seconds if stall else 0.0,
    )


async def apply_error_faults(
    request: Request, faults: Iterable[Fault], error_shape: ErrorShape
) -> None:
    """Raise RefusedError if a fault asks for an error status or a hang."""
    for fault in faults:
        if fault.kind is FaultKind.STATUS:
            raise _status_error(fault, error_shape)
        if fault.kind is FaultKind.HANG:
            await _wait_for_disconnect(request, fault.hang_seconds)
            raise RefusedError(504, error_shape("The sandbox was configured to hang."))


def _status_error(fault: Fault, error_shape: ErrorShape) -> RefusedError:
    wait = fault.retry_after_seconds
    headers = {} if wait is None else {"retry-after": f"{wait:g}"}
    body = error_shape(f"The sandbox was configured to answer with status {fault.status}.")
    return RefusedError(fault.status, body, headers)


async def _wait_for_disconnect(request: Request, seconds: float) -> None:
    """Wait until the client disconnects, at most `seconds`."""
    try:
        async with asyncio.timeout(seconds):
            while (await request.receive())["type"] != "http.disconnect":
                continue
    except TimeoutError:
        return
