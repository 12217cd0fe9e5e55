"""POST /v1/embeddings: texts as vectors by fixed rules. Texts that share words or parts of words are close to each other.

This is not a language model: `electrified` is close to `electric`, but not to `battery-powered`.
"""

import base64
import json
import math
import struct
from collections import defaultdict
from collections.abc import Iterator
from hashlib import blake2b
from typing import Annotated, Any

from pydantic import BaseModel, BeforeValidator, Field, ValidationError
from starlette.requests import Request
from starlette.routing import Route

from sandbox.http.calls import Call, RefusedError
from sandbox.http.endpoint import CallHandler, Endpoint, Reply
from sandbox.http.openai import INVALID, checked_body, server_error
from sandbox.http.openai_format import count_tokens, error_body
from sandbox.text.tokens import is_meaningful, words

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


def embedding_route(handler: CallHandler) -> Route:
    return handler.route(Endpoint("/v1/embeddings", _parse_call, _respond, server_error))


async def _parse_call(request: Request) -> Call:
    try:
        body = _Body.model_validate(await checked_body(request))
    except ValidationError as error:
        first = error.errors()[0]
        field = str(first["loc"][0])
        message = f"`{field}` is invalid: {first['msg']}."
        raise RefusedError(400, error_body(message, INVALID, None, field)) from error
    return Call("embedding", request.url.path, body.model_dump())


async def _respond(call: Call) -> Reply:
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
    return Reply((json.dumps(answer).encode(),))


def _encode(vector: list[float], *, packed: bool) -> Any:
    if not packed:
        return vector
    return base64.b64encode(struct.pack(f"<{len(vector)}f", *vector)).decode()


NGRAM_CHARS = 4


def embed(text: str, dimensions: int) -> list[float]:
    """The embedding of `text`, of length 1; all zeros for a text without words."""
    vector = [0.0] * dimensions
    for feature, weight in _features(text).items():
        digest = int.from_bytes(blake2b(feature.encode(), digest_size=8).digest(), "big")
        # The sign makes features with the same index cancel out as often as they add up.
        vector[(digest >> 1) % dimensions] += weight if digest & 1 else -weight
    length = math.hypot(*vector)
    return [value / length for value in vector] if length else vector


def _features(text: str) -> dict[str, float]:
    weights: defaultdict[str, float] = defaultdict(float)
    for word in {word.lower() for word in words(text) if is_meaningful(word) or word.isdigit()}:
        weights[word] += 1.0
        for piece in _ngrams(word):
            weights[f"{piece}…"] += 1.0
    return weights


def _ngrams(word: str) -> Iterator[str]:
    return (word[at : at + NGRAM_CHARS] for at in range(len(word) - NGRAM_CHARS + 1))
