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

from shared.database.transaction import Transaction
from shared.enums import ADVICE_TYPE, ANALYSIS_TYPE
from shared.graph import labels
from shared.graph.conclusions.citations import (
    Citation,
    Kind,
    parse_citations,
    replace_citations,
    without_citations,
)
from shared.graph.scope import GraphScope
from shared.hidden_text import without_hidden
from shared.schemas.base import CitationResponse

_TAGS: Final = set(
    "p br hr h3 h4 h5 h6 strong em del code pre blockquote ul ol li table thead tbody tr th td".split()  # noqa: SIM905
)
_ATTRIBUTES: Final = {"ol": {"start"}}
# An address of a model is text: a page may have suggested it, and a link could show any other words. There are no images:
# a browser would request them from a third party.
_PARSER: Final = (
    MarkdownIt("commonmark", {"html": False})
    .enable(["table", "strikethrough"])
    .disable(["link", "autolink", "reference"])
)
# Of a conclusion, a person reads what its reader has read: line by line, and no sign that hides a word or has it stand
# elsewhere.
_CONCLUSION_PARSER: Final = MarkdownIt("zero", {"html": False, "breaks": True}).enable(
    ["heading", "list", "blockquote", "hr", "emphasis", "newline"]
)


def render_markdown(text: str, parser: MarkdownIt = _PARSER) -> Markup:
    """Renders Markdown without links, with headings below those of the page."""
    tokens = parser.parse(without_hidden(text))
    for token in tokens:
        if token.type in ("heading_open", "heading_close"):
            token.tag = f"h{min(6, int(token.tag[1]) + 2)}"
    html: str = parser.renderer.render(tokens, parser.options, {})
    clean = nh3.clean(html, tags=_TAGS, attributes=_ATTRIBUTES, link_rel=None)
    return Markup(without_hidden(clean))  # Entities can stand for characters.


_CONCLUSIONS: Final = frozenset({ANALYSIS_TYPE, ADVICE_TYPE})
_UNKNOWN: Final = "not in the graph"


def element_address(
    agent_id: UUID, kind: str, element_id: UUID, type_name: str | None = None
) -> str:
    """Returns the address of the page about a node, an edge or a conclusion."""
    if type_name in _CONCLUSIONS:
        return f"/agents/{agent_id}/conclusions/{element_id}"
    return f"/agents/{agent_id}/{kind}s/{element_id}"


def render_cited_markdown(
    text: str, citations: Iterable[CitationResponse], agent_id: UUID
) -> Markup:
    """Renders Markdown of a model, with numbered links to what it cites."""
    links = _links(citations, agent_id)
    return Markup(replace_citations(str(render_markdown(text)), links.get))


def render_conclusion(text: str, citations: Iterable[CitationResponse], agent_id: UUID) -> Markup:
    """Renders the text of a conclusion, with numbered links to what it cites.

    Names would be words that no reader has compared with their sources.
    """
    links = _links(citations, agent_id)
    return Markup(replace_citations(str(render_markdown(text, _CONCLUSION_PARSER)), links.get))


def render_cited_line(text: str, citations: Iterable[CitationResponse], agent_id: UUID) -> Markup:
    """Escapes plain text, with numbered links to what it cites."""
    links = _links(citations, agent_id)
    return Markup(replace_citations(str(escape(without_hidden(text))), links.get))


def _links(citations: Iterable[CitationResponse], agent_id: UUID) -> dict[Citation, str]:
    return {
        Citation(Kind(each.kind), each.id): str(_link(number, each, agent_id))
        for number, each in enumerate(citations, 1)
    }


def _link(number: int, view: CitationResponse, agent_id: UUID) -> Markup:
    if view.name is None:
        return Markup('<span class="cite" data-missing title="{}">{} {}</span>').format(
            f"The model cites {view.id}, which does not exist", view.kind, _UNKNOWN
        )
    return Markup('<a class="cite" href="{}" title="{} {}">[{}]</a>').format(
        element_address(agent_id, view.kind, view.id, view.type),
        view.type,
        without_hidden(view.name),
        number,
    )


