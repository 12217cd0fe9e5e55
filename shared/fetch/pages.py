"""What of a page is compared between two visits, and the feeds that it declares."""

import hashlib
import re
from collections.abc import Container
from dataclasses import dataclass
from typing import Final

from selectolax.lexbor import LexborHTMLParser, LexborNode

from shared.fetch.client import Fetched, web_address

MAX_FEEDS: Final = 3
"""Of a page: more are mostly those of comments and categories."""
_HTML: Final = ("text/html", "application/xhtml+xml", "")
_FEED_TYPES: Final = ("application/rss+xml", "application/atom+xml")
MAX_DEPTH: Final = 3_000
"""Of nested elements. A page with more is compared byte for byte."""
_NESTING: Final = re.compile(
    r"</?(?!(?:area|base|br|col|dd|dt|embed|hr|img|input|li|link|meta|option|p|param|source|td|th|tr|wbr)\b)[a-z]",
    re.IGNORECASE,
)
"""Beginnings and ends of elements that must be closed."""
_VARYING: Final = (
    "script, style, noscript, template, svg, iframe, nav, header, footer, aside, input, textarea, button, select, time, "
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
    text = _text(page)
    if page.media_type not in _HTML or _is_deep(text):
        return PageContent(hashlib.sha256(page.body).digest())
    tree = LexborHTMLParser(text)
    feeds = [
        address
        for link in tree.css("link[rel~=alternate][href]")
        if (link.attributes.get("type") or "").strip().lower() in _FEED_TYPES
        and (address := web_address(page.url, link.attributes.get("href") or ""))
    ]
    body = tree.body
    if body is not None:
        varying = {node.mem_id: node for node in body.css(_VARYING) if node.tag != "body"}
        # One within another goes with it: removing it again would touch memory that was freed.
        for node in [node for node in varying.values() if not _is_within(node, varying)]:
            node.decompose()
    visible = body.text(separator=" ") if body is not None else ""
    digest = hashlib.sha256(" ".join(visible.split()).encode(errors="replace")).digest()
    return PageContent(digest, tuple(dict.fromkeys(feeds))[:MAX_FEEDS])


def _is_within(node: LexborNode, others: Container[int]) -> bool:
    parent = node.parent
    while parent is not None:
        if parent.mem_id in others:
            return True
        parent = parent.parent
    return False


def _is_deep(text: str) -> bool:
    """Whether elements are nested so deep that reading takes minutes: its time grows with the square of the depth."""
    depth = 0
    for tag in _NESTING.finditer(text):
        depth = max(depth - 1, 0) if tag[0].startswith("</") else depth + 1
        if depth > MAX_DEPTH:
            return True
    return False


def _text(page: Fetched) -> str:
    assert page.body is not None
    try:
        return page.body.decode(page.charset or "utf-8", errors="replace")
    except (LookupError, UnicodeError):  # an encoding that is unknown, or that is none of text
        return page.body.decode("utf-8", errors="replace")
