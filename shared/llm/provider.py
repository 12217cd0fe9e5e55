"""Providers for chat completions and embeddings, and the router that finds the provider of a model."""

import asyncio
import base64
import math
import re
import struct
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from contextlib import aclosing, suppress
from dataclasses import dataclass, field, replace
from decimal import Decimal
from functools import partial
from typing import Any, Final, Protocol

from shared.billing.call_ledger import CallRequest
from shared.billing.embedding_cache import EmbeddingRequest, Vector
from shared.billing.resumable_call import ResumableCall
from shared.database.engine import Database
from shared.database.tables.graph import DIMENSIONS
from shared.enums import Phase
from shared.errors import PermanentError, VigilError
from shared.llm.adaptation import Adaptations, NoCallError
from shared.llm.answer_errors import AnswerError, FailureKind, Usage
from shared.llm.answers import Received
from shared.llm.messages import ORIGIN, ChatAnswer, ChatRequest, messages_for
from shared.llm.model_server import BYTES_PER_TOKEN, IDEMPOTENCY_KEY, ModelServer, SettingNames
from shared.llm.pricing import Prices
from shared.llm.tool_calls import (
    PARSERS,
    UNREAD,
    answer_in,
    form_of_calls,
    has_call_sign,
    has_calls,
)
from shared.llm.usage import parse_usage
from shared.provider_limits.gate import ProviderGate
from shared.server_json import as_text
from shared.tools.schemas import without_max_items

END_SECONDS = 1.0
"""Wait for a stream to close after its last event."""
PROGRESS_SECONDS = 5.0
"""Interval of the progress reports of an answer."""