FILTERS: Final = {
    "cited": render_cited_markdown,
    "cited_line": render_cited_line,
    "conclusion": render_conclusion,
    "uncited": without_citations,
}


CONTEXT_LINES: Final = 2
"""Unchanged lines beside each change."""
MIN_SIMILARITY: Final = 0.3
"""The share of common words from which on a passage counts as changed; below, as replaced."""
_WORDS: Final = re.compile(r"\s*\S+|\s+")


class Change(StrEnum):
    SAME = "same"
    GONE = "gone"
    NEW = "new"
    LEFT_OUT = "left out"
    """`text` says how many lines are left out."""


@dataclass(frozen=True)
class DiffRun:
    change: Change
    text: str


def word_diff(before: str, after: str) -> list[DiffRun]:
    """Returns the word diff from `before` to `after`; a single run of SAME where they are equal."""
    old, new = before.splitlines(keepends=True), after.splitlines(keepends=True)
    blocks = SequenceMatcher(None, old, new, autojunk=False).get_opcodes()
    runs: list[DiffRun] = []
    for place, (tag, old_from, old_to, new_from, new_to) in enumerate(blocks):
        if tag == "equal":
            is_first, is_last = place == 0, place == len(blocks) - 1
            runs += _without_unchanged(old[old_from:old_to], is_first=is_first, is_last=is_last)
        else:
            runs += _by_words("".join(old[old_from:old_to]), "".join(new[new_from:new_to]))
    return runs


def _without_unchanged(lines: Sequence[str], *, is_first: bool, is_last: bool) -> Iterator[DiffRun]:
    """Keeps only the unchanged lines next to a change."""
    head = 0 if is_first else CONTEXT_LINES
    tail = 0 if is_last else CONTEXT_LINES
    left_out = len(lines) - head - tail
    if left_out < 2 or (is_first and is_last):
        yield DiffRun(Change.SAME, "".join(lines))
        return
    if head:
        yield DiffRun(Change.SAME, "".join(lines[:head]))
    yield DiffRun(Change.LEFT_OUT, f"{left_out} lines unchanged")
    if tail:
        yield DiffRun(Change.SAME, "".join(lines[-tail:]))


def _by_words(before: str, after: str) -> Iterator[DiffRun]:
    old, new = _WORDS.findall(before), _WORDS.findall(after)
    matcher = SequenceMatcher(None, old, new)
    is_alike = matcher.ratio() >= MIN_SIMILARITY
    blocks = matcher.get_opcodes() if is_alike else [("replace", 0, len(old), 0, len(new))]
    for tag, old_from, old_to, new_from, new_to in blocks:
        if tag == "equal":
            yield DiffRun(Change.SAME, "".join(old[old_from:old_to]))
            continue
        if old_to > old_from:
            yield DiffRun(Change.GONE, "".join(old[old_from:old_to]))
        if new_to > new_from:
            yield DiffRun(Change.NEW, "".join(new[new_from:new_to]))


async def find_citations(
    session: Transaction, owner_id: UUID, texts: Iterable[tuple[UUID, str]]
) -> Mapping[UUID, list[CitationResponse]]:
    """Returns the citations in texts by agent. Elements that do not exist any more have no name."""
    texts_by_agent: defaultdict[UUID, list[str]] = defaultdict(list)
    for agent_id, text in texts:
        texts_by_agent[agent_id].append(text)
    result: dict[UUID, list[CitationResponse]] = {}
    for agent_id, of_agent in texts_by_agent.items():
        citations = parse_citations(*of_agent).citations
        names = await labels.load_labels(
            session, GraphScope(owner_id, agent_id), [citation.id for citation in citations]
        )
        result[agent_id] = [
            CitationResponse(
                kind=citation.kind.value,
                id=citation.id,
                type=names[citation.id].type if citation.id in names else None,
                name=names[citation.id].name if citation.id in names else None,
            )
            for citation in citations
        ]
    return result
