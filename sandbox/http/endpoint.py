"""A billed endpoint: parses the call, applies faults, answers, and records it in the meter."""

import asyncio
from collections.abc import Awaitable, Callable, Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from typing import Any

from starlette.requests import Request
from starlette.responses import JSONResponse, Response

from sandbox.http.calls import Call, RefusedError
from sandbox.http.controls import CORRUPTIONS, Controls, Fault, FaultKind, retry_after
from sandbox.http.streaming import PiecesResponse, Reply, SendOptions

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
        return await answer(request, self.parse_call, self.controls, self._reply)

    async def _reply(self, request: Request, call: Call) -> PiecesResponse:
        controls, faults = self.controls, self.controls.faults_of(call)
        await asyncio.sleep(self.latency_seconds + sum(each.latency_seconds for each in faults))
        await apply_error_faults(request, faults, self.error_shape)
        reply = await self.respond(call, corruptions(faults))
        sending = send_options(faults, self.pace_seconds)
        is_delivered = not sending.is_cut_off and not await request.is_disconnected()
        controls.meter.record(call, 200, delivered=is_delivered, usd=reply.usd)
        return PiecesResponse(reply, sending)


async def answer(
    request: Request,
    parse_call: ParseCall,
    controls: Controls,
    reply: Callable[[Request, Call], Awaitable[PiecesResponse]],
) -> Response:
    """Answers a request, once for each idempotency key. An error is recorded, unless the request could not be parsed."""

    async def record_errors(call: Call) -> PiecesResponse:
        meter = controls.meter
        try:
            return await reply(request, call)
        except RefusedError as error:
            meter.record(call, error.status, delivered=not await request.is_disconnected())
            raise

    try:
        call = await parse_call(request)
        return await controls.keys.answer_once(request, call, partial(record_errors, call))
    except RefusedError as error:
        return error_response(error)


def error_response(error: RefusedError) -> Response:
    return JSONResponse(dict(error.body), error.status, dict(error.headers))


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
    """Raise RefusedError if a fault asks for an error status, or a hang: that waits until the client disconnects."""
    for fault in faults:
        if fault.kind is FaultKind.STATUS:
            message = f"The sandbox was configured to answer with status {fault.status}."
            headers = retry_after(fault.retry_after_seconds)
            raise RefusedError(fault.status, error_shape(message), headers)
        if fault.kind is FaultKind.HANG:
            with suppress(TimeoutError):
                async with asyncio.timeout(fault.hang_seconds):
                    while (await request.receive())["type"] != "http.disconnect":
                        continue
            raise RefusedError(504, error_shape("The sandbox was configured to hang."))
