"""Providers for chat completions and embeddings."""

import asyncio
import base64
import math
import struct
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import aclosing, suppress
from dataclasses import dataclass
from typing import Any, Final, Protocol

from shared.billing.embedding_cache import EmbeddingRequest, Vector
from shared.billing.resumable_call import ResumableCall
from shared.database.tables.graph import DIMENSIONS
from shared.errors import PermanentError, VigilError
from shared.llm.adaptation import Adaptations, NoCallError
from shared.llm.answers import AnswerError, FailureKind, Received, Usage, as_text, parse_usage
from shared.llm.messages import ChatAnswer, ChatRequest
from shared.llm.model_server import BYTES_PER_TOKEN, ModelServer
from shared.llm.written_calls import answer_in, is_lost_call, parser_hint
from shared.tools.schemas import without_max_items

IDEMPOTENCY_KEY = "Idempotency-Key"
END_SECONDS = 1.0
"""Wait for a stream to close after its last event."""
PROGRESS_SECONDS = 5.0
"""Interval of the progress reports of an answer."""

OnDelta = Callable[[str], Awaitable[None]]
"""Receives the whole text so far of a streamed answer. After a failed attempt the text starts again."""


@dataclass(frozen=True)
class ModelFault:
    """Why a model cannot be used now."""

    reason: str
    is_outage: bool = False
    """Whether it can be used again when its provider returns."""


class Provider(Protocol):
    """An interface to a model."""

    async def complete(
        self, request: ChatRequest, in_flight: ResumableCall, on_delta: OnDelta | None = None
    ) -> ChatAnswer:
        """Sends `request`, or resumes an earlier attempt if possible, and returns the answer.

        `on_delta` receives the text while it is streamed, if the interface supports streaming. An error that it raises ends
        the call. Every attempt runs within `in_flight.attempt()`. Raises PermanentError for what a retry cannot fix (key,
        model, request, budget), otherwise TransientError.
        """

    async def close(self) -> None: ...


class ChatProvider:
    """Chat completions of any server. An answer has no reference before it is complete, so it cannot be resumed.

    Answers are streamed if the server supports it, which shows whether a slow server is still working. What the server
    of a model refuses is omitted or sent differently: see `Adaptations`.
    """

    def __init__(self, server: ModelServer) -> None:
        self._server = server
        self.adaptations = Adaptations(
            server.name,
            server.warn,
            frozenset({"stream"} if server.stream == "always" else ()),
        )
        self.close = server.close

    async def complete(
        self, request: ChatRequest, in_flight: ResumableCall, on_delta: OnDelta | None = None
    ) -> ChatAnswer:
        answer = await self.adaptations.send(
            self._body(request),
            lambda body: self._server.with_quick_retries(
                lambda: self._complete_once(body, in_flight, on_delta)
            ),
        )
        if answer.usage_fault is not None:
            self._server.warn(f"{self._server.name}: {answer.usage_fault}")
        if (hint := parser_hint(answer, request)) is not None:
            self.adaptations.tell(request.model, "parser", f"{request.model} {hint}")
        return answer

    async def _complete_once(
        self, body: dict[str, Any], in_flight: ResumableCall, on_delta: OnDelta | None
    ) -> ChatAnswer:
        received = Received(self._server.name, has_priced_tiers=self._server.is_openai)
        headers = {IDEMPOTENCY_KEY: in_flight.key}
        clock = asyncio.get_running_loop().time
        report_progress = in_flight.report_progress
        async with in_flight.attempt():
            reported_at = clock()
            try:
                async with aclosing(self._server.pieces(body, received, headers)) as pieces:
                    async for piece in pieces:
                        has_grown = received.take(piece)
                        is_due = received.characters and clock() - reported_at >= PROGRESS_SECONDS
                        if is_due and report_progress is not None:
                            reported_at = clock()
                            await report_progress(received.characters)
                        if has_grown and on_delta is not None:
                            await on_delta(received.text)
                        if received.is_done:
                            await _drain(pieces)
                            break
            except AnswerError as error:
                if (read := answer_in(error, body)) is not None:
                    return read
                raise received.explained(error) from error.__cause__
            try:
                answer = received.answer()
            except AnswerError as error:
                if (read := answer_in(error, body)) is not None:
                    return read
                raise
            if body.get("tool_choice") == "required" and is_lost_call(answer, body):
                raise NoCallError(
                    f"{self._server.name}: the model wrote text although a tool call was demanded",
                    kind=FailureKind.NO_ANSWER,
                    excerpt=answer.text,
                    usage=Usage(answer.input_tokens, answer.output_tokens, answer.cached_tokens),
                )
            return answer

    def _body(self, request: ChatRequest) -> dict[str, Any]:
        body = dict(request.sent_body)
        limit = body.get("max_completion_tokens")
        if limit is not None and not self._server.is_openai:
            # Ollama and LM Studio support only the older name and silently ignore the newer one.
            body["max_tokens"] = limit
        body |= request.options
        if self._server.is_openai and request.cache_key is not None:
            body["prompt_cache_key"] = request.cache_key
        if self._server.stream != "never":
            body |= {"stream": True, "stream_options": {"include_usage": True}}
        if "response_format" in body and self._server.is_openai:
            # OpenAI's own models do not need it, and some deployments of them refuse it.
            body["response_format"] = without_max_items(body["response_format"])
        return body


