"""Markdown that a model wrote, as HTML that can do nothing: whatever a page had it write."""

from typing import Final

import nh3
from markdown_it import MarkdownIt
from markupsafe import Markup

_TAGS: Final = frozenset(
    [
        "p",
        "br",
        "hr",
        "h3",
        "h4",
        "h5",
        "h6",
        "strong",
        "em",
        "del",
        "code",
        "pre",
        "blockquote",
        "ul",
        "ol",
        "li",
        "a",
        "table",
        "thead",
        "tbody",
        "tr",
        "th",
        "td",
    ]
)
_ATTRIBUTES: Final = {"a": {"href", "title"}, "ol": {"start"}}
_SCHEMES: Final = frozenset({"http", "https"})
_LEAVING: Final = {"a": {"target": "_blank", "class": "leaving"}}
"""A link in such a text leads out of Vigil, and looks so. No pictures: a browser would ask a stranger's server for them."""
_PARSER: Final = MarkdownIt("commonmark", {"html": False}).enable(["table", "strikethrough"])


def rich(text: str) -> Markup:
    """`text`, Markdown, with headings below those of the page."""
    tokens = _PARSER.parse(text)
    for token in tokens:
        if token.type in ("heading_open", "heading_close"):
            token.tag = f"h{min(6, int(token.tag[1]) + 2)}"
    html: str = _PARSER.renderer.render(tokens, _PARSER.options, {})
    clean = nh3.clean(
        html,
        tags=set(_TAGS),
        attributes={tag: set(names) for tag, names in _ATTRIBUTES.items()},
        url_schemes=set(_SCHEMES),
        link_rel="noopener noreferrer nofollow",
        set_tag_attribute_values={tag: dict(values) for tag, values in _LEAVING.items()},
    )
    return Markup(clean)
