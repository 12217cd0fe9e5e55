"""The connection to a model server: time limits, quick retries and classification of errors."""

import asyncio
import re
import time
from collections.abc import (
    AsyncGenerator,
    AsyncIterator,
    Awaitable,
    Callable,
    Mapping,
    Sequence,
)
from contextlib import suppress
from dataclasses import dataclass
from http import HTTPStatus
from ipaddress import ip_address
from operator import attrgetter
from typing import Any, Final, Literal, TypeVar
from urllib.parse import urlsplit

import aiohttp
import httpx2
import openai
from openai import AsyncOpenAI

from shared.billing.resumable_call import ResumableCall
from shared.database.text import error_text
from shared.errors import (
    PermanentError,
    TransientError,
    UnavailableError,
    VigilError,
    WaitForProviderError,
)
from shared.llm import answer_errors
from shared.llm.answer_errors import AnswerError, AnswerTimeoutError, FailureKind
from shared.llm.answers import Received
from shared.llm.messages import encode_json
from shared.provider_limits.gate import Passage, ProviderGate
from shared.retry_after import retry_after_seconds
from shared.server_json import read_json, words_of
from shared.telemetry.metrics import PROVIDER_HEALTH
from shared.tls import tls_context
from shared.urls import strip_secrets

T = TypeVar("T")

NEVER_SENT: Final = (aiohttp.ClientConnectorError, aiohttp.ConnectionTimeoutError)
"""Errors before a connection was there. The SDK's transport reports every lost connection as one that timed out while it
was made, also after the request was sent: only the cause distinguishes them."""
IDEMPOTENCY_KEY: Final = "Idempotency-Key"
PROVIDER: Final = "model"
"""Its name in metrics."""
REFUSED_REQUEST: Final = "llm_request"
"""Error code of a request that the server refuses for its content, not for the key or the model."""
QUEUED_WAITS: Final = 4
"""A serial server may take so many times the limit for the first token, while it answers other requests."""
EQUAL_REFUSALS: Final = 3
"""After so many of one request it is checked whether the server answers others."""
OVERLOADED_STATUSES: Final = frozenset({503, 529})
"""Statuses of a server that may refuse one request and accept a shorter one at the same time."""
_NO_RESPONSE: Final = "no response"
"""In place of a status, if the server closed the connection."""
REFUSED_ALONE_SECONDS: Final = 300.0
"""A step that has waited so long for such a server does not wait on while the server answers others."""
REFUSED_KEY: Final = "llm_key"
"""Error code of a request that the provider refuses for its key."""
RESTART_PAUSES: Final = (4.0, 8.0)
"""Seconds between requests that find out whether a server works again."""
REFUSED_CONTENT: Final = "llm_content"
"""Error code of a request that the provider refuses for a text in it."""
QUICK_TRIES = 3
MAX_QUICK_WAIT_SECONDS = 5.0
"""Short waits are retried here. For longer waits the step is released, so that it blocks no worker and no lease. The SDK's
own retries are off, because they would sleep for any Retry-After."""
MAX_RETRY_AFTER_SECONDS: Final = 3600.0
MAX_BODY_BYTES: Final = 32 * 1024**2
MAX_ERROR_BODY_BYTES: Final = 256 * 1024
CONNECT_SECONDS: Final = 15.0
READ_SECONDS: Final = 0.05
"""Between two reads of a stream, so that the tokens of this time are processed together."""
LARGE_PIECE_BYTES: Final = 8 * 1024
"""After a piece of this size more has been received already."""
_TRANSPORT: Final = attrgetter("_inner._stream._aiohttp_response.connection.transport")
"""The transport of the connection of a `_BoundedBody`. The SDK has no public way to it."""
_TIMER_SECONDS: Final = 0.01
"""Tolerance for timers that fire early."""
BYTES_PER_TOKEN: Final = 4
"""For the limit of tokens a minute, which providers estimate too."""
_OWN_NAMES: Final = frozenset({"localhost", "host.docker.internal"})
_NO_FILTER: Final = frozenset(
    {401, 402, 404, 405, 407, 410, 411, 413, 415, *answer_errors.UNAVAILABLE_STATUSES}
)
"""Statuses of the range 400 to 499 with a meaning of their own. Filters answer with any other one."""
_TOO_LARGE: Final = re.compile(
    r"request (is )?too large|output tokens must be reduced", re.IGNORECASE
)
"""In the message of a 429: the request alone exceeds the limit of a minute, so waiting does not help."""
_FLAG: Final = re.compile(r"(?<![\w-])--[a-z][a-z-]{2,}")
"""A flag of the server's command line: what it names must be changed where the server is started."""
_NOT_AN_OUTAGE: Final = frozenset({HTTPStatus.CONFLICT, HTTPStatus.TOO_EARLY})
"""Statuses of a single request that is to be repeated."""
_SLIPS: Final = frozenset({"tool_use_failed", "json_validate_failed"})
"""Codes of Groq and others for an answer of the model that the server could not parse. Another answer may be valid."""
_GATEWAY_TIMEOUTS: Final = frozenset({408, 504, 524})
"""Statuses of a gateway that gave up a request while the server may still work on it."""

