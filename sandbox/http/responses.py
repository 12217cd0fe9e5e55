"""POST /v1/responses in the background, and GET of what was ordered."""

import asyncio
import json
from collections import OrderedDict
from functools import partial
from typing import Any

from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route

from sandbox.http.call import Call, RefusedError
from sandbox.http.endpoint import Levers, ordered_latency_seconds, sending_of, spoiling, strike
from sandbox.http.faults import Fault
from sandbox.http.meter import Meter
from sandbox.http.openai import (
    INVALID,
    answered,
    chat_call,
    check_key,
    checked_body,
    server_error,
)
from sandbox.http.openai_shapes import error_body
from sandbox.http.prices import tokens_usd
from sandbox.http.reply import PiecesResponse, Reply, refusal
from sandbox.http.responses_shapes import as_chat, output, response, usage_as_told
from sandbox.http.shelf import CorpusShelf

KEPT_RESPONSES = 1000


def responses_routes(shelf: CorpusShelf, levers: Levers, latency_seconds: float) -> list[Route]:
    """The Responses API, as far as Vigil speaks it."""
    responses = _Responses(shelf, levers, latency_seconds)
    return [
        Route("/v1/responses", responses.order, methods=["POST"]),
        Route("/v1/responses/{response_id}", responses.find, methods=["GET"]),
    ]


class _Responses:
    def __init__(self, shelf: CorpusShelf, levers: Levers, latency_seconds: float) -> None:
        self._shelf = shelf
        self._levers = levers
        self._latency_seconds = latency_seconds
        self._ordered = 0
        self._answers: OrderedDict[str, tuple[Call, asyncio.Task[dict[str, Any]]]] = OrderedDict()

    async def order(self, request: Request) -> Response:
        """Told at once under which id it will be found; made, and billed, whether or not anybody looks."""
        try:
            call = await _read_call(request)
            begin = partial(self._begin, request, call)
            return await self._levers.keys.once(request, call, begin)
        except RefusedError as error:
            return refusal(error)

    async def find(self, request: Request) -> Response:
        """Not billed: the order is, when its answer is made."""
        response_id = request.path_params["response_id"]
        try:
            check_key(request)
        except RefusedError as error:
            return refusal(error)
        if response_id not in self._answers:
            said = f"Response with id '{response_id}' not found."
            return JSONResponse(error_body(said, INVALID, None, "response_id"), 404)
        call, answer = self._answers[response_id]
        if answer.done():
            return JSONResponse(answer.result())
        return JSONResponse(response(response_id, call.body["model"], "in_progress"))

    async def _begin(self, request: Request, call: Call) -> PiecesResponse:
        meter = self._levers.meter
        received = meter.receive()
        faults = self._levers.faults.take(call)
        try:
            await strike(request, faults, server_error)
        except RefusedError as error:
            there = not await request.is_disconnected()
            meter.record(call, received, error.status, delivered=there)
            raise
        self._ordered += 1
        response_id = f"resp_{self._ordered:06}_{call.request_hash[:24]}"
        answer = asyncio.create_task(self._made(response_id, call, faults, meter, received))
        self._answers[response_id] = (call, answer)
        if len(self._answers) > KEPT_RESPONSES:
            self._answers.popitem(last=False)
        queued = response(response_id, call.body["model"], "queued")
        return PiecesResponse(Reply((json.dumps(queued).encode(),)), sending_of(faults))

    async def _made(
        self, response_id: str, call: Call, faults: list[Fault], meter: Meter, received: int
    ) -> dict[str, Any]:
        """The response as it ends. A scripted error is its failure."""
        model = call.body["model"]
        await asyncio.sleep(self._latency_seconds + ordered_latency_seconds(faults))
        try:
            answer, usage = await answered(self._shelf, self._levers, call, spoiling(faults))
        except RefusedError as error:
            meter.record(call, received, error.status, delivered=True)
            code = "server_error" if error.status >= 500 else "invalid_prompt"
            failure = {"code": code, "message": error.body["error"]["message"]}
            return response(response_id, model, "failed", error=failure)
        meter.record(call, received, 200, delivered=True, usd=tokens_usd(usage))
        ended: dict[str, Any] = {
            "output": output(call.request_hash, answer),
            "usage": usage_as_told(usage),
        }
        if answer.is_cut:
            cut = {"reason": "max_output_tokens"}
            return response(response_id, model, "incomplete", incomplete_details=cut, **ended)
        return response(response_id, model, "completed", **ended)


async def _read_call(request: Request) -> Call:
    body = await checked_body(request)
    if body.get("background") is not True or body.get("store") is False:
        said = "The sandbox answers in the background only: `background` and `store` must be true."
        raise RefusedError(400, error_body(said, INVALID, None, "background"))
    return chat_call(request, as_chat(body), "input")
