"""POST /v1/embeddings."""

import base64
import json
import struct
from typing import Annotated, Any

from pydantic import BaseModel, BeforeValidator, Field, ValidationError
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
"""Default number of dimensions, and the most."""


class _Body(BaseModel):
    model: str
    input: Annotated[
        list[Annotated[str, Field(min_length=1)]],
        BeforeValidator(lambda value: [value] if isinstance(value, str) else value),
        Field(min_length=1, max_length=2048),
    ]
    dimensions: Annotated[int, Field(gt=0, le=DIMENSIONS)] = DIMENSIONS
    encoding_format: str | None = None


def embedding_routes(controls: Controls, latency_seconds: float) -> list[Route]:
    """The route of OpenAI's embeddings."""
    endpoint = BilledEndpoint(_parse_call, _respond, server_error, controls, latency_seconds)
    return [Route("/v1/embeddings", endpoint.__call__, methods=["POST"])]


async def _parse_call(request: Request) -> Call:
    try:
        body = _Body.model_validate(await checked_body(request))
    except ValidationError as error:
        first = error.errors()[0]
        field = str(first["loc"][0])
        message = f"`{field}` is invalid: {first['msg']}."
        raise RefusedError(400, error_body(message, INVALID, None, field)) from error
    return Call("embedding", request.url.path, body.model_dump())


async def _respond(call: Call, _: frozenset[FaultKind]) -> Reply:
    texts, packed = call.body["input"], call.body["encoding_format"] == "base64"
    vectors = [embed(text, call.body["dimensions"]) for text in texts]
    tokens = sum(map(count_tokens, texts))
    answer = {
        "object": "list",
        "data": [
            {"object": "embedding", "index": index, "embedding": _encode(vector, packed=packed)}
            for index, vector in enumerate(vectors)
        ],
        "model": call.body["model"],
        "usage": {"prompt_tokens": tokens, "total_tokens": tokens},
    }
    return Reply((json.dumps(answer).encode(),), usd=embedding_usd(tokens))


def _encode(vector: list[float], *, packed: bool) -> Any:
    if not packed:
        return vector
    return base64.b64encode(struct.pack(f"<{len(vector)}f", *vector)).decode()
