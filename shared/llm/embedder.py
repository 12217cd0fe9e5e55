"""What texts mean, by the model server: `/embeddings`, as OpenAI speaks it and many servers do."""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Final

from openai.types import CreateEmbeddingResponse

from shared.errors import PermanentError, TransientError, VigilError
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
        async with in_flight.sending():
            sent = self.server.client.embeddings.create(
                **request.body,
                timeout=ANSWER_SECONDS + SECONDS_FOR_EACH * len(request.texts),
                extra_headers={IDEMPOTENCY_KEY: in_flight.key},
            )
            return _read(await self.server.asked(sent, request.model), request)


def _read(answer: CreateEmbeddingResponse, request: EmbeddingRequest) -> Embedded:
    vectors = [each.embedding for each in sorted(answer.data, key=lambda each: each.index)]
    if len(vectors) != len(request.texts):
        raise TransientError(
            f"the model server gave {len(vectors)} vectors for {len(request.texts)} texts"
        )
    for vector in vectors:
        if len(vector) != DIMENSIONS:
            raise PermanentError(
                "embedding_dimensions",
                f"{request.model!r} gives vectors of {len(vector)} dimensions and does not heed that {DIMENSIONS} are "
                "asked for; name another model by VIGIL_EMBEDDING_MODEL, one that takes `dimensions`",
            )
        if not all(map(math.isfinite, vector)):
            raise TransientError("the model server gave a vector with what is no number")
    return Embedded(vectors, answer.usage.prompt_tokens if answer.usage else None)
