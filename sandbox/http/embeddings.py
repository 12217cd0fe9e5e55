"""POST /v1/embeddings."""

import base64
import json
import struct
from typing import Any

from starlette.requests import Request
from starlette.routing import Route

from sandbox.http.calls import Call, RefusedError, embedding_usd
from sandbox.http.controls import Controls, FaultKind
from sandbox.http.endpoint import BilledEndpoint
from sandbox.http.openai import INVALID, checked_body, server_error
from sandbox.http.openai_format import count_tokens, error_body
from sandbox.http.streaming import Reply
from sandbox.text.embeddings import embed

DIMENSIONS = 1536
"""Default number of dimensions."""
MAX_TEXTS = 2048


def embedding_routes(controls: Controls, latency_seconds: float) -> list[Route]:
    """The route of OpenAI's embeddings."""
    endpoint = BilledEndpoint(_parse_call, _respond, server_error, controls, latency_seconds)
    return [Route("/v1/embeddings", endpoint.__call__, methods=["POST"])]


async def _parse_call(request: Request) -> Call:
    body = await checked_body(request)
    texts = body.get("input")
    if isinstance(texts, str):
        texts = [texts]
    if (
        not isinstance(texts, list)
        or not 0 < len(texts) <= MAX_TEXTS
        or not all(map(_is_text, texts))
    ):
        raise _bad_request(
            f"`input` must be a non-empty string or a list of 1 to {MAX_TEXTS} non-empty strings.",
            "input",
        )
    dimensions = body.get("dimensions", DIMENSIONS)
    if not isinstance(dimensions, int) or not 0 < dimensions <= DIMENSIONS:
        raise _bad_request(f"`dimensions` must be from 1 to {DIMENSIONS}.", "dimensions")
    return Call("embedding", request.url.path, {**body, "input": texts, "dimensions": dimensions})


def _is_text(value: object) -> bool:
    return isinstance(value, str) and bool(value)


def _bad_request(message: str, param: str) -> RefusedError:
    return RefusedError(400, error_body(message, INVALID, None, param))


async def _respond(call: Call, _: frozenset[FaultKind]) -> Reply:
    texts, packed = call.body["input"], call.body.get("encoding_format") == "base64"
    vectors = [embed(text, call.body["dimensions"]) for text in texts]
    tokens = sum(map(count_tokens, texts))
    answer = {
        "object": "list",
        "data": [
            {
                "object": "embedding",
                "index": index,
                "embedding": _encode_vector(vector, packed=packed),
            }
            for index, vector in enumerate(vectors)
        ],
        "model": call.body["model"],
        "usage": {"prompt_tokens": tokens, "total_tokens": tokens},
    }
    return Reply((json.dumps(answer).encode(),), usd=embedding_usd(tokens))


def _encode_vector(vector: list[float], *, packed: bool) -> Any:
    if not packed:
        return vector
    return base64.b64encode(struct.pack(f"<{len(vector)}f", *vector)).decode()
