"""What of a page is compared between two visits, and the feeds that it declares."""

import hashlib
from dataclasses import dataclass
from typing import Final
from urllib.parse import urljoin

from selectolax.lexbor import LexborHTMLParser

from shared.fetch.client import Fetched

MAX_FEEDS: Final = 3
"""Of a page: more are mostly those of comments and categories."""
_HTML: Final = ("text/html", "application/xhtml+xml", "")
_FEED_TYPES: Final = ("application/rss+xml", "application/atom+xml")
_VARYING: Final = (
    "script, style, noscript, template, svg, iframe, nav, header, footer, aside, form, button, select, time, "
    "[hidden], [aria-hidden=true]"
)
"""What changes from visit to visit while the content does not: menus, advertisements, tokens of forms, "5 minutes ago"."""


@dataclass(frozen=True)
class PageContent:
    digest: bytes
    """SHA-256 of the visible text without what varies; of other types than HTML, of all bytes."""
    feeds: tuple[str, ...] = ()
    """Addresses of the RSS and Atom feeds that the page declares, at most MAX_FEEDS."""


def page_content(page: Fetched) -> PageContent:
    """Takes some milliseconds for a long page: call it in a thread."""
    assert page.body is not None, "the page has not changed"
    if page.media_type not in _HTML:
        return PageContent(hashlib.sha256(page.body).digest())
    tree = LexborHTMLParser(_text(page))
    feeds = [
        urljoin(page.url, href)
        for link in tree.css("link[rel~=alternate][href]")
        if (link.attributes.get("type") or "").strip().lower() in _FEED_TYPES
        and (href := (link.attributes.get("href") or "").strip())
    ]
    for varying in tree.css(_VARYING):
        varying.decompose()
    text = tree.body.text(separator=" ") if tree.body is not None else ""
    digest = hashlib.sha256(" ".join(text.split()).encode(errors="replace")).digest()
    return PageContent(digest, tuple(dict.fromkeys(feeds))[:MAX_FEEDS])


def _text(page: Fetched) -> str:
    assert page.body is not None
    try:
        return page.body.decode(page.charset or "utf-8", errors="replace")
    except LookupError:  # an encoding that Python does not know
        return page.body.decode("utf-8", errors="replace")
