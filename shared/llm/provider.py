"""The model by chat completions: requests, streamed answers, time limits, errors, embeddings."""

import asyncio
import base64
import codecs
import math
import re
import struct
from collections.abc import (
    AsyncGenerator,
    AsyncIterator,
    Awaitable,
    Callable,
    Iterator,
    Mapping,
    Sequence,
)
from contextlib import AbstractAsyncContextManager, aclosing, suppress
from dataclasses import dataclass, field
from http import HTTPStatus
from typing import Any, Final, Literal, Protocol, TypeVar

import httpx2
import openai
from openai import AsyncAPIResponse, AsyncOpenAI

from shared.billing.embedding_cache import EmbeddingRequest, Vector
from shared.billing.resumable_call import InFlight
from shared.database.tables.graph import DIMENSIONS
from shared.database.text import error_text
from shared.errors import PermanentError, TransientError, VigilError, unbilled
from shared.llm.answers import (
    SAID_CHARACTERS,
    AnswerError,
    AnswerTimeoutError,
    FailureKind,
    Said,
    UnreadableError,
    arguments_of,
    calls_of,
    choice_of,
    finish_reason_of,
    function_of,
    id_of,
    message_of,
    name_of,
    raise_error_in,
    read_completion,
    read_json,
    text_of,
    usage_of,
)
from shared.llm.messages import ChatAnswer, ChatRequest, ToolCall
from shared.retry_after import retry_after_seconds
from shared.tools.schemas import MAX_ITEMS, without_max_items
from shared.urls import without_secrets

_END: Final = "[DONE]"
_ENOUGH_BYTES: Final = 8
"""By so many of a body's first bytes it is told whether it is a stream of events."""
_THOUGHT_KEYS: Final = ("reasoning_content", "reasoning", "thinking")


class EventLines:
    """Decodes server-sent events: bytes as they come in, the data of whole events out."""

    def __init__(self) -> None:
        self._decoder = codecs.getincrementaldecoder("utf-8-sig")(errors="replace")
        self._line: list[str] = []
        self._data: list[str] = []
        self._ended_with_return = False

    def feed(self, piece: bytes, *, is_last: bool = False) -> Iterator[str]:
        text = self._decoder.decode(piece, final=is_last)
        if text:
            begins_within_break = self._ended_with_return and text.startswith("\n")
            self._ended_with_return = text.endswith("\r")
            text = text[1:] if begins_within_break else text
        *lines, rest = text.replace("\r\n", "\n").replace("\r", "\n").split("\n")
        for line in lines:
            whole = "".join((*self._line, line))
            self._line = []
            yield from self._take(whole)
        self._line.append(rest)
        if is_last:
            yield from self._take("".join(self._line))
            yield from self._take("")

    def _take(self, line: str) -> Iterator[str]:
        if not line:
            if self._data:
                yield "\n".join(self._data)
                self._data = []
            return
        # Comments begin with a colon and have an empty name.
        name, _, value = line.partition(":")
        if name == "data":
            self._data.append(value.removeprefix(" "))


@dataclass
class _Call:
    id: str = ""
    name: str = ""
    arguments: list[str] = field(default_factory=list)


