"""Tavily's search, extract and research, with their failures sorted into what may and what cannot be mended.

Search and extract are single short calls that answer at once: while one is under way there is nothing to ask for later.
"""

from collections.abc import Awaitable
from functools import partial
from typing import Any

import httpx
from tavily import AsyncTavilyClient
from tavily import errors as tavily_errors

from shared.errors import PermanentError, TransientError, unbilled
from shared.store.in_flight import CallLostError, looked_for
from shared.store.storable import storable
from shared.tools import Json, ToolRefusalError

NEVER_SENT = (httpx.ConnectError, httpx.ConnectTimeout, httpx.PoolTimeout)
PAGE_CHARACTERS = 20_000
"""What of one page is passed on; longer pages are cut, and say so."""


class SearchClient:
    """One connection pool to the search service."""

    def __init__(self, *, api_key: str, base_url: str | None, timeout_seconds: float) -> None:
        self._client = AsyncTavilyClient(api_key=api_key, api_base_url=base_url)
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
        kept = ("title", "url", "content", "published_date", "score")
        return {"results": [_only(result, kept) for result in found["results"]]}

    async def extract(self, urls: list[str]) -> Json:
        """`{"results": [{url, title, content, cut}], "failed": [{url, error}]}`; content is the page's text.

        `cut` is there where the page is longer, and says so.
        """
        found = await self._sent(
            self._client.extract(urls, format="markdown", timeout=self._timeout_seconds)
        )
        return {
            "results": [
                {
                    "url": page["url"],
                    "title": page.get("title"),
                    **_cut(page.get("raw_content") or ""),
                }
                for page in found["results"]
            ],
            "failed": [_only(page, ("url", "error")) for page in found["failed_results"]],
        }

    async def order_research(self, question: str) -> str:
        """Has the service do its own research, which takes its minutes; gives the id to collect it by."""
        ordered = await self._sent(self._client.research(question, timeout=self._timeout_seconds))
        return str(ordered["request_id"])

    async def collect_research(self, request_id: str) -> Json:
        """`{"content", "cut", "sources": [{title, url}]}`, once it is done; `cut` as in `extract`.

        Raises CallLostError where there is none of that id.
        """
        task = await looked_for(partial(self._research_ended, request_id))
        if task.get("status") != "completed":
            raise ToolRefusalError(
                f"the research ended as {task.get('status')!r}; use tavilySearch instead"
            )
        sources = [_only(source, ("title", "url")) for source in task.get("sources") or []]
        return {**_cut(str(task.get("content") or "")), "sources": sources}

    async def close(self) -> None:
        await self._client.close()

    async def _research_ended(self, request_id: str) -> dict[str, Any] | None:
        try:
            task = await self._sent(self._client.get_research(request_id))
        except TransientError as error:
            cause = error.__cause__
            if isinstance(cause, httpx.HTTPStatusError) and cause.response.status_code == 404:
                raise CallLostError(f"Tavily has no research {request_id} any more") from error
            raise
        return None if task.get("status") in ("pending", "in_progress") else task

    async def _sent(self, call: Awaitable[Any]) -> dict[str, Any]:
        try:
            answer: dict[str, Any] = storable(await call)
        except (
            tavily_errors.InvalidAPIKeyError,
            tavily_errors.MissingAPIKeyError,
            tavily_errors.ForbiddenError,
        ) as error:
            refused = PermanentError(
                "search_key", f"Tavily refused the key: {error}. Check TAVILY_API_KEY"
            )
            raise unbilled(refused) from error
        except tavily_errors.UsageLimitExceededError as error:
            raise unbilled(TransientError(f"Tavily's limit is reached: {error}")) from error
        except tavily_errors.BadRequestError as error:
            raise unbilled(ToolRefusalError(f"the search service refused this: {error}")) from error
        except NEVER_SENT as error:
            raise unbilled(
                TransientError(f"the search service cannot be reached: {error!r}")
            ) from error
        except Exception as error:  # its client wraps some failures in bare Exceptions
            raise TransientError(f"no usable answer from the search service: {error!r}") from error
        return answer


def _only(found: dict[str, Any], keys: tuple[str, ...]) -> Json:
    return {key: found[key] for key in keys if found.get(key) is not None}


def _cut(text: str) -> Json:
    """As `content`; what says that it was cut stands beside it, for it is no text of the page."""
    if len(text) <= PAGE_CHARACTERS:
        return {"content": text}
    cut = f"content is the first {PAGE_CHARACTERS} of {len(text)} characters"
    return {"content": text[:PAGE_CHARACTERS], "cut": cut}
