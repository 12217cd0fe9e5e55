"""The pages that acquisition was brought, as construction may see them.

That is where they are, and what stands in them only where the model wrote no document of its own.
"""

from collections.abc import Sequence

from shared.graph.proof.moments import published
from shared.graph.values import one_line
from shared.llm.repair import cut_text
from shared.tools import Json

TITLE_CHARACTERS = 200
PAGE_CHARACTERS = 4_000
DOCUMENT_CHARACTERS = 16_000
"""Of a document that code makes of pages."""


def told(pages: Sequence[Json]) -> str:
    """A line for each address, in the order in which they came, with its title and date where they are known."""
    titles: dict[str, str] = {}
    dates: dict[str, str] = {}
    for page in pages:
        url = str(page["url"])
        titles[url] = titles.get(url) or one_line(str(page.get("title") or ""))
        date = published(str(page.get("published_date") or ""))
        dates[url] = dates.get(url) or ("" if date is None else date.date().isoformat())
    return "\n".join(_line(url, title, dates[url]) for url, title in titles.items())


def of_pages(pages: Sequence[Json]) -> str:
    """A document in the form that the model is asked for, made of the pages' own words, the longest text of each."""
    texts: dict[str, Json] = {}
    for page in pages:
        known = texts.get(str(page["url"]))
        if known is None or len(_text(page)) > len(_text(known)):
            texts[str(page["url"])] = {**(known or {}), **page}
    parts: list[str] = []
    left = DOCUMENT_CHARACTERS
    for url, page in texts.items():
        text = cut_text(_text(page), min(PAGE_CHARACTERS, left))
        if left <= 0 or not text:
            continue
        title = one_line(str(page.get("title") or url))[:TITLE_CHARACTERS]
        date = published(str(page.get("published_date") or ""))
        dated = [] if date is None else [f"Published: {date.date().isoformat()}"]
        parts.append("\n".join([f"## {title}", f"Source: {one_line(url)}", *dated, "", text]))
        left -= len(text)
    return "\n\n".join(parts)


def _text(page: Json) -> str:
    return str(page.get("content") or "").strip()


def _line(url: str, title: str, date: str) -> str:
    told = ", ".join(part for part in (title[:TITLE_CHARACTERS], date) if part)
    return f"- {one_line(url)}" + (f" ({told})" if told else "")
