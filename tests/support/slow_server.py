"""A model server that streams so many tokens a second."""

import asyncio
import json
from collections import Counter
from collections.abc import AsyncIterator
from dataclasses import dataclass, field
from typing import Any

from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import JSONResponse, Response, StreamingResponse
from starlette.routing import Route

PAUSE_SECONDS = 0.03
"""Pause between two tokens: a response takes several seconds."""


WORDS = " ".join(f"word{number}" for number in range(70))


@dataclass
class SlowServer:
    """Streams chat completions token by token; without streaming the response takes the same time."""

    asked: Counter[str] = field(default_factory=Counter)
    """Number of requests by messages."""
    answered: int = 0

    @property
    def app(self) -> Starlette:
        return Starlette(
            routes=[
                Route("/health", _healthy),
                Route("/v1/chat/completions", self._complete, methods=["POST"]),
            ]
        )

    async def _complete(self, request: Request) -> Response:
        body = await request.json()
        self.asked[json.dumps(body["messages"])] += 1
        text = _response_text(body)
        if body.get("stream"):
            return StreamingResponse(self._stream(text), media_type="text/event-stream")
        for _ in _tokens(text):
            await asyncio.sleep(PAUSE_SECONDS)
        self.answered += 1
        message = {"role": "assistant", "content": text}
        choice = {"index": 0, "message": message, "finish_reason": "stop"}
        usage = {"prompt_tokens": 10, "completion_tokens": 10, "total_tokens": 20}
        return JSONResponse(_object("chat.completion", choices=[choice], usage=usage))

    async def _stream(self, text: str) -> AsyncIterator[str]:
        for token in _tokens(text):
            await asyncio.sleep(PAUSE_SECONDS)
            yield _chunk([{"index": 0, "delta": {"content": token}, "finish_reason": None}])
        yield _chunk([{"index": 0, "delta": {}, "finish_reason": "stop"}])
        usage = {"prompt_tokens": 10, "completion_tokens": 10, "total_tokens": 20}
        self.answered += 1
        yield _chunk([], usage=usage)
        yield "data: [DONE]\n\n"


async def _healthy(_: Request) -> Response:
    return Response()


def _response_text(body: dict[str, Any]) -> str:
    system = body["messages"][0]["content"]
    if "You plan" in system:
        query = {"objective": f"Find out {WORDS}", "reasoning": "", "searchHints": []}
        return json.dumps({"queries": [query], "insights": []})
    return f"Nothing was found. {WORDS}"


def _tokens(text: str) -> list[str]:
    return [f"{word} " for word in text.split(" ")]


def _chunk(choices: list[Any], **more: Any) -> str:
    return f"data: {json.dumps(_object('chat.completion.chunk', choices=choices, **more))}\n\n"


def _object(kind: str, **more: Any) -> dict[str, Any]:
    return {"id": "chat-1", "object": kind, "created": 1, "model": "slow", **more}
