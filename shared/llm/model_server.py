"""A model server as a connection: reached, waited for within limits, its errors classified."""

import asyncio
from collections.abc import (
    AsyncGenerator,
    AsyncIterator,
    Awaitable,
    Callable,
    Mapping,
)
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass
from http import HTTPStatus
from typing import Any, Final, Literal, TypeVar

import httpx2
import openai
from openai import AsyncAPIResponse, AsyncOpenAI

from shared.database.text import error_text
from shared.errors import PermanentError, TransientError, VigilError, unbilled
from shared.llm.answers import (
    SAID_CHARACTERS,
    AnswerError,
    AnswerTimeoutError,
    FailureKind,
    read_json,
)
from shared.llm.streamed import Received
from shared.retry_after import retry_after_seconds
from shared.urls import without_secrets

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
