"""Text and metadata of an HTML page, without its navigation."""

import json
import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from selectolax.lexbor import LexborHTMLParser, LexborNode

BLOCKS = (
    "address,article,aside,blockquote,body,br,caption,dd,div,dl,dt,fieldset,figcaption,figure,footer,form,h1,h2,h3,h4,"
    "h5,h6,header,hr,li,main,ol,option,p,pre,section,table,tbody,td,tfoot,th,thead,tr,ul"
)
HIDDEN = (
    "head,script,style,noscript,template,svg,nav,button,select,iframe,[hidden],[role=navigation],[role=search],"
    "[aria-hidden=true]"
)
DATE_NAMES = (
    "article:published_time",
    "datepublished",
    "date",
    "dc.date",
    "dc.date.issued",
    "dcterms.date",
    "dcterms.issued",
    "dcterms.created",
    "pubdate",
    "publish-date",
    "publication_date",
    "citation_publication_date",
)
"""Names of `meta` elements that state when a page was published, the clearest first."""
PUBLISHED_TIME = "time[itemprop~=datePublished],time[pubdate],header time[datetime]"
"""Elements that state it in the text. Any other `time` may be that of an event."""
BREAK, LINK_START, LINK_END = "\x1e", "\x02", "\x03"
"""Marks in the text while it is taken from the page."""
MARKS = re.compile(f"[{BREAK}{LINK_START}{LINK_END}]")
LINK = re.compile(f"{LINK_START}([^{LINK_END}]*){LINK_END}?")
ANCHOR_MARK = re.compile(r"\s*[¶§#]\s*$")
"""The sign of a link to the heading before it."""
MAX_LINK_SHARE = 0.7
"""A line with a higher share of its letters in links is navigation, unless it is a sentence."""
NAVIGATION = re.compile(
    r"(?:prev(?:ious)?|next|up|home|top|index|contents|table of contents|search|menu|back|skip to [\w ]+|modules"
    r"|[|<>«»←→↑\s·/-])+",
    re.IGNORECASE,
)


@dataclass(frozen=True, slots=True)
class HtmlPage:
    """Metadata of a page, and its text with one block per line."""

    title: str
    text: str
    url: str
    published: tuple[str, ...]
    """What it states as the date of its publication, the clearest first; not checked."""


def parse_html(source: str) -> HtmlPage:
    """Parse HTML. Broken markup is parsed as browsers do; no error is raised."""
    tree = LexborHTMLParser(MARKS.sub(" ", source))
    title, url, published = _title(tree), _url(tree), tuple(_dates(tree))
    return HtmlPage(title, _text(tree), url, published)


def _title(tree: LexborHTMLParser) -> str:
    node = tree.css_first("title")
    return " ".join(node.text().split()) if node else ""


def _url(tree: LexborHTMLParser) -> str:
    for selector, attribute in (
        ("link[rel=canonical]", "href"),
        ("meta[property='og:url']", "content"),
    ):
        node = tree.css_first(selector)
        address = (node.attributes.get(attribute) or "") if node else ""
        if address.startswith(("http://", "https://")):
            return address
    return ""


def _dates(tree: LexborHTMLParser) -> Iterator[str]:
    stated: dict[str, str] = {}
    for node in tree.css("meta"):
        facts = node.attributes
        name = facts.get("property") or facts.get("name") or facts.get("itemprop") or ""
        stated.setdefault(name.lower(), facts.get("content") or "")
    yield from (stated[name] for name in DATE_NAMES if stated.get(name))
    for node in tree.css("script[type='application/ld+json']"):
        yield from _linked_data_dates(node.text())
    for node in tree.css(PUBLISHED_TIME):
        yield node.attributes.get("datetime") or node.text()


def _linked_data_dates(text: str) -> Iterator[str]:
    try:
        value: Any = json.loads(text)
    except (ValueError, RecursionError):
        return
    entries = value.get("@graph", [value]) if isinstance(value, dict) else value
    for entry in entries if isinstance(entries, list) else []:
        if isinstance(entry, dict) and isinstance(entry.get("datePublished"), str):
            yield entry["datePublished"]


def _text(tree: LexborHTMLParser) -> str:
    body = tree.body
    if body is None:
        return ""
    for node in tree.css(HIDDEN):
        if node.tag not in ("body", "html"):
            node.decompose()
    for node in tree.css("pre"):
        _keep_line_ends(node)
    for node in tree.css(BLOCKS):
        node.insert_before(BREAK)
        node.insert_after(BREAK)
    for node in tree.css("a[href]"):
        node.insert_before(LINK_START)
        node.insert_after(LINK_END)
    lines = body.text(deep=True, separator="").split(BREAK)
    return "\n".join(line for line in map(_line, lines) if line)


def _keep_line_ends(node: LexborNode) -> None:
    """Make the line ends of preformatted text blocks of their own."""
    text = node.text(deep=True, separator="")
    node.inner_html = ""
    node.insert_child(text.replace("\n", BREAK))


def _line(marked: str) -> str:
    """One block as a line; empty for navigation."""
    linked = sum(len(link.strip()) for link in LINK.findall(marked))
    line = ANCHOR_MARK.sub("", " ".join(MARKS.sub("", marked).split()))
    is_sentence = line.endswith((".", "!", "?")) and len(line.split()) > 4
    if linked > MAX_LINK_SHARE * len(line) and not is_sentence:
        return ""
    return "" if NAVIGATION.fullmatch(line) else line
