"""Extracts the digest by which two visits of a page are compared, and the feeds that it declares."""

import hashlib
import re
from collections import Counter
from dataclasses import dataclass
from typing import Final

from selectolax.lexbor import LexborHTMLParser, LexborNode

from shared.fetch.client import Fetched, web_address

MAX_FEEDS: Final = 3
"""Maximum number of feeds of a page: more are mostly those of comments and categories."""
_HTML: Final = ("text/html", "application/xhtml+xml", "")
_FEED_TYPES: Final = ("application/rss+xml", "application/atom+xml")
MAX_DEPTH: Final = 3_000
"""Maximum depth of nested elements. A page with more is compared byte for byte."""
MAX_TAGS: Final = 200_000
"""Maximum number of tags of a page. One with more is compared byte for byte."""
_TAG: Final = re.compile(r"<(?P<end>/?)(?P<name>[a-z][a-z0-9]{0,20})", re.IGNORECASE)
_SELF_CLOSING: Final = frozenset(
    [
        "area",
        "base",
        "br",
        "col",
        "colgroup",
        "dd",
        "dt",
        "embed",
        "hr",
        "img",
        "input",
        "li",
        "link",
        "meta",
        "optgroup",
        "option",
        "p",
        "param",
        "rp",
        "rt",
        "source",
        "tbody",
        "td",
        "tfoot",
        "th",
        "thead",
        "tr",
        "track",
        "wbr",
    ]
)
"""Elements that need no end tag, except in SVG and MathML, where they nest."""
_VARYING: Final = (
    "script, style, noscript, template, svg, iframe, nav, header, footer, aside, input, textarea, button, select, time, "
    "[hidden], [aria-hidden=true]"
)
"""Elements that differ between visits although the content does not: menus, advertisements, form tokens, "5 minutes ago"."""


@dataclass(frozen=True)
class PageContent:
    digest: bytes
    """SHA-256 of the visible text without what varies; of other types than HTML, of all bytes."""
    feeds: tuple[str, ...] = ()
    """Addresses of the RSS and Atom feeds that the page declares, at most MAX_FEEDS."""


def page_content(page: Fetched) -> PageContent:
    """Parses a page. The longest takes seconds: call it in a worker process (see `shared/runtime/foreign_text.py`)."""
    assert page.body is not None, "the page has not changed"
    text = _text(page)
    if page.media_type not in _HTML or _is_too_complex(text):
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
        _remove_varying(body)
    visible = body.text(separator=" ") if body is not None else ""
    digest = hashlib.sha256(" ".join(visible.split()).encode(errors="replace")).digest()
    return PageContent(digest, tuple(dict.fromkeys(feeds))[:MAX_FEEDS])


def _remove_varying(body: LexborNode) -> None:
    """Removes the outermost varying elements. Removing one inside a removed element would access freed memory."""
    varying = {node.mem_id for node in body.css(_VARYING)} - {body.mem_id}
    within: set[int] = set()
    outermost: list[LexborNode] = []
    for node in body.traverse():  # parents before their children
        if node.parent is not None and node.parent.mem_id in within:
            within.add(node.mem_id)
        elif node.mem_id in varying:
            within.add(node.mem_id)
            outermost.append(node)
    for node in outermost:
        node.decompose()


def _is_too_complex(text: str) -> bool:
    """Returns true if the page has more tags, or deeper nested elements, than pages for people have.

    An element ends at the end tag of its own name: other end tags close nothing, but are looked for in all open elements.
    """
    opened: Counter[str] = Counter()
    depth = 0
    for count, tag in enumerate(_TAG.finditer(text), 1):
        name = tag["name"].lower()
        if tag["end"]:
            depth -= opened[name] > 0
            opened[name] -= opened[name] > 0
        elif name not in _SELF_CLOSING or opened["svg"] or opened["math"]:
            depth += 1
            opened[name] += 1
        if depth > MAX_DEPTH or count > MAX_TAGS:
            return True
    return False


def _text(page: Fetched) -> str:
    assert page.body is not None
    try:
        return page.body.decode(page.charset or "utf-8", errors="replace")
    except (LookupError, UnicodeError):  # an encoding that is unknown, or that is none of text
        return page.body.decode("utf-8", errors="replace")