_OF_RESPONSES: Final = re.compile(
    r"v1/responses\b|\bresponses (?:api|endpoint)\b|unsupported_api_for_model"
    r"|(?:not|n.t) (?:\w+ ){0,3}(?:via|in|with|for|on|through|by|work\w*) (?:\w+ ){0,3}[\w/]*chat[ /._-]?completions?\b"
    r"|chat[ /._-]?completions? (?:\w+ ){0,3}(?:not|n.t) (?:\w+ ){0,3}(?:work|support|availab)",
    re.IGNORECASE,
)
"""In the refusal of a model that only the Responses API has."""

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

    def __init__(self, server: ModelServer, responses: Provider | None = None) -> None:
        """`responses` has the models that the server only offers by its Responses API, as its refusals say."""
        self._server = server
        self._responses = responses
        self._of_responses: set[str] = set()
        """Models that are sent to `responses` from now on."""
        self.adaptations = Adaptations(
            server.name,
            server.warn,
            frozenset({"stream"} if server.stream == "always" else ()),
        )
        self.close = server.close

    async def complete(
        self, request: ChatRequest, in_flight: ResumableCall, on_delta: OnDelta | None = None
    ) -> ChatAnswer:
        responses = self._responses
        if responses is None or request.model in self._of_responses or in_flight.reference:
            return await (self._complete if responses is None else responses.complete)(
                request, in_flight, on_delta
            )
        try:
            return await self._complete(request, in_flight, on_delta)
        except PermanentError as refusal:
            code = getattr(refusal.__cause__, "code", "")
            if not _OF_RESPONSES.search(f"{refusal} {code}"):
                raise
            try:
                answer = await responses.complete(request, in_flight, on_delta)
            except PermanentError as error:
                # A gateway may pass on the words of another server, and have no Responses API.
                raise (refusal if error.code == UNKNOWN_MODEL else error) from error
            self._of_responses.add(request.model)
            self._server.warn(
                f"{self._server.name}: {request.model} is used by the Responses API from now on: {refusal}"
            )
            return answer

    async def _complete(
        self, request: ChatRequest, in_flight: ResumableCall, on_delta: OnDelta | None
    ) -> ChatAnswer:
        async def send_with_retries(body: dict[str, Any]) -> ChatAnswer:
            return await self._server.with_quick_retries(
                partial(
                    self._complete_once,
                    body,
                    in_flight,
                    on_delta,
                    must_call=request.tool_choice == "required",
                ),
                waited_seconds=in_flight.waited_seconds,
            )

        answer = await self.adaptations.send(self._body(request), send_with_retries)
        if answer.usage_fault is not None:
            self._server.warn(f"{self._server.name}: {answer.usage_fault}")
        if form := form_of_calls(answer, request):
            hint = (
                "among other text, which is not read. The server lacks a parser of tool calls: "
                + PARSERS
                if form == UNREAD
                else f"as text (in the form of {form}). It was read, but others may not be: start the server with its "
                f"parser of tool calls ({PARSERS})"
            )
            message = f"{request.model} wrote a tool call {hint}"
            self.adaptations.tell(request.model, "parser", message)
        return answer

    async def _complete_once(
        self,
        body: dict[str, Any],
        in_flight: ResumableCall,
        on_delta: OnDelta | None,
        *,
        must_call: bool = False,
    ) -> ChatAnswer:
        received = Received(self._server.name, has_priced_tiers=self._server.is_openai)
        clock = asyncio.get_running_loop().time
        report_progress = in_flight.report_progress
        async with in_flight.attempt():
            reported_at = clock()
            try:
                async with aclosing(self._server.pieces(body, received, in_flight)) as pieces:
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
                answer = received.answer()
            except AnswerError as error:
                if (read := answer_in(error, body)) is not None:
                    return read
                if _is_prose_in_place_of_call(error, body):
                    raise NoCallError(
                        str(error),
                        kind=FailureKind.NO_ANSWER,
                        excerpt=error.generation,
                        is_unbilled=error.is_unbilled,
                    ) from error.__cause__
                raise received.explained(error) from error.__cause__
            if body.get("tool_choice") == "required" and not has_calls(answer, body):
                raise NoCallError(
                    f"{self._server.name}: the model made no tool call although one was demanded. The server may lack its"
                    f" parser of tool calls ({PARSERS})",
                    kind=FailureKind.NO_ANSWER,
                    excerpt=answer.text,
                    usage=Usage(answer.input_tokens, answer.output_tokens, answer.cached_tokens),
                )
            # A call in the reasoning would be there again: the phase continues without it, and a note says so.
            is_empty = not (answer.text or answer.tool_calls or has_call_sign(answer.thoughts))
            if must_call and is_empty:
                raise AnswerError(
                    f"{self._server.name}: the model answered with its reasoning alone, or with nothing",
                    kind=FailureKind.NO_ANSWER,
                    excerpt=answer.thoughts,
                    usage=Usage(answer.input_tokens, answer.output_tokens, answer.cached_tokens),
                )
            return answer

    def _body(self, request: ChatRequest) -> dict[str, Any]:
        body = request.sent_body
        if request.max_output_tokens is not None and not self._server.is_openai:
            # Ollama and LM Studio support only the older name and silently ignore the newer one.
            body["max_tokens"] = request.max_output_tokens
        body |= request.options
        if self._server.is_openai and request.cache_key is not None:
            body["prompt_cache_key"] = request.cache_key
        if self._server.stream != "never":
            body |= {"stream": True, "stream_options": {"include_usage": True}}
        if "response_format" in body and self._server.is_openai:
            # OpenAI's own models do not need it, and some deployments of them refuse it.
            body["response_format"] = without_max_items(body["response_format"])
        return body


def _is_prose_in_place_of_call(error: AnswerError, body: Mapping[str, Any]) -> bool:
    """Whether the server refused what the model wrote because a call was demanded and it is none."""
    text = error.generation
    return body.get("tool_choice") == "required" and bool(text) and not has_call_sign(text)


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
            gate.passage(
                tokens=tokens,
                max_wait_seconds=EMBEDDING_WAIT_SECONDS,
                waited_seconds=in_flight.waited_seconds,
                waiting=in_flight.waiting,
            ) as passage,
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