class Streamed:
    """Takes the chunks of a stream in their order. By hand and not by the SDK, whose types trip over small differences."""

    def __init__(self, server: str) -> None:
        self._server = server
        self._said = Said()
        self._calls: list[_Call] = []
        self._by_index: dict[int, _Call] = {}
        """The call that pieces of an index belong to at present."""
        self._texts: list[str] = []
        self._has_choice = False
        self.is_done = False
        """Whether the server said that nothing follows."""
        self.characters = 0
        """Of text, thoughts and tool arguments, so far."""
        self._began = ""

    @property
    def text(self) -> str:
        """What the answer says so far."""
        if len(self._texts) > 1:
            self._texts = ["".join(self._texts)]
        return self._texts[0] if self._texts else ""

    def take(self, data: str) -> bool:
        """Whether the text has grown. Raises AnswerError where a chunk is an error, or cannot be read."""
        if len(self._began) < SAID_CHARACTERS:
            self._began += f"{data[:SAID_CHARACTERS]}\n"
        if data.strip() == _END:
            self.is_done = True
            return False
        try:
            chunk = read_json(data)
            if not chunk:
                return False
            raise_error_in(self._server, chunk)
            return self._take_chunk(chunk)
        except ValueError as error:
            raise AnswerError(
                f"{self._server} streamed what is no chunk of a chat completion, {error}: "
                f"{data[:SAID_CHARACTERS]}",
                said=data,
                usage=self._said.usage,
            ) from None

    @property
    def beginning(self) -> str:
        """What the answer says so far, or where it says nothing, the chunks as they came."""
        return self.text or self._began

    def answer(self) -> ChatAnswer:
        """The whole answer. Raises AnswerError where it broke off, never began, or cannot be used."""
        said = self._said
        if not self._has_choice:
            raise AnswerError(
                f"{self._server} streamed an answer without any choice: {self._began.strip()!r}",
                said=self._began,
                usage=said.usage,
            )
        if said.finish_reason is None and not self.is_done:
            raise self.cut_off("the stream ended without a finish reason")
        said.text = self.text
        said.calls = [
            ToolCall(call.id, call.name, "".join(call.arguments) or "{}") for call in self._calls
        ]
        return said.answer(self._server, said.refusal or self.beginning)

    def cut_off(self, reason: str) -> AnswerError:
        """The error of a stream that ends too early."""
        return AnswerError(
            f"the answer of {self._server} broke off after {self.characters} characters: {reason}",
            kind=FailureKind.CUT_OFF,
            said=self.beginning,
            usage=self._said.usage,
        )

    def _take_chunk(self, chunk: Any) -> bool:
        choice = choice_of(chunk)
        if chunk.get("usage") is not None:
            self._said.usage = usage_of(chunk["usage"])
        if choice is None:
            return False
        self._has_choice = True
        self._said.finish_reason = finish_reason_of(choice) or self._said.finish_reason
        delta = choice.get("delta", choice.get("message"))
        if delta is None and choice.get("text") is None:
            return False
        if delta == {}:
            return False
        return self._take_delta(message_of(choice) if delta is None else delta)

    def _take_delta(self, delta: Any) -> bool:
        if not isinstance(delta, dict):
            raise UnreadableError("its delta is no object")
        for call in calls_of(delta):
            self._take_call(call)
        text, refusal = text_of(delta.get("content"))
        given = delta.get("refusal")
        self._said.refusal += refusal + (given if isinstance(given, str) else "")
        thoughts = (delta.get(key) for key in _THOUGHT_KEYS)
        self.characters += len(text) + sum(len(each) for each in thoughts if isinstance(each, str))
        if text:
            self._texts.append(text)
        return bool(text)

    def _take_call(self, piece: dict[str, Any]) -> None:
        function = function_of(piece) if piece.get("function") or "name" in piece else {}
        name, arguments, call_id = name_of(function), arguments_of(function), id_of(piece)
        index = _index(piece)
        call = self._call_at(index)
        # Some servers send every call whole, all under the same index or under none: there a new id is a new call, and
        # without an index a new name is too.
        is_other = call is not None and (
            bool(call_id and call.id and call_id != call.id)
            or bool(index is None and not call_id and name and call.name)
        )
        if call is None or is_other:
            if not name and not call_id and not arguments:
                raise UnreadableError("a tool call has neither a name nor arguments")
            call = _Call()
            self._calls.append(call)
            if index is not None:
                self._by_index[index] = call
        call.id = call.id or call_id
        call.name = call.name or name or ""
        if arguments:
            call.arguments.append(arguments)
            self.characters += len(arguments)

    def _call_at(self, index: int | None) -> _Call | None:
        if index is None:
            return self._calls[-1] if self._calls else None
        return self._by_index.get(index)


