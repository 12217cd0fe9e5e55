"""Entries of RSS (0.9 to 2.0) and Atom feeds."""

from collections.abc import Iterator
from typing import Any, Final, NamedTuple
from xml.etree.ElementTree import Element, ParseError, TreeBuilder

from defusedxml import DefusedXmlException
from defusedxml.ElementTree import DefusedXMLParser

from shared.fetch.client import UnreadableError, web_address

_DATES: Final = ("published", "pubDate", "issued", "date", "updated", "modified")
"""Elements with the date of an entry, the best first."""
MAX_ENTRIES: Final = 200
"""Maximum number of entries: the first ones of a feed are mostly the newest."""
MAX_ELEMENTS: Final = 200_000
"""Maximum number of elements of a feed. One with more is refused."""
MAX_DEPTH: Final = 200
MAX_ID_CHARS: Final = 500
MAX_TITLE_CHARS: Final = 300
MAX_DATE_CHARS: Final = 100


class FeedEntry(NamedTuple):
    id: str
    """The entry's `guid` or `id`, or its address."""
    url: str
    title: str
    published: str = ""
    """The date as the feed writes it; empty if it gives none."""


def parse_feed(body: bytes, url: str) -> list[FeedEntry]:
    """The entries of the feed at `url`. Raises FetchError if `body` is not one."""
    try:
        parser = DefusedXMLParser(target=_BoundedBuilder(), forbid_dtd=False)
        parser.feed(body)
        root: Element = parser.close()
    except (ParseError, DefusedXmlException, ValueError, LookupError, RecursionError) as error:
        raise UnreadableError(f"its feed cannot be read: {error}") from error
    if _name(root) not in ("rss", "feed", "RDF"):
        raise UnreadableError(f"it is XML but not a feed: its root is <{_name(root)[:40]}>")
    entries = (_entry(element, url) for element in _entries(root))
    return [entry for entry in entries if entry is not None]


class _BoundedBuilder(TreeBuilder):
    """Builds the tree of a feed. Raises ValueError if it has more elements, or deeper nested ones, than a feed has."""

    def __init__(self) -> None:
        super().__init__()
        self._elements = self._depth = 0

    def start(self, tag: str, attrs: dict[Any, Any], /) -> Element:
        self._elements += 1
        self._depth += 1
        if self._elements > MAX_ELEMENTS or self._depth > MAX_DEPTH:
            raise ValueError(
                f"it has more than {MAX_ELEMENTS:,} elements, or elements nested {MAX_DEPTH} deep"
            )
        return super().start(tag, attrs)

    def end(self, tag: str, /) -> Element:
        self._depth -= 1
        return super().end(tag)


def _entries(root: Element) -> Iterator[Element]:
    """The first MAX_ENTRIES; one within another, which no feed has, is part of it."""
    left = [root]
    found = 0
    while left and found < MAX_ENTRIES:
        element = left.pop()
        if _name(element) in ("item", "entry"):
            found += 1
            yield element
        else:
            left += reversed(element)


def _entry(element: Element, feed_url: str) -> FeedEntry | None:
    texts: dict[str, str] = {}
    link = ""
    for child in element:
        name, text = _name(child), " ".join("".join(child.itertext()).split())
        if name == "link" and child.get("rel", "alternate") == "alternate":
            link = link or web_address(feed_url, child.get("href") or text)
        elif text:
            texts.setdefault(name, text)
    identity = texts.get("guid") or texts.get("id") or link
    address = link or web_address(feed_url, identity if identity.startswith("http") else "")
    if not address:
        return None
    return FeedEntry(
        identity[:MAX_ID_CHARS],
        address,
        texts.get("title", "")[:MAX_TITLE_CHARS],
        next((texts[name][:MAX_DATE_CHARS] for name in _DATES if name in texts), ""),
    )


def _name(element: Element) -> str:
    """The name without its namespace."""
    return str(element.tag).rpartition("}")[2]
