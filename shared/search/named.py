"""Which pages may be read: those that this step was told of, so that no page has another one told what is not its own.

An address can carry text out. So it is never the model's to make: it stands in the mission or in the query, or a search,
a page or a research of this step gave it as its own or as its source's. What else a page's text links to is the page's
word, and out of a choice of links it could have letters spelt; the search finds what is worth reading.
"""

import re
from collections.abc import Iterable, Iterator, Sequence
from typing import Final
from urllib.parse import urlsplit

from shared.search.tools import TavilyExtract
from shared.tools import Json

_URL: Final = re.compile(r"https?://[^\s<>\"'`\]\[{}|\\^]+", re.IGNORECASE)
_ENDS_A_SENTENCE: Final = ".,;:!?)"
_PORTS: Final = {"http": 80, "https": 443}
_MOST_TOLD: Final = 5


def refuse_unnamed(wanted: TavilyExtract, given: str, earlier: Sequence[Json]) -> str | None:
    """Why these pages may not be read, for the model; None where they may.

    `given` is what the step was told in words, `earlier` what its tools gave before the model asked for this.
    """
    told = [*_in_text(given), *_in_results(earlier)]
    named = {_page(url) for url in (*told, *(url.partition("#")[0] for url in told))} - {""}
    unnamed = [url for url in wanted.urls if _page(url) not in named]
    if not unnamed:
        return None
    return (
        f"urls: {', '.join(unnamed[:_MOST_TOLD])}: neither a search or research of yours nor the query names this. Read "
        "only pages that they found, by the addresses that they gave; search for what you miss."
    )


def _in_text(text: str) -> Iterator[str]:
    for url in _URL.findall(text):
        yield url.rstrip(_ENDS_A_SENTENCE)


def _in_results(results: Iterable[Json]) -> Iterator[str]:
    for result in results:
        for listed in ("results", "sources"):
            for found in result.get(listed) or ():
                yield str(found.get("url", ""))


def _page(url: str) -> str:
    """What is the same for all spellings of a page's address; '' for what is none."""
    if not url.isprintable() or " " in url:
        return ""
    try:
        parts = urlsplit(url)
        port = parts.port
    except ValueError:
        return ""
    if parts.scheme not in _PORTS or not parts.hostname or parts.username is not None:
        return ""
    host = parts.hostname.rstrip(".") + ("" if port in (None, *_PORTS.values()) else f":{port}")
    return f"{host}{parts.path.rstrip('/')}?{parts.query}#{parts.fragment}"