class Received:
    """A response body as it comes, which may be a stream of events or one object, whichever was asked for."""

    def __init__(self, server: str) -> None:
        self._server = server
        self._head = b""
        self._has_events = False
        self._whole: list[bytes] | None = None
        self._lines = EventLines()
        self.streamed = Streamed(server)
        self.bytes = 0

    @property
    def characters(self) -> int:
        """Of the answer, so far."""
        return self.streamed.characters

    @property
    def is_done(self) -> bool:
        """Whether the server said that nothing follows."""
        return self.streamed.is_done

    def take(self, piece: bytes) -> bool:
        """Whether the text has grown. Raises AnswerError."""
        self.bytes += len(piece)
        if self._whole is not None:
            self._whole.append(piece)
            return False
        if not self._has_events:
            self._head = piece = (self._head + piece).lstrip()
            if len(piece) < _ENOUGH_BYTES:
                return False
            self._has_events = self._is_events()
            if not self._has_events:
                self._whole = [piece]
                return False
        grown = [self.streamed.take(data) for data in self._lines.feed(piece)]
        return any(grown)

    def answer(self) -> ChatAnswer:
        """Raises AnswerError."""
        if not self._has_events and self._whole is None:
            self._has_events = self._is_events()
            self._whole = None if self._has_events else [self._head]
            if self._has_events:
                for data in self._lines.feed(self._head):
                    self.streamed.take(data)
        if self._whole is not None:
            body = b"".join(self._whole)
            return read_completion(self._server, body.decode("utf-8-sig", "replace"))
        for data in self._lines.feed(b"", is_last=True):
            if not _is_whole(data):
                raise self.cut_off("its last event is incomplete")
            self.streamed.take(data)
        return self.streamed.answer()

    def in_words(self) -> str:
        """What has come so far."""
        return f"{self.bytes} bytes, {self.characters} characters of an answer"

    def explained(self, error: AnswerError) -> AnswerError:
        """`error`, with what the server had said before it."""
        if error.said:
            return error
        if error.kind is FailureKind.CUT_OFF:
            return self.cut_off(str(error))
        return error.having_said(self._beginning())

    def cut_off(self, reason: str) -> AnswerError:
        """The error of a body that ends too early."""
        if self._whole is None:
            return self.streamed.cut_off(reason)
        return AnswerError(
            f"the answer of {self._server} broke off after {self.bytes} bytes: {reason}",
            kind=FailureKind.CUT_OFF,
            said=self._beginning(),
        )

    def _beginning(self) -> str:
        if self._whole is None:
            return self.streamed.beginning
        return b"".join(self._whole)[: 4 * SAID_CHARACTERS].decode("utf-8", "replace")

    def _is_events(self) -> bool:
        head = self._head.removeprefix(codecs.BOM_UTF8).lstrip()
        return head.startswith((b"data:", b"event:", b"id:", b"retry:", b":"))


def _is_whole(data: str) -> bool:
    """Whether the data of an event is complete."""
    try:
        read_json(data)
    except ValueError:
        return data.strip() == _END
    return True


def _index(piece: dict[str, Any]) -> int | None:
    index = piece.get("index")
    if isinstance(index, str) and index.isdecimal() and len(index) < len("1000000"):
        return int(index)
    return index if isinstance(index, int) else None


T = TypeVar("T")

NEVER_SENT: Final = (httpx2.ConnectError, httpx2.ConnectTimeout, httpx2.PoolTimeout)
REFUSED_REQUEST: Final = "llm_request"
"""The code of what is refused for what it asks, and not for who asks or whom."""
QUICK_TRIES = 3
LONGEST_QUICK_WAIT_SECONDS = 5.0
"""Short trouble is waited out here. For longer waits the step is given back, so that they hold up no slot and no lease;
the SDK's own retries would sleep through any Retry-After."""
LONGEST_RETRY_AFTER_SECONDS: Final = 3600.0
MAX_BODY_BYTES: Final = 32 * 1024**2
MAX_ERROR_BODY_BYTES: Final = 256 * 1024
CONNECT_SECONDS: Final = 15.0
_TIMER_SECONDS: Final = 0.01
"""By how much a timer may be early."""
_TOOK_TOO_LONG: Final = frozenset({408, 504, 524})
"""Statuses by which a gateway gives up a request that its server may still work on."""