async def _drain(pieces: AsyncIterator[bytes]) -> None:
    """Waits for a completed stream to close, so that its connection is reused. Some servers leave it open."""
    with suppress(TimeoutError, AnswerError):
        async with asyncio.timeout(END_SECONDS):
            async for _ in pieces:
                pass


EMBEDDING_WAIT_SECONDS: Final = 1.0
"""How long a request waits for its turn if the provider limits requests."""
EMBEDDING_TIMEOUT_SECONDS: Final = 5.0
SECONDS_PER_TEXT: Final = 0.25
"""Additional seconds per text. After this time the work continues without vectors."""


@dataclass(frozen=True)
class Embedded:
    vectors: Sequence[Vector]
    """In the order of the texts."""
    input_tokens: int | None


@dataclass(frozen=True)
class Embedder:
    server: ModelServer
    report_error: Callable[[VigilError], None]
    """Receives errors that have no other effect."""

    async def embed(self, request: EmbeddingRequest, in_flight: ResumableCall) -> Embedded:
        """Requests the vectors without retries, because it is better to continue without them than to wait.

        Raises PermanentError for what a retry cannot fix, otherwise TransientError.
        """
        seconds = EMBEDDING_TIMEOUT_SECONDS + SECONDS_PER_TEXT * len(request.texts)
        tokens = sum(map(len, request.texts)) // BYTES_PER_TOKEN
        gate = self.server.gate
        async with (
            in_flight.attempt(),
            gate.passage(tokens=tokens, max_wait_seconds=EMBEDDING_WAIT_SECONDS) as passage,
        ):
            pending_response = self.server.client.embeddings.with_raw_response.create(
                **request.body,
                timeout=seconds,
                extra_headers={IDEMPOTENCY_KEY: in_flight.key},
            )
            limit = f"{seconds:g} s, the time limit for embeddings"
            answer = await self.server.json_object(pending_response, request.model, limit=limit)
            passage.answered()
            return _parse_embeddings(self.server.name, answer, request)


def _parse_embeddings(server: str, answer: dict[str, Any], request: EmbeddingRequest) -> Embedded:
    # Embeddings have no output tokens, so only the input tokens are read.
    usage = parse_usage(answer, "prompt_tokens", "prompt_tokens")

    def unusable(reason: str) -> AnswerError:
        return AnswerError(f"{server} {reason}", excerpt=as_text(answer), usage=usage)

    try:
        data = sorted(answer["data"], key=lambda item: item.get("index", 0))
        vectors = [_parse_vector(item["embedding"]) for item in data]
    except (KeyError, TypeError, ValueError, AttributeError, OverflowError, struct.error) as error:
        raise unusable(f"sent vectors that cannot be read: {error!r}") from None
    if len(vectors) != len(request.texts):
        raise unusable(f"returned {len(vectors)} vectors for {len(request.texts)} texts")
    for vector in vectors:
        if len(vector) != DIMENSIONS:
            raise PermanentError(
                "embedding_dimensions",
                f"{request.model!r} returned vectors of {len(vector)} dimensions instead of the requested {DIMENSIONS}. "
                "Set VIGIL_EMBEDDING_MODEL to a model that supports the parameter `dimensions`",
            )
        if not all(map(math.isfinite, vector)):
            raise unusable("returned a vector with an invalid number")
    return Embedded(vectors, usage.input_tokens)


def _parse_vector(value: Any) -> Vector:
    """Decodes a list of numbers, or base64 of little-endian floats (the SDK's default). Raises ValueError or TypeError."""
    if isinstance(value, str):
        return [number for (number,) in struct.iter_unpack("<f", base64.b64decode(value))]
    return [float(number) for number in value]