@dataclass(frozen=True)
class Model:
    """The provider and the configuration that all calls to it share."""

    provider: Provider
    database: Database
    prices: Prices
    default_name: str
    """The model of phases for which the agent names none."""
    max_output_tokens: Mapping[Phase, int]
    """Sent with each request, so that its maximum cost is known before. Reasoning tokens count too."""
    embedder: Embedder | None = None
    """None if embedding search is off."""
    options: Mapping[Phase, Mapping[str, str]] = field(default_factory=dict)
    """Parameters of the requests of a phase; see `ChatRequest.options`."""
    requires_tools: bool = True
    """Whether requests that must call a tool set `tool_choice`."""
    fault: Callable[[str], ModelFault | None] = lambda _: None
    """Why a model cannot be used now; None if it can."""
    context_setting: Callable[[str], str] = lambda _: SettingNames.context
    """The setting that states the context of a model."""
    phase_seconds: Mapping[Phase, float] = field(default_factory=dict)
    """How long a worker may work on a phase."""
    is_sandboxed: Callable[[str], bool] = lambda _: False
    """Whether the sandbox answers in place of a model. It reads no prose, so what it answers is no reading."""
    provider_name: str | None = None
    """In traces, by the semantic conventions for generative AI; None if it is not known."""

    def max_cost_usd(self, phase: Phase, request: CallRequest) -> Decimal:
        """The maximum cost of one attempt of a call."""
        if request.operation is not None:
            return self.prices.of_operation(request.operation)
        max_output = request.max_output_tokens
        if max_output is None:
            max_output = self.max_output_tokens[phase]
        return self.prices.max_cost_usd(
            request.model or "",
            len(request.canonical),
            max_output,
            self.options.get(phase, {}).get("service_tier"),
        )


UNKNOWN_MODEL: Final = "llm_model"
UNUSABLE_CODES: Final = frozenset({UNKNOWN_MODEL, "llm_quota"})
"""Errors of a model that its provider does not know, or whose account is used up."""
UNUSABLE_SECONDS: Final = 300.0
"""After this time such a model is tried again, if another one is used instead."""


@dataclass(frozen=True)
class Route:
    """One provider."""

    provider: Provider
    gate: ProviderGate


class ModelRouter:
    """Sends each request to the provider of its model."""

    def __init__(self, default: Route, named: Mapping[str, Route]) -> None:
        """`default` has all models that name none of the providers `named`."""
        self._default = default
        self._named = named
        self._unusable: dict[str, tuple[float, str]] = {}
        """Until when a model is not tried, and why."""

    async def complete(
        self, request: ChatRequest, in_flight: ResumableCall, on_delta: OnDelta | None = None
    ) -> ChatAnswer:
        """See `Provider.complete`."""
        route, name = self._find(request.model)
        messages = messages_for(request.messages, request.model)
        sent = replace(request, model=name, messages=messages)
        try:
            answer = await route.provider.complete(sent, in_flight, on_delta)
        except PermanentError as error:
            explained = self._explain(error, request.model, route)
            if explained.code in UNUSABLE_CODES:
                until = time.monotonic() + UNUSABLE_SECONDS
                self._unusable[request.model] = (until, str(explained))
            raise explained from error.__cause__
        if not answer.tool_calls:
            return answer
        return replace(answer, message={**answer.message, ORIGIN: request.model})

    def fault(self, model: str) -> ModelFault | None:
        """Why the model cannot be used now, as far as this process knows; None if it can."""
        until, reason = self._unusable.get(model, (0.0, ""))
        if time.monotonic() < until:
            return ModelFault(reason)
        outage = self._find(model)[0].gate.outage
        return None if outage is None else ModelFault(outage, is_outage=True)

    def provider_name(self, model: str) -> str | None:
        """The name of the model's provider in the settings; None for the default one."""
        prefix, slash, _ = model.partition("/")
        return prefix if slash and prefix in self._named else None

    async def close(self) -> None:
        for route in (self._default, *self._named.values()):
            await route.provider.close()

    def _explain(self, error: PermanentError, model: str, route: Route) -> PermanentError:
        """`error`, with a hint if the name of an unknown model may begin with that of a provider."""
        prefix, slash, _ = model.partition("/")
        if error.code != UNKNOWN_MODEL or not slash or route is not self._default:
            return error
        return PermanentError(
            error.code,
            f"{error}. If {prefix!r} is meant as a provider: VIGIL_PROVIDERS has none of that name",
            is_unbilled=error.is_unbilled,
        )

    def _find(self, model: str) -> tuple[Route, str]:
        """The provider, and its own name of the model."""
        provider = self.provider_name(model)
        if provider is None:
            return self._default, model
        return self._named[provider], model.removeprefix(f"{provider}/")