Stream = Literal["auto", "always", "never"]


@dataclass(frozen=True)
class Limits:
    """How long the server may take, each with the setting that says so. All in seconds."""

    whole: float = 180.0
    silence: float = 60.0
    first_token: float = 600.0
    total: float = 7200.0


class Patience:
    """The time that one answer may take. `has_begun` and `received` are kept up to date by the reader of the answer.

    A server that takes one request at a time lets the others wait. So the wait for the first token begins anew whenever the
    server sends a part of another answer: see `server_answers`.
    """

    def __init__(self, server: str, limits: Limits, *, streams: bool) -> None:
        self._server = server
        self._limits = limits
        self._streams = streams
        self._clock = asyncio.get_running_loop().time
        self._sent_at = self._clock()
        self._timer: asyncio.Timeout | None = None
        self.has_begun = False
        """Whether the first token has come."""
        self.received: Callable[[], str] = lambda: "nothing"
        """What has come so far, in words."""

    async def wait_for(self, awaited: Awaitable[T]) -> T:
        """The next piece. Raises AnswerTimeoutError, which names the setting."""
        timer = asyncio.timeout_at(self._next_deadline())
        try:
            async with timer:
                self._timer = timer
                return await awaited
        except TimeoutError:
            if not timer.expired():
                raise
            spent = self._clock() - self._sent_at
            raise AnswerTimeoutError(
                f"{self._server} was given up after {spent:.0f} s: {self._reason(spent)}; "
                f"received so far: {self.received()}"
            ) from None
        finally:
            self._timer = None

    def server_answers(self) -> None:
        """The server sent a part of another answer just now."""
        if self._timer is not None and not self._timer.expired():
            self._timer.reschedule(self._next_deadline())

    def _next_deadline(self) -> float:
        limits = self._limits
        if not self._streams:
            return self._sent_at + limits.whole
        silence = limits.silence if self.has_begun else limits.first_token
        return min(self._clock() + silence, self._sent_at + limits.total)

    def _reason(self, spent: float) -> str:
        limits = self._limits
        if not self._streams:
            return f"a whole answer may take {limits.whole:g} s (VIGIL_LLM_TIMEOUT_SECONDS)"
        if spent >= limits.total - _TIMER_SECONDS:
            return f"an answer may take {limits.total:g} s in all (VIGIL_LLM_TOTAL_SECONDS)"
        if self.has_begun:
            return f"it sent nothing for {limits.silence:g} s (VIGIL_LLM_SILENCE_SECONDS)"
        return f"no first token came in {limits.first_token:g} s (VIGIL_LLM_FIRST_TOKEN_SECONDS)"


