"""POST /v1/embeddings."""

import base64
import json
import struct
from typing import Any

from starlette.requests import Request
from starlette.routing import Route

from sandbox.http.call import Call, RefusedError
from sandbox.http.endpoint import BilledEndpoint, Levers
from sandbox.http.faults import FaultKind
from sandbox.http.openai import INVALID, checked_body, server_error
from sandbox.http.openai_shapes import count_tokens, error_body
from sandbox.http.prices import embedding_usd
from sandbox.http.reply import Reply
from sandbox.text.meaning import meaning

DIMENSIONS = 1536
"""Where none are asked for."""
MOST_TEXTS = 2048


def embedding_routes(levers: Levers, latency_seconds: float) -> list[Route]:
    """OpenAI's interface for embeddings."""
    endpoint = BilledEndpoint(_read_call, _respond, server_error, levers, latency_seconds)
    return [Route("/v1/embeddings", endpoint.__call__, methods=["POST"])]


async def _read_call(request: Request) -> Call:
    body = await checked_body(request)
    texts = body.get("input")
    if isinstance(texts, str):
        texts = [texts]
    if (
        not isinstance(texts, list)
        or not 0 < len(texts) <= MOST_TEXTS
        or not all(map(_is_text, texts))
    ):
        raise _refused(f"`input` must be a text or 1 to {MOST_TEXTS} of them, none empty.", "input")
    dimensions = body.get("dimensions", DIMENSIONS)
    if not isinstance(dimensions, int) or not 0 < dimensions <= DIMENSIONS:
        raise _refused(f"`dimensions` must be from 1 to {DIMENSIONS}.", "dimensions")
    return Call("embedding", request.url.path, {**body, "input": texts, "dimensions": dimensions})


def _is_text(given: object) -> bool:
    return isinstance(given, str) and bool(given)


def _refused(said: str, param: str) -> RefusedError:
    return RefusedError(400, error_body(said, INVALID, None, param))


async def _respond(call: Call, _: frozenset[FaultKind]) -> Reply:
    texts, packed = call.body["input"], call.body.get("encoding_format") == "base64"
    vectors = [meaning(each, call.body["dimensions"]) for each in texts]
    tokens = sum(map(count_tokens, texts))
    answer = {
        "object": "list",
        "data": [
            {"object": "embedding", "index": index, "embedding": _told(vector, packed=packed)}
            for index, vector in enumerate(vectors)
        ],
        "model": call.body["model"],
        "usage": {"prompt_tokens": tokens, "total_tokens": tokens},
    }
    return Reply((json.dumps(answer).encode(),), usd=embedding_usd(tokens))


def _told(vector: list[float], *, packed: bool) -> Any:
    if not packed:
        return vector
    return base64.b64encode(struct.pack(f"<{len(vector)}f", *vector)).decode()
