"""Untrusted Markdown and cited text as safe HTML."""

import re
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from difflib import SequenceMatcher
from enum import StrEnum
from typing import Final
from uuid import UUID

import nh3
from markdown_it import MarkdownIt
from markupsafe import Markup, escape
from sqlalchemy.ext.asyncio import AsyncSession

from shared.enums import ADVICE_TYPE, ANALYSIS_TYPE
from shared.graph import labels
from shared.graph.conclusions.citations import Citation, Kind, parse, replaced
from shared.schemas.base import CitationView

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


_CONCLUSIONS: Final = frozenset({ANALYSIS_TYPE, ADVICE_TYPE})
_TAG: Final = re.compile(r'(<[^>"]*(?:"[^"]*"[^>"]*)*>)')
"""As the sanitiser writes them: attributes in quotes, and no quote within one."""
_UNKNOWN: Final = "not in the graph"


def address(agent_id: UUID, kind: str, thing_id: UUID, type_name: str | None = None) -> str:
    """Of the page about a node, an edge or a conclusion."""
    if type_name in _CONCLUSIONS:
        return f"/agents/{agent_id}/conclusions/{thing_id}"
    return f"/agents/{agent_id}/{kind}s/{thing_id}"


def cited(text: str, citations: Iterable[CitationView], agent_id: UUID) -> Markup:
    """`text`, Markdown that a model wrote, with links to what it cites."""
    links = _links(citations, agent_id)
    return Markup("".join(_linked(_TAG.split(str(rich(text))), links)))


def cited_line(text: str, citations: Iterable[CitationView], agent_id: UUID) -> Markup:
    """The same of plain text."""
    links = _links(citations, agent_id)
    return Markup(replaced(str(escape(text)), links.get))


def _links(citations: Iterable[CitationView], agent_id: UUID) -> dict[Citation, str]:
    return {_key(each): str(_link(each, agent_id)) for each in citations}


def _key(view: CitationView) -> Citation:
    return Citation(Kind(view.kind), view.id)


def _link(view: CitationView, agent_id: UUID) -> Markup:
    if view.name is None:
        return Markup('<span class="cite" data-missing title="{}">{} {}</span>').format(
            f"The model cites {view.id}, which does not exist", view.kind, _UNKNOWN
        )
    return Markup('<a class="cite" href="{}" title="{}">{}</a>').format(
        address(agent_id, view.kind, view.id, view.type), view.type, view.name
    )


def _linked(parts: Sequence[str], links: dict[Citation, str]) -> Iterator[str]:
    """`parts` are text and tags by turns. A citation within a link stays as it is: no link stands in another."""
    within_link = False
    for place, part in enumerate(parts):
        if place % 2:
            within_link = part.startswith("<a ") or (within_link and not part.startswith("</a"))
            yield part
        else:
            yield part if within_link else replaced(part, links.get)


FILTERS: Final = {"cited": cited, "cited_line": cited_line}


CONTEXT_LINES: Final = 2
"""Of what is unchanged, beside each change."""
LEAST_ALIKE: Final = 0.3
"""Share of the words, of two passages of which one became the other; below, one was put in the other's place."""
_WORDS: Final = re.compile(r"\s*\S+|\s+")


class Change(StrEnum):
    SAME = "same"
    GONE = "gone"
    NEW = "new"
    LEFT_OUT = "left out"
    """`text` says how many lines are not shown."""


@dataclass(frozen=True)
class Run:
    change: Change
    text: str


def changes(before: str, after: str) -> list[Run]:
    """From `before` to `after`, in their order; one run of SAME where they are equal."""
    old, new = before.splitlines(keepends=True), after.splitlines(keepends=True)
    blocks = SequenceMatcher(None, old, new, autojunk=False).get_opcodes()
    runs: list[Run] = []
    for place, (tag, old_from, old_to, new_from, new_to) in enumerate(blocks):
        if tag == "equal":
            is_first, is_last = place == 0, place == len(blocks) - 1
            runs += _shortened(old[old_from:old_to], is_first=is_first, is_last=is_last)
        else:
            runs += _by_words("".join(old[old_from:old_to]), "".join(new[new_from:new_to]))
    return runs


def _shortened(lines: Sequence[str], *, is_first: bool, is_last: bool) -> Iterator[Run]:
    """Only the lines beside a change, of which there is none before the first nor after the last block."""
    head = 0 if is_first else CONTEXT_LINES
    tail = 0 if is_last else CONTEXT_LINES
    left_out = len(lines) - head - tail
    if left_out < 2 or (is_first and is_last):
        yield Run(Change.SAME, "".join(lines))
        return
    if head:
        yield Run(Change.SAME, "".join(lines[:head]))
    yield Run(Change.LEFT_OUT, f"{left_out} lines unchanged")
    if tail:
        yield Run(Change.SAME, "".join(lines[-tail:]))


def _by_words(before: str, after: str) -> Iterator[Run]:
    old, new = _WORDS.findall(before), _WORDS.findall(after)
    matcher = SequenceMatcher(None, old, new)
    is_alike = matcher.ratio() >= LEAST_ALIKE
    blocks = matcher.get_opcodes() if is_alike else [("replace", 0, len(old), 0, len(new))]
    for tag, old_from, old_to, new_from, new_to in blocks:
        if tag == "equal":
            yield Run(Change.SAME, "".join(old[old_from:old_to]))
            continue
        if old_to > old_from:
            yield Run(Change.GONE, "".join(old[old_from:old_to]))
        if new_to > new_from:
            yield Run(Change.NEW, "".join(new[new_from:new_to]))


async def citations_of(
    session: AsyncSession, owner_id: UUID, texts: Iterable[tuple[UUID, str]]
) -> Mapping[UUID, list[CitationView]]:
    """By agent, of texts given with whose they are. What does not exist (any more) has no name."""
    wanted: defaultdict[UUID, list[str]] = defaultdict(list)
    for agent_id, text in texts:
        wanted[agent_id].append(text)
    found: dict[UUID, list[CitationView]] = {}
    for agent_id, of_agent in wanted.items():
        citations = parse(*of_agent).citations
        names = await labels.named(session, owner_id, agent_id, [each.id for each in citations])
        found[agent_id] = [
            CitationView(
                kind=each.kind.value,
                id=each.id,
                type=names[each.id].type if each.id in names else None,
                name=names[each.id].name if each.id in names else None,
            )
            for each in citations
        ]
    return found
