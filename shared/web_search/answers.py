"""Validates answers of the search service, which is not trusted: their size, encoding and structure."""

import asyncio
import re
from collections.abc import Mapping, Sequence
from contextlib import suppress
from http import HTTPStatus
from typing import Any, Final

import httpx

from shared.database.text import storable
from shared.errors import VigilError
from shared.server_json import words_of
from shared.tls import tls_context
from shared.tools import Json

MAX_ANSWER_BYTES: Final = 16 * 1024**2
"""After decompression. The largest expected answer, an extract of five pages, has about a tenth of this."""
MAX_PAGE_CHARS: Final = 20_000
"""Characters of a page that are returned. Longer pages are truncated and marked."""
MAX_RESULTS: Final = 20
MAX_TITLE_CHARS: Final = 1_000
MAX_URL_BYTES: Final = 2_000
MAX_DATE_CHARS: Final = 100
MAX_ERROR_CHARS: Final = 1_000
_ENCODINGS: Final = ("", "identity", "gzip", "deflate")
"""Encodings that expand 64 KiB, the size of one read, to 64 MiB at most."""
_REFERENCE: Final = re.compile(r"[A-Za-z0-9_-]{1,200}")


class BadAnswerError(VigilError):
    """The answer is too large or has an unexpected structure."""


class BoundedClient(httpx.AsyncClient):
    """An HTTP client that limits the size of an answer, and the total time of a request to its timeout."""

    async def request(
        self, method: str, url: httpx.URL | str, *, timeout: Any = None, **options: Any
    ) -> httpx.Response:
        """Raises BadAnswerError, TimeoutError after `timeout` seconds, and HTTPStatusError."""
        async with (
            asyncio.timeout(timeout if isinstance(timeout, int | float) else None),
            self.stream(method, url, timeout=timeout, **options) as response,
        ):
            body = await _read_body(response)
            headers = {
                name: value
                for name, value in response.headers.items()
                if name not in _TRANSFER_HEADERS
            }
            result = httpx.Response(
                response.status_code, headers=headers, content=body, request=response.request
            )
        if result.is_error:
            result.raise_for_status()  # the SDK's own errors lose the status, the headers and most of the words
        return result


_QUOTA_STATUSES: Final = frozenset({HTTPStatus.PAYMENT_REQUIRED, 432, 433})
"""402 of many services; 432 and 433 are Tavily's limits of the plan and of pay-as-you-go."""
_QUOTA: Final = re.compile(
    r"\bquota|usage.limit|(?:plan|account|subscription|monthly|daily)\W+(?:\w+\W+){0,4}limit"
    r"|(?:insufficient|not enough|out of|no|exceed\w*|exhaust\w*)\W+(?:\w+\W+){0,3}(?:credit|balance|fund)"
    r"|credits?\W+(?:\w+\W+){0,3}(?:used|exhaust|exceed|deplet|limit)|payment required|upgrade your plan",
    re.IGNORECASE,
)


_RATE: Final = re.compile(r"per.(?:second|minute)|rate.?limit|/ ?(?:s|min)\b", re.IGNORECASE)
"""A limit of requests in a short time, which some services call a quota too."""


def is_quota_used_up(response: httpx.Response) -> bool:
    """Returns true if the service refuses the request because the quota of the account's plan is used up."""
    status = response.status_code
    if status in _QUOTA_STATUSES:
        return True
    if status not in (HTTPStatus.FORBIDDEN, HTTPStatus.TOO_MANY_REQUESTS, HTTPStatus.BAD_REQUEST):
        return False
    text = response.text[:MAX_ERROR_CHARS]
    return _QUOTA.search(text) is not None and _RATE.search(text) is None


_TRANSFER_HEADERS: Final = ("content-encoding", "content-length", "transfer-encoding")


async def _read_body(answer: httpx.Response) -> bytes:
    encoding = answer.headers.get("content-encoding", "").strip().lower()
    if encoding not in _ENCODINGS:
        raise BadAnswerError(f"it is encoded as {encoding[:40]!r}, which was not requested")
    body = bytearray()
    async for piece in answer.aiter_bytes():
        body += piece
        if len(body) > MAX_ANSWER_BYTES:
            raise BadAnswerError(f"it is longer than {MAX_ANSWER_BYTES:,} bytes")
    return bytes(body)


def create_client(base_url: str) -> BoundedClient:
    return BoundedClient(
        base_url=base_url, verify=tls_context(), headers={"Accept-Encoding": "gzip, deflate"}
    )


