"""Texts that cite nodes and edges: what is cited becomes a link by its name, wherever it stands in the text.

A text is made harmless first. What is put in its place afterwards is made here, and stands between tags, never in one.
"""

import re
from collections.abc import Iterable, Iterator, Sequence
from typing import Final
from uuid import UUID

from markupsafe import Markup, escape

from services.api.window.rich_text import rich
from shared.graph.citations import Citation, Kind, replaced
from shared.store.reading.shapes import CitationView
from shared.store.words import ADVICE_TYPE, ANALYSIS_TYPE

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