class ModelServer:
    """One connection pool to it."""

    def __init__(
        self,
        *,
        api_key: str,
        base_url: str | None,
        limits: Limits,
        stream: Stream = "auto",
        warn: Callable[[str], None] = lambda _: None,
    ) -> None:
        """`warn` is told what is wrong with answers that are used all the same."""
        self.name = f"the model server at {without_secrets(base_url)}" if base_url else "OpenAI"
        self.limits = limits
        self.stream: Stream = stream
        self.is_openai = base_url is None or "//api.openai.com/" in base_url
        self.warn = warn
        self._waiting: set[Patience] = set()
        """Of the answers whose first token has not come."""
        self.client = AsyncOpenAI(
            api_key=api_key,
            base_url=base_url,
            max_retries=0,
            timeout=limits.whole,
            # Some proxies gather a compressed stream before they pass it on.
            default_headers={"Accept-Encoding": "identity"},
            # A redirected POST would be sent again, perhaps for ever.
            http_client=openai.DefaultAsyncHttpxClient(
                follow_redirects=False, event_hooks={"response": [_bound_body]}
            ),
        )

    async def close(self) -> None:
        await self.client.close()

    async def patiently(self, ask: Callable[[], Awaitable[T]]) -> T:
        """What `ask`, which goes through `asked`, gives; short trouble is waited out.

        An answer that came whole and is not usable is no such trouble: it is paid for, and tried again by the step.
        """
        for tried in range(1, QUICK_TRIES):
            try:
                return await ask()
            except TransientError as error:
                wait_seconds = error.retry_in_seconds or 0.5 * 2.0**tried
                is_whole = isinstance(error, AnswerError) and error.is_whole
                if is_whole or wait_seconds > LONGEST_QUICK_WAIT_SECONDS:
                    raise
            await asyncio.sleep(wait_seconds)
        return await ask()

    async def asked(self, call: Awaitable[T], model: str, *, limit: str | None = None) -> T:
        """What a call of `client` gives.

        Raises PermanentError for what another try cannot mend (key, model, request), TransientError for the rest. A server
        that is away or limits its callers says nothing about the work: that does not count as an attempt. `limit` says in
        words how long the call may take, where that is not the usual.
        """
        try:
            return await call
        except openai.APIConnectionError as error:  # its subclass APITimeoutError too
            raise self._connection_error(error, limit) from error
        except openai.APIStatusError as error:
            refused = self._status_error(error, model)
            raise (unbilled(refused) if _is_refusal(error.status_code) else refused) from error
        except (httpx2.HTTPError, httpx2.StreamError, httpx2.InvalidURL) as error:
            # The SDK wraps it where an answer begins, not while its body is read.
            raise AnswerError(
                f"the answer of {self.name} broke off: {error or type(error).__name__}",
                kind=FailureKind.CUT_OFF,
            ) from error
        except (openai.APIError, ValueError, RecursionError) as error:
            raise AnswerError(f"the answer of {self.name} is not readable: {error}") from error

    async def object_of(
        self, call: Awaitable[Any], model: str, *, limit: str | None = None
    ) -> dict[str, Any]:
        """The JSON object that a raw call of `client` gives. Raises what `asked` does, and AnswerError for anything else."""
        response: httpx2.Response = (await self.asked(call, model, limit=limit)).http_response
        try:
            body = read_json(response.text)
        except ValueError as error:
            raise AnswerError(
                f"{self.name} did not answer with JSON ({error}): {response.text[:SAID_CHARACTERS]}",
                said=response.text,
            ) from None
        if not isinstance(body, dict):
            raise AnswerError(
                f"{self.name} did not answer with a JSON object: {response.text[:SAID_CHARACTERS]}",
                said=response.text,
            )
        return body

    async def pieces(
        self,
        opening: AbstractAsyncContextManager[AsyncAPIResponse[Any]],
        model: str,
        patience: Patience,
        received: Received,
    ) -> AsyncGenerator[bytes, None]:
        """The body of a response as it comes, at most MAX_BODY_BYTES. Raises what `asked` does, and AnswerTimeoutError.

        `received` says what has come where nothing more does.
        """
        patience.received = received.in_words
        self._waiting.add(patience)
        try:
            # What the SDK itself may time out on here is sending the request.
            limit = f"{self.limits.silence:g} s (VIGIL_LLM_SILENCE_SECONDS)"
            asked = self.asked(opening.__aenter__(), model, limit=limit)
            response = await patience.wait_for(asked)
            body = aiter(response.iter_bytes())
            taken = 0
            while (
                piece := await patience.wait_for(self.asked(anext(body, None), model))
            ) is not None:
                taken += len(piece)
                if taken > MAX_BODY_BYTES:
                    raise AnswerError(
                        f"the answer of {self.name} is longer than {MAX_BODY_BYTES} bytes"
                    )
                yield piece
                if patience.has_begun:
                    self._waiting.discard(patience)
                    for other in self._waiting:
                        other.server_answers()
        finally:
            self._waiting.discard(patience)
            await opening.__aexit__(None, None, None)

    def _connection_error(self, error: openai.APIConnectionError, limit: str | None) -> VigilError:
        cause = error.__cause__
        if isinstance(cause, _BodyTooLongError):
            return AnswerError(f"the answer of {self.name} is too long: {cause}")
        if isinstance(cause, httpx2.TimeoutException) and not isinstance(cause, NEVER_SENT):
            limit = limit or f"{self.limits.whole:g} s (VIGIL_LLM_TIMEOUT_SECONDS)"
            return AnswerTimeoutError(
                f"{self.name} was given up: it did not answer in {limit}; received so far: nothing"
            )
        reason = f"{error} ({cause})" if cause and str(cause) else str(error)
        unanswered = TransientError(f"no answer from {self.name}: {reason}", counts=False)
        return unbilled(unanswered) if isinstance(cause, NEVER_SENT) else unanswered

    def _status_error(
        self, error: openai.APIStatusError, model: str
    ) -> PermanentError | TransientError:
        said = f"{self.name} answered {error.status_code}: {error_text(_reason(error))}"
        match error.status_code:
            case 401 | 403:
                return PermanentError("llm_key", f"{said}. Check OPENAI_API_KEY")
            case 404:
                return PermanentError(
                    "llm_model",
                    f"{said}. Check the model name {model!r}, OPENAI_BASE_URL and VIGIL_MODEL_API",
                )
            case 402:
                return PermanentError("llm_quota", f"{said}. Check the account's plan and billing")
            case 429 if error.code == "insufficient_quota":
                return PermanentError("llm_quota", f"{said}. Check the account's plan and billing")
            case 408 | 409 | 425 | 429:
                return TransientError(said, retry_in_seconds=_retry_after(error), counts=False)
            case status if 300 <= status < 400:
                leads_to = error.response.headers.get("location", "nowhere")[:200]
                return PermanentError(
                    REFUSED_REQUEST,
                    f"{self.name} redirects to {error_text(leads_to)}. Set OPENAI_BASE_URL to where it really is",
                )
            case HTTPStatus.NOT_IMPLEMENTED:
                return PermanentError(REFUSED_REQUEST, said)
            case status if status >= 500:
                return TransientError(said, retry_in_seconds=_retry_after(error), counts=False)
            case _:
                return PermanentError(REFUSED_REQUEST, said)


