"""Text and metadata of an HTML page: one block a line, and the cells of tables as labelled facts."""

import re
from collections.abc import Iterator
from dataclasses import dataclass

from selectolax.lexbor import LexborHTMLParser, LexborNode

from sandbox.text.labels import join_lines, table_lines

BLOCKS = (
    "address,article,aside,blockquote,body,br,caption,dd,div,dl,dt,fieldset,figcaption,figure,footer,form,h1,h2,h3,h4,"
    "h5,h6,header,hr,li,main,ol,option,p,pre,section,table,ul"
)
HIDDEN = (
    "head,script,style,noscript,template,svg,nav,button,select,iframe,[hidden],[role=navigation],[role=search],"
    "[aria-hidden=true]"
)
DATES = (
    "meta[property='article:published_time'],meta[itemprop=datePublished],meta[name=date],meta[name='dc.date' i],"
    "meta[name='dcterms.date' i],meta[name=pubdate],meta[name=citation_publication_date],time[itemprop~=datePublished],"
    "time[pubdate],header time[datetime]"
)
"""Elements that state when a page was published. Any other `time` may be that of an event."""
BREAK = "\x1e"
"""Marks the ends of blocks while the text is taken from the page."""


@dataclass(frozen=True, slots=True)
class HtmlPage:
    """Metadata of a page, and its text."""

    title: str
    """That of its head, else its first heading."""
    text: str
    url: str
    published: tuple[str, ...]
    """The dates of publication that the page states, as text that was not parsed."""


def parse_html(source: str) -> HtmlPage:
    """Parse HTML. Broken markup is parsed as browsers do; no error is raised."""
    tree = LexborHTMLParser(source.replace(BREAK, " "))
    title = next((text for node in tree.css("title,h1,h2,h3") if (text := _plain(node))), "")
    dates = tuple(
        node.attributes.get("content") or node.attributes.get("datetime") or node.text()
        for node in tree.css(DATES)
    )
    return HtmlPage(title, "\n".join(_lines(tree)), _url(tree), dates)


def _plain(node: LexborNode) -> str:
    return " ".join(node.text(deep=True, separator="").split())


def _url(tree: LexborHTMLParser) -> str:
    for node in tree.css("link[rel=canonical],meta[property='og:url']"):
        address = node.attributes.get("href") or node.attributes.get("content") or ""
        if address.startswith(("http://", "https://")):
            return address
    return ""


def _lines(tree: LexborHTMLParser) -> Iterator[str]:
    for node in tree.css(HIDDEN):
        if node.tag not in ("body", "html"):
            node.decompose()
    # From the inside out, so that a table in a cell is read before the one around it.
    for table in reversed(tree.css("table")):
        rows = [[_plain(cell) for cell in row.css("th,td")] for row in table.css("tr")]
        table.replace_with(BREAK.join(["", *table_lines(list(filter(None, rows))), ""]))
    for node in tree.css("pre"):
        node.replace_with(node.text(deep=True, separator="").replace("\n", BREAK))
    for node in tree.css(BLOCKS):
        node.insert_before(BREAK)
        node.insert_after(BREAK)
    text = tree.body.text(deep=True, separator="") if tree.body else ""
    for block in re.split(BREAK, text):
        yield from join_lines(block)