Stream = Literal["auto", "always", "never"]


@dataclass(frozen=True)
class Limits:
    """Time limits of an answer, in seconds. Each has its own setting."""

    whole: float = 180.0
    silence: float = 60.0
    first_token: float = 600.0
    total: float = 7200.0


@dataclass(frozen=True)
class SettingNames:
    """The settings of a server, as its errors name them."""

    key: str = "OPENAI_API_KEY"
    url: str = "OPENAI_BASE_URL"
    api: str = "VIGIL_MODEL_API"
    context: str = "VIGIL_MODEL_CONTEXT_TOKENS"


class Patience:
    """Enforces the time limits of one answer, whose reader updates `received`.

    A server that handles one request at a time makes the others wait. So its limit for the first token restarts whenever
    it sends a part of another answer: see `server_answers`.
    """

    def __init__(
        self,
        server: str,
        limits: Limits,
        received: Received,
        *,
        streams: bool,
        is_serial: bool = False,
    ) -> None:
        """`is_serial`: the server is known to handle one request at a time."""
        self._server = server
        self._longest_wait = limits.first_token * (QUEUED_WAITS if is_serial else 1)
        self._limits = limits
        self._received = received
        self._streams = streams
        self._clock = asyncio.get_running_loop().time
        self._sent_at = self._renewed_at = self._clock()
        self._timer: asyncio.Timeout | None = None
        self._is_lost = False

    async def wait_for(self, awaited: Awaitable[T]) -> T:
        """Awaits the next piece within the limits. Raises AnswerTimeoutError, which names the setting."""
        timer = asyncio.timeout_at(self._next_deadline())
        try:
            async with timer:
                self._timer = timer
                return await awaited
        except TimeoutError:
            if not timer.expired():
                raise
            elapsed = self._clock() - self._sent_at
            if self._is_lost:
                raise AnswerError(
                    f"{self._server} was unavailable meanwhile, and has not answered for {elapsed:.0f} s",
                    kind=FailureKind.CUT_OFF,
                    counts=False,
                ) from None
            raise AnswerTimeoutError(
                f"gave up on {self._server} after {elapsed:.0f} s: {self._reason(elapsed)}; "
                f"received so far: {self._received.progress()}"
            ) from None
        finally:
            self._timer = None

    def server_answers(self) -> None:
        """Restarts the limit of a serial server, because it has just sent a part of another answer."""
        self._renewed_at = self._clock()
        if self._timer is not None and not self._timer.expired():
            self._timer.reschedule(self._next_deadline())

    def give_up(self) -> None:
        """Ends the wait, because the request was lost in an outage."""
        if self._timer is not None and not self._timer.expired():
            self._is_lost = True
            self._timer.reschedule(self._clock())

    def _next_deadline(self) -> float:
        limits = self._limits
        if not self._streams:
            return self._sent_at + limits.whole
        if self._received.characters:
            return min(self._clock() + limits.silence, self._sent_at + limits.total)
        longest = min(self._longest_wait, limits.total)
        return min(self._renewed_at + limits.first_token, self._sent_at + longest)

    def _reason(self, elapsed: float) -> str:
        limits = self._limits
        if not self._streams:
            return f"a whole answer may take {limits.whole:g} s (VIGIL_LLM_TIMEOUT_SECONDS)"
        if elapsed >= limits.total - _TIMER_SECONDS:
            return f"an answer may take {limits.total:g} s in all (VIGIL_LLM_TOTAL_SECONDS)"
        if self._received.characters:
            return f"it sent nothing for {limits.silence:g} s (VIGIL_LLM_SILENCE_SECONDS)"
        return f"no first token arrived within {limits.first_token:g} s (VIGIL_LLM_FIRST_TOKEN_SECONDS)"


