"""A model server that permits some requests a minute and answers 429 above, or is away."""

import asyncio
import json
import time
from collections import Counter
from dataclasses import dataclass, field

from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route

ANSWER = {
    "choices": [{"message": {"role": "assistant", "content": "Yes."}, "finish_reason": "stop"}],
    "usage": {"prompt_tokens": 10, "completion_tokens": 2},
}


@dataclass
class StandIn:
    """A token bucket, as providers document theirs."""

    per_minute: float | None = None
    burst: float = 5.0
    answer_seconds: float = 0.05
    status: int = 200
    """Every request is answered with this status, unless it is 200."""
    message: str = ""
    """Of each error; by default its status."""
    errors_left: int | None = None
    """How many requests are answered with an error; None: all."""
    retry_after: float | None = None
    """Sent with each error; else with a 429 the time until the next request is permitted."""
    accepted: list[float] = field(default_factory=list)
    refused: list[float] = field(default_factory=list)
    running: int = 0
    max_running: int = 0
    requests: Counter[str] = field(default_factory=Counter)
    """Answered requests, by their idempotency key."""
    models: Counter[str] = field(default_factory=Counter)
    """Answered requests, by model."""
    body_bytes: list[int] = field(default_factory=list)
    """Of each request."""
    _left: float | None = None
    _at: float = 0.0

    @property
    def app(self) -> Starlette:
        return Starlette(
            routes=[
                Route("/health", lambda _: Response("ok")),
                Route("/v1/chat/completions", self._complete, methods=["POST"]),
            ]
        )

    async def _complete(self, request: Request) -> Response:
        body = await request.json()
        self.body_bytes.append(len(await request.body()))
        now = time.monotonic()
        if self.status != 200 and self.errors_left != 0:
            self.errors_left = None if self.errors_left is None else self.errors_left - 1
            self.refused.append(now)
            return self._error(self.status, self.retry_after, self.message)
        wait = self._take(now)
        if wait > 0:
            self.refused.append(now)
            return self._error(429, wait if self.retry_after is None else self.retry_after)
        self.accepted.append(now)
        self.running += 1
        self.max_running = max(self.max_running, self.running)
        try:
            await asyncio.sleep(self.answer_seconds)
        finally:
            self.running -= 1
        self.requests[request.headers.get("idempotency-key", "")] += 1
        self.models[body["model"]] += 1
        if body.get("stream"):
            choice = {"delta": {"content": "Yes."}, "finish_reason": "stop"}
            chunk = {"choices": [choice], "usage": ANSWER["usage"]}
            text = f"data: {json.dumps(chunk)}\n\ndata: [DONE]\n\n"
            return Response(text, media_type="text/event-stream")
        return JSONResponse(ANSWER)

    def _take(self, now: float) -> float:
        """Takes a token; returns the seconds until there is one."""
        if self.per_minute is None:
            return 0.0
        each = 60 / self.per_minute
        left = self.burst if self._left is None else self._left + (now - self._at) / each
        self._left, self._at = min(left, self.burst), now
        if self._left < 1:
            return (1 - self._left) * each
        self._left -= 1
        return 0.0

    @staticmethod
    def _error(status: int, retry_after: float | None, message: str = "") -> Response:
        headers = {} if retry_after is None else {"retry-after": f"{retry_after:.2f}"}
        error = {"error": {"message": message or f"status {status}", "code": "scripted"}}
        return JSONResponse(error, status, headers=headers)
