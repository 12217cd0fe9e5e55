"""The pages that searches found."""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

from sandbox.reader.request import ChatRequest

CUT_MARK = "…"
"""Stands in a passage where something was left out."""
CLEAR_SCORE = 0.5
"""Where the best page scores at least this, it tells good pages from bad."""
MIN_SHARE_OF_CLEAR = 0.66
MIN_SHARE_OF_UNCLEAR = 0.4
"""Pages below this share of the best page's score are not read."""


@dataclass(frozen=True, slots=True)
class Page:
    """A page as far as it has been read."""

    title: str
    url: str
    published: str
    text: str
    score: float
    whole: bool = False


def pages_found(request: ChatRequest) -> list[Page]:
    """Each page once, the best first, whole where it was extracted."""
    pages = _searched(request)
    extracted: set[str] = set()
    for exchange in request.results("tavilyExtract"):
        for result in _objects(exchange.result, "results"):
            url, text = str(result.get("url", "")), str(result.get("content") or "")
            if text:
                known = pages.get(url) or Page(str(result.get("title") or url), url, "", "", 0.0)
                pages[url] = replace(known, text=text, whole=True)
                extracted.add(url)
    best = max((page.score for page in pages.values()), default=0.0)
    least = best * (MIN_SHARE_OF_CLEAR if best >= CLEAR_SCORE else MIN_SHARE_OF_UNCLEAR)
    kept = [page for page in pages.values() if page.url in extracted or page.score >= least]
    return sorted(kept, key=lambda page: -page.score)


def worth_reading(request: ChatRequest, most: int) -> list[str]:
    """Addresses of the best pages whose passage has gaps."""
    found = [page for page in pages_found(request) if not page.whole]
    return [page.url for page in found[:most] if page.url]


def _searched(request: ChatRequest) -> dict[str, Page]:
    pages: dict[str, Page] = {}
    for exchange in request.results("tavilySearch"):
        for result in _objects(exchange.result, "results"):
            page = _page(result)
            if page.url not in pages or page.score > pages[page.url].score:
                pages[page.url] = page
    return pages


def _page(result: Mapping[str, Any]) -> Page:
    url, text = str(result.get("url") or ""), str(result.get("content") or "")
    return Page(
        title=str(result.get("title") or url),
        url=url,
        published=str(result.get("published_date") or ""),
        text=text,
        score=float(result.get("score") or 0.0),
        whole=CUT_MARK not in text,
    )


def _objects(result: Mapping[str, Any] | None, key: str) -> list[Mapping[str, Any]]:
    given = (result or {}).get(key)
    return [one for one in given if isinstance(one, dict)] if isinstance(given, list) else []