class RefusedAloneError(TransientError):
    """The server refuses this request while it answers others. It uses an attempt."""


class ModelServer:
    """A connection pool to one model server."""

    def __init__(
        self,
        *,
        api_key: str,
        base_url: str | None,
        limits: Limits,
        stream: Stream = "auto",
        warn: Callable[[str], None] = lambda _: None,
        gate: ProviderGate | None = None,
        settings: SettingNames = SettingNames(),
        name: str | None = None,
    ) -> None:
        """`warn` receives warnings about answers that are used despite an error. Without a `gate` all requests are sent."""
        self.name = name or server_name(base_url)
        self._settings = settings
        self.gate = gate or ProviderGate(self.name)
        self.gate.probe = self._probe
        self._probed_model: str | None = None
        """The model of the last request; None before the first one."""
        self._is_serial = self.gate.is_serial or _is_on_this_machine(base_url)
        self.limits = limits
        self.stream: Stream = stream
        self.is_openai = base_url is None or "//api.openai.com/" in base_url
        self.warn = warn
        self._waiting: set[Patience] = set()
        """Limits of the answers whose first token was not received yet."""
        self._http = openai.DefaultAioHttpClient(
            verify=tls_context(),
            # A redirected POST would be sent again, possibly in an endless loop.
            follow_redirects=False,
            event_hooks={"response": [_bound_body]},
        )
        """Of the SDK's two transports the one that takes less than half the processor time."""
        self.client = AsyncOpenAI(
            api_key=api_key,
            base_url=base_url,
            max_retries=0,
            timeout=limits.whole,
            # Some proxies buffer a compressed stream before they forward it.
            default_headers={"Accept-Encoding": "identity"},
            http_client=self._http,
        )
        base = self.client.base_url
        self._chat_url = base.copy_with(raw_path=base.raw_path + b"chat/completions")
        headers = {**self.client.auth_headers, **self.client.default_headers}
        # The SDK marks headers that are not sent with values of a class of its own.
        self._headers = {name: text for name, text in headers.items() if isinstance(text, str)}
        # The limits of the answer are those of `Patience`.
        timeout = httpx2.Timeout(None, connect=CONNECT_SECONDS, write=limits.silence)
        self._extensions = {"timeout": timeout.as_dict()}

    async def close(self) -> None:
        await self.gate.close()
        await self.client.close()

    async def with_quick_retries(
        self, ask: Callable[[], Awaitable[T]], *, waited_seconds: float
    ) -> T:
        """Calls `ask`, which uses `translate_errors`, and retries short transient errors.

        `waited_seconds`: how long the step has waited for a provider. A complete but unusable answer is not requested again:
        it is paid for, and retried with the step. Raises RefusedAloneError if the server refuses this request alone.
        """
        begun_at = time.monotonic()
        failures: list[int | str] = []
        for attempt in range(1, QUICK_TRIES + 1):
            try:
                return await ask()
            except WaitForProviderError:
                raise
            except TransientError as error:
                cause = error.__cause__
                is_away = isinstance(error, UnavailableError) and not error.is_rate_limit
                if is_away and isinstance(cause, openai.APIStatusError):
                    failures.append(cause.status_code)
                elif is_away and not error.is_unbilled:
                    failures.append(_NO_RESPONSE)
                wait_seconds = error.retry_in_seconds or 0.5 * 2.0**attempt
                is_whole = isinstance(error, AnswerError) and (error.is_whole or error.has_no_end)
                is_last = attempt == QUICK_TRIES or wait_seconds > MAX_QUICK_WAIT_SECONDS
                has_waited = waited_seconds >= REFUSED_ALONE_SECONDS
                if is_last and await self._is_refused_alone(failures, begun_at, has_waited):
                    alone = f"{error}. The server answers other requests, but not this one"
                    raise RefusedAloneError(alone, is_unbilled=error.is_unbilled) from error
                if is_whole or is_last:
                    raise
            await asyncio.sleep(wait_seconds)
        raise AssertionError

    async def _is_refused_alone(
        self, failures: Sequence[int | str], begun_at: float, has_waited: bool
    ) -> bool:
        """Whether this request has failed in the same way a few times while the server answers others.

        After a long wait of the step any failure counts, and a server that the request has crashed has time to start again.
        """
        if has_waited and failures:
            for pause_seconds in RESTART_PAUSES:
                if await self.gate.answers_others(begun_at):
                    return True
                await asyncio.sleep(pause_seconds)
        elif (
            len(failures) < EQUAL_REFUSALS
            or len(set(failures)) > 1
            or failures[0] in OVERLOADED_STATUSES
        ):
            return False
        return await self.gate.answers_others(begun_at)

    async def _probe(self) -> None:
        """Sends the smallest request. Raises like `translate_errors`."""
        if self._probed_model is None:
            await self.translate_errors(self.client.models.with_raw_response.list(), "")
            return
        body = {
            "model": self._probed_model,
            "messages": [{"role": "user", "content": "Hello"}],
            "max_completion_tokens" if self.is_openai else "max_tokens": 1,
        }
        try:
            response = await self.translate_errors(
                self._post_chat(encode_json(body), {}), self._probed_model
            )
        except UnavailableError:
            raise
        except TransientError as error:
            if not isinstance(error.__cause__, openai.APIStatusError):
                raise
        else:
            await response.aclose()
        PROVIDER_HEALTH.answered(PROVIDER, self.name)

    async def translate_errors(
        self, call: Awaitable[T], model: str, *, limit: str | None = None
    ) -> T:
        """Awaits a call of `client` and translates its errors.

        Raises PermanentError for what a retry cannot fix (key, model, request), otherwise TransientError. An unavailable or
        rate-limiting server does not use an attempt of the step. `limit` describes the call's time limit, if it is not the
        usual one.
        """
        try:
            return await call
        except openai.APIConnectionError as error:  # its subclass APITimeoutError too
            PROVIDER_HEALTH.failed(PROVIDER, self.name)
            raise self._connection_error(error, limit) from error
        except openai.APIStatusError as error:
            translated = _status_error(self.name, self._settings, error, model)
            if error.status_code == HTTPStatus.TOO_MANY_REQUESTS:
                PROVIDER_HEALTH.rate_limited(PROVIDER, self.name)
            elif isinstance(translated, UnavailableError):
                PROVIDER_HEALTH.failed(PROVIDER, self.name)
            else:
                # One that refuses a request for its content is available.
                PROVIDER_HEALTH.answered(PROVIDER, self.name)
            raise translated from error
        except (httpx2.HTTPError, httpx2.StreamError, httpx2.InvalidURL) as error:
            # The SDK wraps these errors at the start of an answer, but not while its body is read.
            raise AnswerError(
                f"the answer from {self.name} broke off: {error or type(error).__name__}",
                kind=FailureKind.CUT_OFF,
            ) from error
        except aiohttp.ClientError as error:
            # The SDK's transport passes on what it does not know, such as a response that is no HTTP.
            raise AnswerError(
                f"{self.name} did not return a valid HTTP response: {error}"
            ) from error
        except (openai.APIError, ValueError, RecursionError) as error:
            raise AnswerError(f"the answer from {self.name} is not readable: {error}") from error

    async def json_object(
        self, call: Awaitable[Any], model: str, *, limit: str | None = None
    ) -> dict[str, Any]:
        """Awaits a raw call of `client` and returns its JSON object. Raises like `translate_errors`, and AnswerError."""
        response: httpx2.Response = (
            await self.translate_errors(call, model, limit=limit)
        ).http_response
        PROVIDER_HEALTH.answered(PROVIDER, self.name)
        body = answer_errors.parse_body(self.name, response.text)
        if not isinstance(body, dict):
            raise AnswerError(
                f"{self.name} did not return a JSON object: {response.text[: answer_errors.EXCERPT_CHARS]}",
                excerpt=response.text,
            )
        return body

    async def pieces(
        self, body: dict[str, Any], received: Received, in_flight: ResumableCall
    ) -> AsyncGenerator[bytes, None]:
        """Requests a chat completion and streams the body of the response, up to MAX_BODY_BYTES.

        The caller adds each piece to `received`, on which the time limits depend. Raises like `translate_errors`, and
        AnswerTimeoutError.
        """
        content = encode_json(body)
        tokens = len(content) // BYTES_PER_TOKEN
        self._probed_model = body["model"]
        headers = {IDEMPOTENCY_KEY: in_flight.key}
        async with self.gate.passage(
            tokens=tokens,
            waited_seconds=in_flight.waited_seconds,
            waiting=in_flight.waiting,
        ) as passage:
            patience = Patience(
                self.name,
                self.limits,
                received,
                streams="stream" in body,
                is_serial=self._is_serial,
            )
            passage.give_up = patience.give_up
            self._waiting.add(patience)
            response: httpx2.Response | None = None
            try:
                response = await self._open(body["model"], content, headers, patience, passage)
                pieces = aiter(response.aiter_bytes())
                while (
                    piece := await patience.wait_for(
                        self.translate_errors(anext(pieces, None), body["model"])
                    )
                ) is not None:
                    if received.bytes + len(piece) > MAX_BODY_BYTES:
                        raise AnswerError(
                            f"the answer from {self.name} is longer than {MAX_BODY_BYTES} bytes"
                        )
                    yield piece
                    if received.characters:
                        self._waiting.discard(patience)
                        for waiting in self._waiting:
                            waiting.server_answers()
                        if len(piece) < LARGE_PIECE_BYTES and not received.is_done:
                            await _pause_reading(response)
            finally:
                passage.used_tokens = (
                    tokens + (received.characters or received.bytes) // BYTES_PER_TOKEN
                )
                self._waiting.discard(patience)
                if response is not None:
                    await response.aclose()

    async def _open(
        self,
        model: str,
        content: bytes,
        headers: Mapping[str, str],
        patience: Patience,
        passage: Passage,
    ) -> httpx2.Response:
        """Returns the response before its body is read."""
        try:
            response = await patience.wait_for(
                self.translate_errors(self._post_chat(content, headers), model)
            )
        except AnswerTimeoutError as error:
            if (unanswered := await self.during_outage(passage, error)) is not None:
                raise unanswered from error
            raise
        except UnavailableError:
            raise
        except TransientError as error:
            if isinstance(error.__cause__, openai.APIStatusError):
                passage.answered()  # that is no outage
            raise
        passage.answered()
        PROVIDER_HEALTH.answered(PROVIDER, self.name)
        return response

    async def during_outage(
        self, passage: Passage, error: AnswerTimeoutError
    ) -> AnswerError | None:
        """Notes that nothing was answered in time. If the server is away, returns an error that uses no attempt and is no
        timeout of this request.
        """
        is_away = await passage.failed(str(error))
        return AnswerError(str(error), kind=FailureKind.CUT_OFF, counts=False) if is_away else None

    async def _post_chat(self, content: bytes, headers: Mapping[str, str]) -> httpx2.Response:
        """Posts `content` and returns the response before its body is read. Raises the SDK's errors.

        Uses the SDK's HTTP client and headers, but not its method, which takes as long as the rest of the exchange.
        """
        request = httpx2.Request(
            "POST",
            self._chat_url,
            headers={**self._headers, **headers},
            content=content,
            extensions=self._extensions,
        )
        try:
            response = await self._http.send(request, stream=True)
        except httpx2.RequestError as error:
            raise openai.APIConnectionError(request=request) from error
        if not response.is_success:
            raise await _read_error(response)
        return response

    def _connection_error(self, error: openai.APIConnectionError, limit: str | None) -> VigilError:
        cause = error.__cause__
        if isinstance(cause, _BodyTooLongError):
            return AnswerError(f"the answer from {self.name} is too long: {cause}")
        was_sent = cause is None or not isinstance(cause.__cause__, NEVER_SENT)
        if isinstance(cause, httpx2.TimeoutException) and isinstance(
            cause.__cause__, aiohttp.SocketTimeoutError
        ):
            limit = limit or f"{self.limits.whole:g} s (VIGIL_LLM_TIMEOUT_SECONDS)"
            return AnswerTimeoutError(
                f"no answer from {self.name} within {limit}; received so far: nothing"
            )
        # The SDK calls every lost connection a timeout, and aiohttp may describe one by what it has received.
        reason = str(cause) if cause and str(cause) else str(error)
        if cause is not None and isinstance(cause.__cause__, aiohttp.ServerDisconnectedError):
            reason = "it closed the connection"
        return UnavailableError(f"no answer from {self.name}: {reason}", is_unbilled=not was_sent)


