"""What the search service may answer: how long, how deep, of which shape. It is not trusted to keep to any of it."""

import asyncio
import re
from collections.abc import Mapping
from http import HTTPStatus
from typing import Any, Final

import httpx

from shared.database.text import storable
from shared.errors import VigilError
from shared.tools import Json

LONGEST_ANSWER_BYTES: Final = 16 * 1024**2
"""After decompression. Five pages of extract, the longest answer that is asked for, have about a tenth of that."""
PAGE_CHARACTERS: Final = 20_000
"""What of one page is passed on; longer pages are cut, and say so."""
MOST_RESULTS: Final = 20
MOST_TITLE_CHARACTERS: Final = 1_000
MOST_URL_BYTES: Final = 2_000
MOST_DATE_CHARACTERS: Final = 100
MOST_ERROR_CHARACTERS: Final = 1_000
_ENCODINGS: Final = ("", "identity", "gzip", "deflate")
"""Those of which 64 KiB, what is read at once, become 64 MiB at most."""
_REFERENCE: Final = re.compile(r"[A-Za-z0-9_-]{1,200}")


class BadAnswerError(VigilError):
    """The answer is longer than any that was asked for, or of another shape."""


class BoundedClient(httpx.AsyncClient):
    """Stops reading an answer that is too long, and one that takes longer than the request's timeout in all."""

    async def request(
        self, method: str, url: httpx.URL | str, *, timeout: Any = None, **options: Any
    ) -> httpx.Response:
        """Raises BadAnswerError, TimeoutError where `timeout`, in seconds, is over, and HTTPStatusError of 429."""
        async with (
            asyncio.timeout(timeout if isinstance(timeout, int | float) else None),
            self.stream(method, url, timeout=timeout, **options) as answer,
        ):
            body = await _read(answer)
            headers = {
                name: value for name, value in answer.headers.items() if name not in _OF_TRANSFER
            }
            whole = httpx.Response(
                answer.status_code, headers=headers, content=body, request=answer.request
            )
        if whole.status_code == HTTPStatus.TOO_MANY_REQUESTS:
            whole.raise_for_status()  # the SDK's own error for it forgets Retry-After
        return whole


_OF_TRANSFER: Final = ("content-encoding", "content-length", "transfer-encoding")


async def _read(answer: httpx.Response) -> bytes:
    encoding = answer.headers.get("content-encoding", "").strip().lower()
    if encoding not in _ENCODINGS:
        raise BadAnswerError(f"it is encoded as {encoding[:40]!r}, which was not asked for")
    body = bytearray()
    async for piece in answer.aiter_bytes():
        body += piece
        if len(body) > LONGEST_ANSWER_BYTES:
            raise BadAnswerError(f"it is longer than {LONGEST_ANSWER_BYTES:,} bytes")
    return bytes(body)


def client(base_url: str) -> BoundedClient:
    return BoundedClient(base_url=base_url, headers={"Accept-Encoding": "gzip, deflate"})


def found(answer: Any) -> Json:
    """Of a search. Raises BadAnswerError where there is no list of results."""
    results = []
    for each in _items(answer, "results"):
        url = _url(each)
        if url is not None:
            score = _share(each.get("score"))
            told = {
                "title": _text(each.get("title"), MOST_TITLE_CHARACTERS),
                "url": url,
                **(_cut(each["content"]) if isinstance(each.get("content"), str) else {}),
                "published_date": _text(each.get("published_date"), MOST_DATE_CHARACTERS),
                "score": score,
            }
            results.append({key: value for key, value in told.items() if value is not None})
    return {"results": results}


def read_pages(answer: Any) -> Json:
    """Of an extract. Raises BadAnswerError as `found`."""
    results = [
        {
            "url": url,
            "title": _text(page.get("title"), MOST_TITLE_CHARACTERS),
            **_cut(page["raw_content"] if isinstance(page.get("raw_content"), str) else ""),
        }
        for page in _items(answer, "results")
        if (url := _url(page)) is not None
    ]
    failed = []
    for page in _items(answer, "failed_results", needed=False):
        told = {"url": _url(page), "error": _text(page.get("error"), MOST_ERROR_CHARACTERS)}
        failed.append({key: value for key, value in told.items() if value is not None})
    return {"results": results, "failed": failed}


def ordered(answer: Any) -> str:
    """The reference of a research. Raises BadAnswerError where there is none that can stand in an address."""
    reference = _object(answer).get("request_id")
    if not isinstance(reference, str) or _REFERENCE.fullmatch(reference) is None:
        raise BadAnswerError(f"the research has no usable id: {str(reference)[:80]!r}")
    return reference


def status_of(answer: Any) -> str:
    """Of a research."""
    return (_text(_object(answer).get("status"), MOST_DATE_CHARACTERS) or "").strip()


def researched(answer: Any) -> Json:
    told = _object(answer)
    content = told.get("content")
    sources = []
    for each in _items(told, "sources", needed=False):
        source = {
            "title": _text(each.get("title"), MOST_TITLE_CHARACTERS),
            "url": _url(each),
        }
        sources.append({key: value for key, value in source.items() if value is not None})
    return {**_cut(content if isinstance(content, str) else ""), "sources": sources}


def _object(answer: Any) -> Mapping[str, Any]:
    if not isinstance(answer, dict):
        raise BadAnswerError(f"it is no JSON object but {type(answer).__name__}")
    return answer


def _items(answer: Any, key: str, *, needed: bool = True) -> list[Json]:
    """The objects of that list, as PostgreSQL can hold them; what is no object is left out."""
    listed = _object(answer).get(key)
    if not isinstance(listed, list):
        if needed:
            raise BadAnswerError(f"there is no list of {key!r}")
        return []
    return [each for each in listed[:MOST_RESULTS] if isinstance(each, dict)]


def _url(item: Json) -> str | None:
    url = item.get("url")
    if not isinstance(url, str):
        return None
    url = str(storable(url)).strip()
    return url if url and len(url.encode()) <= MOST_URL_BYTES else None


def _text(value: Any, most_characters: int) -> str | None:
    return str(storable(value))[:most_characters] if isinstance(value, str) else None


def _share(value: Any) -> float | int | None:
    """A score is between 0 and 1; NaN and infinity are not."""
    is_number = isinstance(value, float | int) and not isinstance(value, bool)
    return storable(value) if is_number and 0 <= value <= 1 else None


def _cut(text: str) -> Json:
    """As `content`; what says that it was cut stands beside it, for it is no text of the page."""
    whole = str(storable(text))
    if len(whole) <= PAGE_CHARACTERS:
        return {"content": whole}
    cut = f"content is the first {PAGE_CHARACTERS} of {len(whole)} characters"
    return {"content": whole[:PAGE_CHARACTERS], "cut": cut}
