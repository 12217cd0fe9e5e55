"""Client for Tavily's search, extract and research. Its errors are transient or permanent.

Search and extract are short calls without a reference, so they cannot be resumed after a crash.
"""

import re
from collections.abc import Awaitable, Callable, Coroutine, Mapping, Sequence
from copy import copy
from datetime import date, timedelta
from functools import partial
from http import HTTPStatus
from typing import Any, Final, Self, TypeVar

import httpx
from tavily import AsyncTavilyClient
from tavily import errors as tavily_errors

from shared.billing.resumable_call import CallLostError, ResumableCall, poll_until_done
from shared.database.text import error_text
from shared.errors import (
    PermanentError,
    QuotaUsedUpError,
    TransientError,
    UnavailableError,
    VigilError,
)
from shared.provider_limits.gate import PROBE_SECONDS, ProviderGate
from shared.retry_after import retry_after_seconds
from shared.server_json import words_of
from shared.telemetry.metrics import PROVIDER_HEALTH
from shared.tools import Json, ToolRefusalError
from shared.web_search import answers
from shared.web_search.answers import BadAnswerError

T = TypeVar("T")
NEVER_SENT = (httpx.ConnectError, httpx.ConnectTimeout, httpx.PoolTimeout)
_TIMEOUTS = (tavily_errors.TimeoutError, TimeoutError)
_BROKEN_OFF = (httpx.NetworkError, httpx.RemoteProtocolError)
MAX_RETRY_AFTER_SECONDS: Final = 3_600.0
"""Maximum wait that is accepted from the search service."""
NAME: Final = "the search service"
BASE_URL: Final = "https://api.tavily.com"
PROVIDER: Final = "search"
"""The name of the search service in metrics."""
_DAYS_OF_RANGE: Final[Mapping[str, int]] = {"day": 1, "week": 7, "month": 31, "year": 366}
_UNAVAILABLE: Final = frozenset({408, 425, 429})
"""Statuses of an unavailable service, besides all from 500 on."""


