"""The interface to the model, and its usual implementation: chat completions."""

import asyncio
import re
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import aclosing, suppress
from typing import Any, Final, Protocol

import httpx2

from shared.errors import PermanentError, VigilError
from shared.llm.answers import AnswerError
from shared.llm.chat import ChatAnswer, ChatRequest
from shared.llm.server import CONNECT_SECONDS, REFUSED_REQUEST, ModelServer, Patience
from shared.llm.streamed import Received
from shared.store.in_flight import InFlight
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