class _BodyTooLongError(httpx2.TransportError):
    """A response goes on and on."""


class _BoundedBody(httpx2.AsyncByteStream):
    """A body that raises an error when it becomes too long."""

    def __init__(self, inner: httpx2.AsyncByteStream) -> None:
        self._inner = inner

    async def __aiter__(self) -> AsyncIterator[bytes]:
        taken = 0
        async for piece in self._inner:
            taken += len(piece)
            if taken > MAX_BODY_BYTES:
                raise _BodyTooLongError(f"more than {MAX_BODY_BYTES} bytes")
            yield piece

    async def aclose(self) -> None:
        await self._inner.aclose()


class _BoundedErrorBody(_BoundedBody):
    """The body of an error, as far as it comes and is of use: its status says what follows."""

    async def __aiter__(self) -> AsyncIterator[bytes]:
        taken = 0
        try:
            async for piece in self._inner:
                yield piece[: MAX_ERROR_BODY_BYTES - taken]
                taken += len(piece)
                if taken >= MAX_ERROR_BODY_BYTES:
                    return
        except httpx2.TransportError:
            return


async def _bound_body(response: httpx2.Response) -> None:
    """The SDK reads a body whole, however long it is."""
    stream = response.stream
    assert isinstance(stream, httpx2.AsyncByteStream)
    response.stream = _BoundedErrorBody(stream) if response.is_error else _BoundedBody(stream)


def _is_refusal(status: int) -> bool:
    """Whether the server says that no answer was made, which no provider bills.

    What gateways say when their server took too long may be billed: that server does not know of it.
    """
    return status not in _TOOK_TOO_LONG


def _reason(error: openai.APIStatusError) -> str:
    """What the server said, without what the SDK wraps around it."""
    body: Any = error.body
    told = body.get("message") if isinstance(body, Mapping) else None
    return (told if isinstance(told, str) else error.message).rstrip(". ")


def _retry_after(error: openai.APIStatusError) -> float | None:
    header = error.response.headers.get("retry-after")
    return retry_after_seconds(header, at_most=LONGEST_RETRY_AFTER_SECONDS)


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
