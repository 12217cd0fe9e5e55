"""The model by chat completions: requests, answers and embeddings."""

import asyncio
import base64
import math
import re
import struct
from collections.abc import (
    AsyncIterator,
    Awaitable,
    Callable,
    Sequence,
)
from contextlib import aclosing, suppress
from dataclasses import dataclass
from typing import Any, Final, Protocol

import httpx2

from shared.billing.embedding_cache import EmbeddingRequest, Vector
from shared.billing.resumable_call import InFlight
from shared.database.tables.graph import DIMENSIONS
from shared.errors import PermanentError, VigilError
from shared.llm.answers import (
    AnswerError,
    usage_of,
)
from shared.llm.messages import ChatAnswer, ChatRequest
from shared.llm.model_server import (
    CONNECT_SECONDS,
    REFUSED_REQUEST,
    ModelServer,
    Patience,
)
from shared.llm.streamed import Received
from shared.tools.schemas import MAX_ITEMS, without_max_items

IDEMPOTENCY_KEY = "Idempotency-Key"
END_SECONDS = 1.0
"""For a stream to end after its last event."""
PROGRESS_SECONDS = 5.0
"""Between two reports of how far an answer has come."""

Hear = Callable[[str], Awaitable[None]]
"""Is told the text of an answer that is under way, each time all of it so far. After a broken try it begins anew."""

_STREAM: Final = "stream"
_OPTIONAL: Final = ("stream_options", "max_completion_tokens", "max_tokens", _STREAM, MAX_ITEMS)
"""Parameters, and a keyword of schemas, that some servers refuse and that an answer can do without."""
_UNSUPPORTED: Final = re.compile(
    r"support|unknown|unrecogni[sz]ed|unexpected|permitted|allowed|extra|same time|must be false"
    r"|not implemented|disabled",
    re.IGNORECASE,
)


class Provider(Protocol):
    """Whoever answers requests, by whatever interface."""

    async def complete(
        self, request: ChatRequest, in_flight: InFlight, hear: Hear | None = None
    ) -> ChatAnswer:
        """Sends `request`, or finds it where it was sent before and can be found, and returns the answer.

        Where `hear` is given and the interface can, it is told the text as it comes; what it raises ends the call.
        Every sending stands in `in_flight.sending()`. Raises PermanentError for what another try cannot mend (key, model,
        request, budget), TransientError for the rest.
        """

    async def close(self) -> None: ...


class ChatProvider:
    """Any server that speaks chat completions. An answer has no name before it is whole, so there is none to wait for.

    Answers are streamed where the server can, so that a slow one is seen to work. What a server refuses (streaming, its
    options, one of the two names of the token limit, `maxItems` in schemas) is left out from then on.
    """

    def __init__(self, server: ModelServer) -> None:
        self._server = server
        self._left_out: set[str] = set()
        self.close = server.close

    async def complete(
        self, request: ChatRequest, in_flight: InFlight, hear: Hear | None = None
    ) -> ChatAnswer:
        answer = await self._server.patiently(
            lambda: self._complete_adapted(request, in_flight, hear)
        )
        if answer.usage_fault is not None:
            self._server.warn(f"{self._server.name}: {answer.usage_fault}")
        return answer

    async def _complete_adapted(
        self, request: ChatRequest, in_flight: InFlight, hear: Hear | None
    ) -> ChatAnswer:
        """Asks again at once without a parameter that the server refuses."""
        while True:
            body = self._body(request)
            try:
                return await self._complete_once(request.model, body, in_flight, hear)
            except VigilError as error:
                refused = self._refused_parameter(body, error)
                if refused is None:
                    raise
                self._left_out.add(refused)
                self._server.warn(
                    f"{self._server.name} does not take {refused!r}, which is left out from now on: {error}"
                )

    async def _complete_once(
        self, model: str, body: dict[str, Any], in_flight: InFlight, hear: Hear | None
    ) -> ChatAnswer:
        server = self._server
        limits = server.limits
        async with in_flight.sending():
            received = Received(server.name)
            patience = Patience(server.name, limits, streams=_STREAM in body)
            opening = server.client.chat.completions.with_streaming_response.create(
                **body,
                timeout=httpx2.Timeout(None, connect=CONNECT_SECONDS, write=limits.silence),
                extra_headers={IDEMPOTENCY_KEY: in_flight.key},
            )
            progress = _Progress(in_flight)
            try:
                async with aclosing(server.pieces(opening, model, patience, received)) as pieces:
                    async for piece in pieces:
                        has_grown = received.take(piece)
                        patience.has_begun = received.characters > 0
                        await progress.report(received.characters)
                        if has_grown and hear is not None:
                            await hear(received.streamed.text)
                        if received.is_done:
                            await _drained(pieces)
                            break
            except AnswerError as error:
                explained = received.explained(error)
                if explained is error:
                    raise
                raise explained from error
            return received.answer()

    def _body(self, request: ChatRequest) -> dict[str, Any]:
        body = dict(request.sent_body)
        limit = body.get("max_completion_tokens")
        if limit is not None and not self._server.is_openai:
            # Ollama and LM Studio know the older name alone, and ignore the other without a word.
            body["max_tokens"] = limit
        if self._server.stream != "never":
            body |= {_STREAM: True, "stream_options": {"include_usage": True}}
        if _STREAM in self._left_out:
            body.pop("stream_options", None)
        if "response_format" in body and (self._server.is_openai or MAX_ITEMS in self._left_out):
            # OpenAI's own models need no such help, and some deployments of them refuse it.
            body["response_format"] = without_max_items(body["response_format"])
        return {name: value for name, value in body.items() if name not in self._left_out}

    def _refused_parameter(self, body: dict[str, Any], error: VigilError) -> str | None:
        """What of `body` the server does not know, and an answer can do without."""
        is_refusal = isinstance(error, PermanentError) and error.code == REFUSED_REQUEST
        # Never by what a model says: a page could have it say that the server cannot stream.
        is_refusal = is_refusal or (isinstance(error, AnswerError) and error.is_error_body)
        told = str(error).lower().replace(self._server.name.lower(), "")
        if not is_refusal or not _UNSUPPORTED.search(told):
            return None
        named = [
            (found.start(), name)
            for name in _OPTIONAL
            if self._has(body, name) and (found := re.search(rf"\b{name.lower()}(ing)?\b", told))
        ]
        limits = {"max_tokens", "max_completion_tokens"} & body.keys()
        for _, name in sorted(named):
            if name in limits and len(limits) == 1:
                continue
            if name == _STREAM and self._server.stream == "always":
                continue
            return name
        return None

    @staticmethod
    def _has(body: dict[str, Any], name: str) -> bool:
        if name == MAX_ITEMS:
            given = body.get("response_format")
            return bool(without_max_items(given) != given)
        return name in body


async def _drained(pieces: AsyncIterator[bytes]) -> None:
    """Lets a stream whose answer is whole end, so that its connection is used again; some servers leave it open."""
    with suppress(TimeoutError, AnswerError):
        async with asyncio.timeout(END_SECONDS):
            async for _ in pieces:
                pass


class _Progress:
    """Tells now and then how far an answer has come."""

    def __init__(self, in_flight: InFlight) -> None:
        self._progressed = in_flight.progressed
        self._clock = asyncio.get_running_loop().time
        self._told_at = self._clock()

    async def report(self, characters: int) -> None:
        if self._progressed is None or not characters:
            return
        if self._clock() - self._told_at < PROGRESS_SECONDS:
            return
        self._told_at = self._clock()
        await self._progressed(characters)


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
