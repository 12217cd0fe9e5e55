"""What texts mean, by the model server: `/embeddings`, as OpenAI speaks it and many servers do."""

import base64
import math
import struct
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Final

from shared.errors import PermanentError, VigilError
from shared.llm.answers import AnswerError, usage_of
from shared.llm.provider import IDEMPOTENCY_KEY
from shared.llm.server import ModelServer
from shared.store.embeddings import EmbeddingRequest, Vector
from shared.store.in_flight import InFlight
from shared.store.tables.meaning import DIMENSIONS

ANSWER_SECONDS: Final = 5.0
SECONDS_FOR_EACH: Final = 0.25
"""Of the texts, besides: nothing waits longer for vectors, and all goes on without them."""


@dataclass(frozen=True)
class Embedded:
    vectors: Sequence[Vector]
    """In the order of the texts."""
    input_tokens: int | None


@dataclass(frozen=True)
class Embedder:
    server: ModelServer
    tell: Callable[[VigilError], None]
    """Is told what failed, where nothing else comes of it."""

    async def embed(self, request: EmbeddingRequest, in_flight: InFlight) -> Embedded:
        """Asked once: whoever needs a vector does better without it than to wait.

        Raises PermanentError for what another try cannot mend, TransientError for the rest.
        """
        seconds = ANSWER_SECONDS + SECONDS_FOR_EACH * len(request.texts)
        async with in_flight.sending():
            sent = self.server.client.embeddings.with_raw_response.create(
                **request.body,
                timeout=seconds,
                extra_headers={IDEMPOTENCY_KEY: in_flight.key},
            )
            limit = f"{seconds:g} s, the time that vectors are waited for"
            answer = await self.server.object_of(sent, request.model, limit=limit)
            return _read(self.server.name, answer, request)


def _read(server: str, answer: dict[str, Any], request: EmbeddingRequest) -> Embedded:
    # Nothing is made of the output: only what went in is counted.
    usage = usage_of(answer.get("usage"), "prompt_tokens", "prompt_tokens")
    try:
        data = sorted(answer["data"], key=lambda each: each.get("index", 0))
        vectors = [_vector(each["embedding"]) for each in data]
    except (KeyError, TypeError, ValueError, AttributeError, OverflowError, struct.error) as error:
        raise AnswerError(
            f"{server} sent vectors that cannot be read: {error!r}", said=repr(answer), usage=usage
        ) from None
    if len(vectors) != len(request.texts):
        raise AnswerError(
            f"{server} gave {len(vectors)} vectors for {len(request.texts)} texts",
            said=repr(answer),
            usage=usage,
        )
    for vector in vectors:
        if len(vector) != DIMENSIONS:
            raise PermanentError(
                "embedding_dimensions",
                f"{request.model!r} gives vectors of {len(vector)} dimensions and does not heed that {DIMENSIONS} are "
                "asked for; name another model by VIGIL_EMBEDDING_MODEL, one that takes `dimensions`",
            )
        if not all(map(math.isfinite, vector)):
            raise AnswerError(
                f"{server} gave a vector with what is no number", said=repr(answer), usage=usage
            )
    return Embedded(vectors, usage.input_tokens)


def _vector(given: Any) -> Vector:
    """Numbers, or the SDK's default: base64 of little-endian floats. Raises ValueError or TypeError."""
    if isinstance(given, str):
        return [number for (number,) in struct.iter_unpack("<f", base64.b64decode(given))]
    return [float(number) for number in given]
