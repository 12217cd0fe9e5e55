"""A billed path of an interface: parses a call, and sends the reply or the error."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any

from starlette.requests import Request
from starlette.responses import JSONResponse, Response, StreamingResponse
from starlette.routing import Route

from sandbox.http.calls import Call, RefusedError
from sandbox.http.openai_format import truncate, usage_of
from sandbox.model import ChatRequest, answer_request
from sandbox.model.request import Answer

EVENT_STREAM = "text/event-stream"


@dataclass(frozen=True, slots=True)
class Reply:
    """An answer with status 200, in pieces."""

    pieces: tuple[bytes, ...]
    media_type: str = "application/json"


@dataclass(frozen=True, slots=True)
class Endpoint:
    """How calls of one path are parsed and answered. Both functions raise RefusedError."""

    path: str
    parse_call: Callable[[Request], Awaitable[Call]]
    respond: Callable[[Call], Awaitable[Reply]]
    error_shape: Callable[[str], Mapping[str, Any]]
    """The body of a server error in the interface's format."""


class CallHandler:
    """Answers billed calls, each after a delay. Tests extend it with scripted answers, faults and a meter."""

    def __init__(self, latency_seconds: float = 0.0, pace_seconds: float = 0.0) -> None:
        """`pace_seconds` delays each piece of a stream except the first."""
        self.latency_seconds = latency_seconds
        self.pace_seconds = pace_seconds

    def route(self, endpoint: Endpoint) -> Route:
        return Route(endpoint.path, partial(self._handle, endpoint), methods=["POST"])

    def more_routes(self) -> list[Route]:
        """Routes besides those of the endpoints."""
        return []

    def complete(self, call: Call) -> tuple[Answer, dict[str, int]]:
        """The model's answer to a call in chat completions' format, and its usage. Raises RefusedError."""
        return cut_off(call, answer_request(ChatRequest(call.body)))

    async def send(self, request: Request, call: Call, endpoint: Endpoint) -> Response:
        """Raises RefusedError."""
        await asyncio.sleep(self.latency_seconds)
        reply = await endpoint.respond(call)
        if reply.media_type != EVENT_STREAM:
            return Response(b"".join(reply.pieces), media_type=reply.media_type)
        return StreamingResponse(self._paced(reply.pieces), media_type=reply.media_type)

    async def _handle(self, endpoint: Endpoint, request: Request) -> Response:
        try:
            return await self.send(request, await endpoint.parse_call(request), endpoint)
        except RefusedError as error:
            return error_response(error)

    async def _paced(self, pieces: tuple[bytes, ...]) -> AsyncIterator[bytes]:
        for place, piece in enumerate(pieces):
            await asyncio.sleep(self.pace_seconds if place else 0)
            yield piece


def cut_off(call: Call, answer: Answer) -> tuple[Answer, dict[str, int]]:
    """The answer within the call's token limit, and its usage."""
    answer = truncate(call.body.get("max_completion_tokens"), answer)
    return answer, usage_of(call.body["messages"], call.body.get("tools") or [], answer)


def error_response(error: RefusedError) -> Response:
    return JSONResponse(dict(error.body), error.status, dict(error.headers))