class SearchClient:
    """One connection pool to the search service."""

    def __init__(
        self,
        *,
        api_key: str,
        base_url: str | None,
        timeout_seconds: float,
        gate: ProviderGate | None = None,
        readable: Callable[[Json], Awaitable[Json]] | None = None,
    ) -> None:
        """Without a `gate` all requests are sent. `readable` leaves out pages that cannot be read."""
        self._readable = readable
        self._gate = gate or ProviderGate(NAME)
        self._gate.probe = self._probe
        self._http = answers.create_client(base_url or BASE_URL)
        self._client = AsyncTavilyClient(
            api_key=api_key, api_base_url=base_url or BASE_URL, client=self._http
        )
        self._timeout_seconds = timeout_seconds
        self._limits: Mapping[str, Any] = {}
        self._turn: Mapping[str, Any] = {}
        """Arguments of `ProviderGate.passage` on the step that makes the call."""

    def of_corpus(self, corpus: str | None) -> Self:
        """The same client, whose requests name a corpus of the sandbox; itself if `corpus` is None."""
        if corpus is None:
            return self
        client = copy(self)
        client._limits = {"corpus": corpus}
        return client

    def for_call(self, in_flight: ResumableCall) -> Self:
        """A copy of the client with the time limit and waiting time of one call."""
        client = copy(self)
        client._turn = {
            "waited_seconds": in_flight.waited_seconds,
            "waiting": in_flight.waiting,
        }
        return client

    async def search(
        self,
        query: str,
        *,
        max_results: int,
        topic: str | None,
        time_range: str | None,
        exclude_domains: Sequence[str] = (),
        archive_date: date | None = None,
    ) -> Json:
        """`{"results": [{title, url, content, published_date, score}]}`, best first.

        `time_range` ends with `archive_date`, as do the results.
        """
        response = await self._send(
            self._client.search(
                query,
                max_results=max_results,
                topic=topic,
                **_dates(time_range, archive_date),
                exclude_domains=list(exclude_domains) or None,
                timeout=self._timeout_seconds,
                **self._limits,
            )
        )
        return await self._without_unreadable(_parse_answer(answers.parse_search, response))

    async def extract(self, urls: list[str]) -> Json:
        """`{"results": [{url, title, content, cut}], "failed": [{url, error}]}`; content is the page's text.

        `cut` is present, as a sentence, if the page was truncated.
        """
        response = await self._send(
            self._client.extract(
                urls, format="markdown", timeout=self._timeout_seconds, **self._limits
            )
        )
        return await self._without_unreadable(_parse_answer(answers.parse_pages, response))

    async def _without_unreadable(self, answer: Json) -> Json:
        return answer if self._readable is None else await self._readable(answer)

    async def order_research(self, question: str) -> str:
        """Starts a research of the service, which takes minutes. Returns the id for `collect_research`."""
        response = await self._send(
            self._client.research(question, timeout=self._timeout_seconds, **self._limits)
        )
        return _parse_answer(answers.parse_research_id, response)

    async def collect_research(self, request_id: str) -> Json:
        """Waits for a research: `{"content", "cut", "sources": [{title, url}]}`; `cut` as in `extract`.

        Raises CallLostError if there is no research with this id.
        """
        task = await poll_until_done(partial(self._poll_research, request_id))
        status = _parse_answer(answers.research_status, task)
        if status != "completed":
            raise ToolRefusalError(
                f"the research ended with status {status!r}; use tavilySearch instead"
            )
        return _parse_answer(answers.parse_research, task)

    async def close(self) -> None:
        await self._gate.close()
        await self._http.aclose()

    async def _probe(self) -> None:
        """Sends the smallest search. Raises like `search`."""
        try:
            await self._measure(
                self._client.search("news", max_results=1, timeout=PROBE_SECONDS, **self._limits)
            )
        except TransientError as error:
            if not _is_refusal(error):
                raise

    async def _poll_research(self, request_id: str) -> Any:
        try:
            task = await self._measure(self._client.get_research(request_id))
        except TransientError as error:
            cause = error.__cause__
            if isinstance(cause, httpx.HTTPStatusError) and cause.response.status_code == 404:
                raise CallLostError(f"Tavily no longer has the research {request_id}") from error
            raise
        status = _parse_answer(answers.research_status, task)
        return None if status in ("pending", "in_progress") else task

    async def _send(self, call: Awaitable[Any]) -> Any:
        """Awaits `call` and translates its errors. Raises WaitForProviderError instead of beginning it."""
        try:
            async with self._gate.passage(**self._turn) as passage:
                try:
                    answer = await self._measure(call)
                except TransientError as error:
                    if _is_refusal(error):
                        passage.answered()
                    is_timeout = isinstance(error.__cause__, _TIMEOUTS) and error.counts
                    if is_timeout and await passage.failed(str(error)):
                        raise UnavailableError(str(error)) from error
                    raise
                passage.answered()
                return answer
        finally:
            if isinstance(call, Coroutine):
                call.close()

    async def _measure(self, call: Awaitable[Any]) -> Any:
        """Awaits `call`, translates its errors, and notes whether the service is available."""
        try:
            response = await self._translate_errors(call)
        except TransientError as error:
            _note_failure(error)
            raise
        PROVIDER_HEALTH.answered(PROVIDER)
        return response

    async def _translate_errors(self, call: Awaitable[Any]) -> Any:
        try:
            return await call
        except _TIMEOUTS as error:
            raise self._timed_out(error) from error
        except NEVER_SENT as error:
            away = f"the search service cannot be reached: {_message(error)}"
            raise UnavailableError(away, is_unbilled=True) from error
        except httpx.HTTPStatusError as error:
            raise _status_error(error.response) from error
        except _BROKEN_OFF as error:
            raise UnavailableError(
                f"the search service dropped the connection: {_message(error)}"
            ) from error
        except Exception as error:  # its client wraps some failures in bare Exceptions
            if isinstance(status := error.__context__, httpx.HTTPStatusError):
                raise _status_error(status.response) from status
            raise TransientError(
                f"no usable answer from the search service: {_message(error)}"
            ) from error

    def _timed_out(self, error: Exception) -> TransientError:
        """Returns the error for a timeout. The SDK raises the same error if the connection timed out."""
        limit = f"{self._timeout_seconds:g} s (VIGIL_SEARCH_TIMEOUT_SECONDS sets this limit)"
        if isinstance(error.__context__, NEVER_SENT):
            return UnavailableError(
                f"the search service cannot be reached within {limit}", is_unbilled=True
            )
        return TransientError(f"the search service did not answer within {limit}")