def server_name(base_url: str | None, provider: str | None = None) -> str:
    """The name of a model server in messages. `provider` is its name in the settings, if it is a further one."""
    if provider is not None and base_url is not None:
        return f"the provider {provider!r} at {strip_secrets(base_url)}"
    return f"the model server at {strip_secrets(base_url)}" if base_url else "OpenAI"


class _BodyTooLongError(httpx2.TransportError):
    """The body of a response exceeds MAX_BODY_BYTES."""


@dataclass
class _BoundedBody(httpx2.AsyncByteStream):
    """A body that raises an error if it becomes too long."""

    _inner: httpx2.AsyncByteStream

    async def __aiter__(self) -> AsyncIterator[bytes]:
        byte_count = 0
        async for piece in self._inner:
            byte_count += len(piece)
            if byte_count > MAX_BODY_BYTES:
                raise _BodyTooLongError(f"more than {MAX_BODY_BYTES} bytes")
            yield piece

    async def aclose(self) -> None:
        await self._inner.aclose()


class _BoundedErrorBody(_BoundedBody):
    """The body of an error response, truncated. A broken body is fine, because the status decides."""

    async def __aiter__(self) -> AsyncIterator[bytes]:
        byte_count = 0
        try:
            async for piece in self._inner:
                yield piece[: MAX_ERROR_BODY_BYTES - byte_count]
                byte_count += len(piece)
                if byte_count >= MAX_ERROR_BODY_BYTES:
                    return
        except httpx2.TransportError:
            return