def parse_search(answer: Any) -> Json:
    """Parses the answer of a search. Raises BadAnswerError if it has no list of results, or none of them has words."""
    results = []
    for item in _items(answer, "results"):
        url = _url(item)
        if url is not None:
            score = _share(item.get("score"))
            result = {
                "title": _text(item.get("title"), MAX_TITLE_CHARS),
                "url": url,
                **(_truncate(text) if (text := _words_of_page(item, _PASSAGES)) else {}),
                "published_date": _date(item.get("published_date")),
                "score": score,
            }
            results.append({key: value for key, value in result.items() if value is not None})
    if results and not any("content" in result for result in results):
        fields = ", ".join(sorted({name[:40] for item in answer["results"][:5] for name in item}))
        raise BadAnswerError(f"no result has words of its page; their fields are {fields}")
    return {"results": results}


_PASSAGES: Final = ("content", "snippet", "text", "description", "body", "summary", "raw_content")
_WHOLE_PAGES: Final = ("raw_content", "content", "text", "markdown", "body")
"""Fields with the words of a page: Tavily's, and those of services that answer in its place."""


def _words_of_page(item: Json, names: Sequence[str]) -> str:
    return next(
        (item[name] for name in names if item.get(name) and isinstance(item[name], str)), ""
    )


def parse_pages(answer: Any) -> Json:
    """Parses the answer of an extract. Raises BadAnswerError if it has no list of results."""
    results = [
        {
            "url": url,
            "title": _text(page.get("title"), MAX_TITLE_CHARS),
            **_truncate(_words_of_page(page, _WHOLE_PAGES)),
        }
        for page in _items(answer, "results")
        if (url := _url(page)) is not None
    ]
    failures = []
    for page in _items(answer, "failed_results", required=False):
        failure = {
            "url": _url(page),
            "error": _text(words_of(page.get("error")) or None, MAX_ERROR_CHARS),
        }
        failures.append({key: value for key, value in failure.items() if value is not None})
    return {"results": results, "failed": failures}


def parse_research_id(answer: Any) -> str:
    """Returns the id of a started research. Raises BadAnswerError if it has none that is safe in a URL."""
    reference = _object(answer).get("request_id")
    if not isinstance(reference, str) or _REFERENCE.fullmatch(reference) is None:
        raise BadAnswerError(f"the research has no usable id: {str(reference)[:80]!r}")
    return reference


def research_status(answer: Any) -> str:
    """Returns the status of a research."""
    return (_text(_object(answer).get("status"), MAX_DATE_CHARS) or "").strip()


def parse_research(answer: Any) -> Json:
    """Parses the answer of a completed research."""
    research = _object(answer)
    content = research.get("content")
    sources = []
    for item in _items(research, "sources", required=False):
        source = {
            "title": _text(item.get("title"), MAX_TITLE_CHARS),
            "url": _url(item),
        }
        sources.append({key: value for key, value in source.items() if value is not None})
    return {**_truncate(content if isinstance(content, str) else ""), "sources": sources}


def _object(answer: Any) -> Mapping[str, Any]:
    if not isinstance(answer, dict):
        raise BadAnswerError(f"it is not a JSON object but {type(answer).__name__}")
    return answer


def _items(answer: Any, key: str, *, required: bool = True) -> list[Json]:
    """Returns the objects in the list at `key`, at most MAX_RESULTS. Ignores items that are not objects."""
    listed = _object(answer).get(key)
    if not isinstance(listed, list):
        if required:
            raise BadAnswerError(f"there is no list of {key!r}")
        return []
    return [item for item in listed[:MAX_RESULTS] if isinstance(item, dict)]


def _url(item: Json) -> str | None:
    url = item.get("url")
    if not isinstance(url, str):
        return None
    url = str(storable(url)).strip()
    return url if url and len(url.encode()) <= MAX_URL_BYTES else None


def _text(value: Any, max_chars: int) -> str | None:
    return str(storable(value))[:max_chars] if isinstance(value, str) else None


def _date(value: Any) -> str | None:
    """Some servers send seconds since 1970."""
    is_number = isinstance(value, float | int) and not isinstance(value, bool)
    return _text(str(value) if is_number else value, MAX_DATE_CHARS)


def _share(value: Any) -> float | int | None:
    """A score is between 0 and 1; NaN and infinity are not."""
    if isinstance(value, str):
        with suppress(ValueError):
            value = float(value)
    is_number = isinstance(value, float | int) and not isinstance(value, bool)
    return storable(value) if is_number and 0 <= value <= 1 else None


def _truncate(text: str) -> Json:
    """Returns `text` as `content`. If it is truncated, `cut` says so, separately from the page's text."""
    content = str(storable(text))
    if len(content) <= MAX_PAGE_CHARS:
        return {"content": content}
    cut = f"content is the first {MAX_PAGE_CHARS} of {len(content)} characters"
    return {"content": content[:MAX_PAGE_CHARS], "cut": cut}