def _dates(time_range: str | None, archive_date: date | None) -> dict[str, str | None]:
    """The fields of a search that limit the dates of its results. The service counts a range from the real date."""
    if archive_date is None:
        return {"time_range": time_range}
    dates: dict[str, str | None] = {"end_date": archive_date.isoformat()}
    if time_range is not None:
        start = archive_date - timedelta(days=_DAYS_OF_RANGE[time_range])
        dates["start_date"] = start.isoformat()
    return dates


def _is_refusal(error: TransientError) -> bool:
    """Returns true if the service is available but refuses the request."""
    is_status = isinstance(error.__cause__, httpx.HTTPStatusError)
    return is_status and not isinstance(error, UnavailableError)


def _retry_seconds(response: httpx.Response) -> float | None:
    headers = response.headers
    return retry_after_seconds(
        headers.get("retry-after"), at_most=MAX_RETRY_AFTER_SECONDS, date=headers.get("date")
    )


def _note_failure(error: TransientError) -> None:
    """Notes whether the service is available."""
    cause = error.__cause__
    status = cause.response.status_code if isinstance(cause, httpx.HTTPStatusError) else None
    if status == HTTPStatus.TOO_MANY_REQUESTS:
        PROVIDER_HEALTH.rate_limited(PROVIDER)
    elif isinstance(error, UnavailableError):
        PROVIDER_HEALTH.failed(PROVIDER)
    elif isinstance(cause, httpx.HTTPStatusError):
        PROVIDER_HEALTH.answered(PROVIDER)


_OF_PAGE: Final = re.compile(
    r"\b(?:url|uri|address|domain|site|website|page|host|robots)s?\b(?!.*\b(?:key|token|credential))",
    re.IGNORECASE,
)
"""In a refusal of an address, not of the key."""


def _status_error(response: httpx.Response) -> VigilError:
    """Returns the error for a status. An unavailable or rate-limiting service does not use an attempt."""
    status, seconds = response.status_code, _retry_seconds(response)
    words = error_text(words_of(response.text)).rstrip(".")
    reason = f": {words}" if words else ""
    message = f"the search service answered {status}{reason}"
    if answers.is_quota_used_up(response):
        until = "Raise the limit of the account's plan, or wait until it is renewed"
        return QuotaUsedUpError(f"{message}. {until}", retry_in_seconds=seconds)
    is_of_page = status == HTTPStatus.FORBIDDEN and _OF_PAGE.search(words) is not None
    if status in (HTTPStatus.UNAUTHORIZED, HTTPStatus.FORBIDDEN) and not is_of_page:
        refusal = f"Tavily refused the key{reason}. Check TAVILY_API_KEY"
        return PermanentError("search_key", refusal, is_unbilled=True)
    if is_of_page or status == HTTPStatus.BAD_REQUEST:
        return ToolRefusalError(f"the search service refused the request{reason}", is_unbilled=True)
    if status == HTTPStatus.TOO_EARLY:
        return TransientError(message, retry_in_seconds=seconds, counts=False)
    if status in _UNAVAILABLE or status >= 500:
        is_rate_limit = status == HTTPStatus.TOO_MANY_REQUESTS
        return UnavailableError(
            message,
            retry_in_seconds=seconds,
            is_rate_limit=is_rate_limit,
            is_unbilled=is_rate_limit or (status >= 500 and status != HTTPStatus.GATEWAY_TIMEOUT),
        )
    return TransientError(message, retry_in_seconds=seconds)


def _message(error: Exception) -> str:
    """Returns a short message. Some errors contain the whole answer."""
    try:
        return error_text(words_of(str(error)) or type(error).__name__)
    except RecursionError:
        return type(error).__name__


def _parse_answer(parse: Callable[[Any], T], answer: Any) -> T:
    try:
        return parse(answer)
    except BadAnswerError as error:
        raise TransientError(f"no usable answer from the search service: {error}") from error