async def _bound_body(response: httpx2.Response) -> None:
    """Limits the size of a body, because the SDK reads all of it."""
    stream = response.stream
    assert isinstance(stream, httpx2.AsyncByteStream)
    response.stream = _BoundedErrorBody(stream) if response.is_error else _BoundedBody(stream)


async def _pause_reading(response: httpx2.Response) -> None:
    """Waits READ_SECONDS. Meanwhile what the server sends does not wake the process."""
    try:
        transport: asyncio.Transport | None = _TRANSPORT(response.stream)
    except AttributeError:  # the body has ended, and its connection may serve another request
        transport = None
    if transport is None or not transport.is_reading():
        await asyncio.sleep(READ_SECONDS)
        return
    transport.pause_reading()
    try:
        await asyncio.sleep(READ_SECONDS)
    finally:
        transport.resume_reading()


async def _read_error(response: httpx2.Response) -> openai.APIStatusError:
    await response.aread()
    body: Any = response.text.strip()
    with suppress(ValueError):
        body = read_json(body)
    if isinstance(body, list) and len(body) == 1:
        [body] = body
    return openai.APIStatusError(
        f"Error code: {response.status_code}",
        response=response,
        body=body.get("error", body) if isinstance(body, dict) else body,
    )


def _status_error(
    server: str, settings: SettingNames, error: openai.APIStatusError, model: str
) -> PermanentError | TransientError:
    """The error for a status. No provider bills an answer that was not generated."""
    message = f"{server} answered {error.status_code}: {error_text(_reason(error))}"

    def refused(code: str, hint: str = "") -> PermanentError:
        return PermanentError(code, f"{message}{hint}", is_unbilled=True)

    if 400 <= error.status_code < 500 and error.status_code not in _NO_FILTER:
        body: Any = None
        with suppress(ValueError):
            body = read_json(error.response.text)
        if answer_errors.is_filter_error(body, error.body):
            return refused(REFUSED_CONTENT)
    match error.status_code:
        case 401 | 403:
            return refused(REFUSED_KEY, f". Check {settings.key}")
        case 404:
            hint = f". Check the model name {model!r}, {settings.url} and {settings.api}"
            return refused("llm_model", hint)
        case status if status == 402 or (status == 429 and error.code == "insufficient_quota"):
            return refused("llm_quota", ". Check the account's plan and billing")
        case status if status >= 500 and _FLAG.search(message):
            return refused(REFUSED_REQUEST)
        case status if status in answer_errors.UNAVAILABLE_STATUSES or (
            status >= 500 and status != HTTPStatus.NOT_IMPLEMENTED
        ):
            if status == HTTPStatus.TOO_MANY_REQUESTS and _TOO_LARGE.search(message):
                hint = (
                    f". Set {settings.context} below the limit of tokens a minute of the account,"
                    " or raise that limit"
                )
                return refused(REFUSED_REQUEST, hint)
            headers = error.response.headers
            seconds = retry_after_seconds(
                headers.get("retry-after"),
                at_most=MAX_RETRY_AFTER_SECONDS,
                date=headers.get("date"),
            )
            if status in _NOT_AN_OUTAGE:
                return TransientError(
                    message, retry_in_seconds=seconds, counts=False, is_unbilled=True
                )
            return UnavailableError(
                message,
                retry_in_seconds=seconds,
                is_rate_limit=status == HTTPStatus.TOO_MANY_REQUESTS,
                is_unbilled=status not in _GATEWAY_TIMEOUTS,
            )
        case status if 300 <= status < 400:
            location = error.response.headers.get("location", "nowhere")[:200]
            return PermanentError(
                REFUSED_REQUEST,
                f"{server} redirects to {error_text(location)}. Set {settings.url} to its actual address",
                is_unbilled=True,
            )
        case _ if (generation := answer_errors.failed_generation(error.body)) or any(
            str(each.get("code")) in _SLIPS for each in answer_errors.objects_in(error.body)
        ):
            return AnswerError(message, excerpt=generation, generation=generation, is_unbilled=True)
        case _:
            return refused(REFUSED_REQUEST)


def _reason(error: openai.APIStatusError) -> str:
    """Returns the server's sentence, without the text that the SDK adds."""
    return (words_of(error.body) or error.message).rstrip(". ")


def _is_on_this_machine(base_url: str | None) -> bool:
    host = urlsplit(base_url or "").hostname or ""
    if host in _OWN_NAMES:
        return True
    try:
        return ip_address(host).is_loopback
    except ValueError:
        return False
