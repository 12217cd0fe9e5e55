"""Tavily's search, extract and research, with their failures sorted into what may and what cannot be mended.

Search and extract are single short calls that answer at once: while one is under way there is nothing to ask for later.
"""

from collections.abc import Awaitable, Callable
from functools import partial
from http import HTTPStatus
from typing import Any, Final, TypeVar

import httpx
from tavily import AsyncTavilyClient
from tavily import errors as tavily_errors

from shared.billing.resumable_call import CallLostError, looked_for
from shared.database.text import error_text
from shared.errors import PermanentError, TransientError, unbilled
from shared.retry_after import retry_after_seconds
from shared.tools import Json, ToolRefusalError
from shared.web_search import answers
from shared.web_search.answers import BadAnswerError

T = TypeVar("T")
NEVER_SENT = (httpx.ConnectError, httpx.ConnectTimeout, httpx.PoolTimeout)
_BROKEN_OFF = (httpx.NetworkError, httpx.RemoteProtocolError)
LONGEST_WAIT_SECONDS: Final = 3_600.0
"""The longest wait that the search service may ask for."""
BASE_URL: Final = "https://api.tavily.com"
_AWAY: Final = frozenset({408, 425, 429})
"""Besides all from 500 on."""


class SearchClient:
    """One connection pool to the search service."""

    def __init__(self, *, api_key: str, base_url: str | None, timeout_seconds: float) -> None:
        self._http = answers.client(base_url or BASE_URL)
        self._client = AsyncTavilyClient(
            api_key=api_key, api_base_url=base_url or BASE_URL, client=self._http
        )
        self._timeout_seconds = timeout_seconds

    async def search(
        self, query: str, *, max_results: int, topic: str | None, time_range: str | None
    ) -> Json:
        """`{"results": [{title, url, content, published_date, score}]}`, best first."""
        found = await self._sent(
            self._client.search(
                query,
                max_results=max_results,
                topic=topic,
                time_range=time_range,
                timeout=self._timeout_seconds,
            )
        )
        return _usable(answers.found, found)

    async def extract(self, urls: list[str]) -> Json:
        """`{"results": [{url, title, content, cut}], "failed": [{url, error}]}`; content is the page's text.

        `cut` is there where the page is longer, and says so.
        """
        found = await self._sent(
            self._client.extract(urls, format="markdown", timeout=self._timeout_seconds)
        )
        return _usable(answers.read_pages, found)

    async def order_research(self, question: str) -> str:
        """Has the service do its own research, which takes its minutes; gives the id to collect it by."""
        ordered = await self._sent(self._client.research(question, timeout=self._timeout_seconds))
        return _usable(answers.ordered, ordered)

    async def collect_research(self, request_id: str) -> Json:
        """`{"content", "cut", "sources": [{title, url}]}`, once it is done; `cut` as in `extract`.

        Raises CallLostError where there is none of that id.
        """
        task = await looked_for(partial(self._research_ended, request_id))
        status = _usable(answers.status_of, task)
        if status != "completed":
            raise ToolRefusalError(f"the research ended as {status!r}; use tavilySearch instead")
        return _usable(answers.researched, task)

    async def close(self) -> None:
        await self._http.aclose()

    async def _research_ended(self, request_id: str) -> Any:
        try:
            task = await self._sent(self._client.get_research(request_id))
        except TransientError as error:
            cause = error.__cause__
            if isinstance(cause, httpx.HTTPStatusError) and cause.response.status_code == 404:
                raise CallLostError(f"Tavily has no research {request_id} any more") from error
            raise
        status = _usable(answers.status_of, task)
        return None if status in ("pending", "in_progress") else task

    async def _sent(self, call: Awaitable[Any]) -> Any:
        try:
            return await call
        except (
            tavily_errors.InvalidAPIKeyError,
            tavily_errors.MissingAPIKeyError,
            tavily_errors.ForbiddenError,
        ) as error:
            refused = PermanentError(
                "search_key", f"Tavily refused the key: {_said(error)}. Check TAVILY_API_KEY"
            )
            raise unbilled(refused) from error
        except (tavily_errors.TimeoutError, TimeoutError) as error:
            raise self._timed_out(error) from error
        except tavily_errors.BadRequestError as error:
            raise unbilled(
                ToolRefusalError(f"the search service refused this: {_said(error)}")
            ) from error
        except NEVER_SENT as error:
            away = f"the search service cannot be reached: {_said(error)}"
            raise unbilled(TransientError(away, counts=False)) from error
        except httpx.HTTPStatusError as error:
            raise _status_error(error) from error
        except _BROKEN_OFF as error:
            raise TransientError(
                f"the search service broke the connection: {_said(error)}", counts=False
            ) from error
        except Exception as error:  # its client wraps some failures in bare Exceptions
            raise TransientError(
                f"no usable answer from the search service: {_said(error)}"
            ) from error

    def _timed_out(self, error: Exception) -> TransientError:
        """The SDK raises the same for a connection that could not be made in time."""
        limit = f"{self._timeout_seconds:g} s (VIGIL_SEARCH_TIMEOUT_SECONDS sets this limit)"
        if isinstance(error.__context__, NEVER_SENT):
            away = TransientError(f"the search service cannot be reached in {limit}", counts=False)
            return unbilled(away)
        return TransientError(f"the search service did not answer in {limit}")


def _status_error(error: httpx.HTTPStatusError) -> TransientError:
    """A service that is away or limits its callers says nothing about the work: no attempt is used up."""
    status = error.response.status_code
    asked = error.response.headers.get("retry-after")
    failed = TransientError(
        f"the search service answered {status}: {error_text(error.response.text)}",
        retry_in_seconds=retry_after_seconds(asked, at_most=LONGEST_WAIT_SECONDS),
        counts=not (status in _AWAY or status >= 500),
    )
    is_refused = status == HTTPStatus.TOO_MANY_REQUESTS or (
        status >= 500 and status != HTTPStatus.GATEWAY_TIMEOUT
    )
    return unbilled(failed) if is_refused else failed


def _said(error: Exception) -> str:
    """In words, and not many: some are the whole answer."""
    try:
        return error_text(str(error) or type(error).__name__)
    except RecursionError:
        return type(error).__name__


def _usable(read: Callable[[Any], T], answer: Any) -> T:
    try:
        return read(answer)
    except BadAnswerError as error:
        raise TransientError(f"no usable answer from the search service: {error}") from error
