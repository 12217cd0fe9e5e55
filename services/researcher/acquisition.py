"""Knowledge acquisition: from a query to a Markdown document with its sources."""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from typing import Final

from sqlalchemy.ext.asyncio import AsyncSession

from services.researcher.prompts import acquisition_message
from services.researcher.query_context import Situation
from shared.enums import Phase
from shared.errors import PermanentError
from shared.events.models import Query
from shared.graph.provenance.claims import published
from shared.graph.provenance.sources import keep_pages
from shared.graph.scope import Scope
from shared.graph.validation import one_line
from shared.llm.messages import inside
from shared.llm.phase_run import Model, PhaseRun
from shared.llm.repair import Repairs, cut_text
from shared.llm.tool_loop import FollowUp, ToolLoop
from shared.tools import Arguments, Json
from shared.web_search.client import SearchClient
from shared.web_search.tools import TavilyExtract, knowledge_acquisition, refuse_unnamed


def reading(message: str, arguments: Arguments, earlier: Sequence[Json]) -> str | None:
    """A `shared.tools.Guard`: only pages that the mission, the query or the step's own searches name."""
    if not isinstance(arguments, TavilyExtract):
        return None
    given = f"{inside('mission', message)}\n{inside('query', message)}"
    return refuse_unnamed(arguments, given, earlier)


TITLE_CHARACTERS = 200
PAGE_CHARACTERS = 4_000
DOCUMENT_CHARACTERS = 16_000
"""Of a document that code makes of pages."""


def told(pages: Sequence[Json]) -> str:
    """A line for each address, in the order in which they came, with its title and date where they are known."""
    titles: dict[str, str] = {}
    dates: dict[str, str] = {}
    for page in pages:
        url = str(page["url"])
        titles[url] = titles.get(url) or one_line(str(page.get("title") or ""))
        date = published(str(page.get("published_date") or ""))
        dates[url] = dates.get(url) or ("" if date is None else date.date().isoformat())
    return "\n".join(_line(url, title, dates[url]) for url, title in titles.items())


def of_pages(pages: Sequence[Json]) -> str:
    """A document in the form that the model is asked for, made of the pages' own words, the longest text of each."""
    texts: dict[str, Json] = {}
    for page in pages:
        known = texts.get(str(page["url"]))
        if known is None or len(_text(page)) > len(_text(known)):
            texts[str(page["url"])] = {**(known or {}), **page}
    parts: list[str] = []
    left = DOCUMENT_CHARACTERS
    for url, page in texts.items():
        text = cut_text(_text(page), min(PAGE_CHARACTERS, left))
        if left <= 0 or not text:
            continue
        title = one_line(str(page.get("title") or url))[:TITLE_CHARACTERS]
        date = published(str(page.get("published_date") or ""))
        dated = [] if date is None else [f"Published: {date.date().isoformat()}"]
        parts.append("\n".join([f"## {title}", f"Source: {one_line(url)}", *dated, "", text]))
        left -= len(text)
    return "\n\n".join(parts)


def _text(page: Json) -> str:
    return str(page.get("content") or "").strip()


def _line(url: str, title: str, date: str) -> str:
    told = ", ".join(part for part in (title[:TITLE_CHARACTERS], date) if part)
    return f"- {one_line(url)}" + (f" ({told})" if told else "")


OWN_SEARCHES: Final = 3
"""That code makes at most where the model makes none."""
FEWEST_CHARACTERS: Final = 2
MOST_CHARACTERS: Final = 400
"""Of a search."""
_CALLS: Final = ("{", "[{", "<tool_call", "```json")
"""How calls begin that are written as text when no tool is offered any more."""


@dataclass(frozen=True)
class Acquired:
    document: str
    sources: str
    """The pages that this step was brought, by address, title and date: all that can be named as evidence of it."""
    repairs: int = 0
    """That code made of the model's calls and of its document."""


async def acquire(model: Model, search: SearchClient, situation: Situation) -> Acquired:
    """Raises PermanentError where there is no document. Every page that was brought is kept.

    What the model does not search for is searched for by code, and what it does not write down is taken from the pages.
    """
    message = acquisition_message(situation.agent.mission, situation.query, situation.graph_context)
    run = PhaseRun(
        model,
        situation.lease,
        situation.agent,
        Phase.KNOWLEDGE_ACQUISITION,
        message,
        context=situation.graph_context,
    )
    keep = partial(_keep, situation.scope)
    loop = ToolLoop(
        run,
        knowledge_acquisition(search, keep),
        guard=reading,
        must_act=True,
        review=partial(_looks_up_something, situation.query),
    )
    document = await loop.last_words()
    pages = _pages(loop)
    if pages and not _is_document(document, pages, was_searched_for=loop.has_followed_up):
        document = of_pages(pages)
        repairs = Repairs(["No usable document was written; the pages' own words are used."])
        await run.note_repairs(str(Phase.KNOWLEDGE_ACQUISITION), repairs, key="document")
    if not document.strip():
        raise PermanentError("empty_answer", "knowledge acquisition ended without a document")
    return Acquired(document, told(pages), run.repair_count)


def _looks_up_something(query: Query, _: str, loop: ToolLoop) -> FollowUp | None:
    """A `Review`: a document for which nothing was searched or read is none, so its query is searched for then."""
    if any(loop.results_of(tool) for tool in ("tavilySearch", "tavilyExtract", "tavilyResearch")):
        return None
    hints = [
        hint for each in query.search_hints if len(hint := one_line(each)) >= FEWEST_CHARACTERS
    ]
    searches = list(dict.fromkeys(hints)) or [one_line(query.objective)]
    return FollowUp(
        "Nothing was searched or read for the document, so the query's own searches were made.",
        calls=[
            ("tavilySearch", {"query": cut_text(each, MOST_CHARACTERS)})
            for each in searches[:OWN_SEARCHES]
        ],
    )


def _is_document(document: str, pages: Sequence[Json], *, was_searched_for: bool) -> bool:
    """Whether anything can be built of it.

    What was first written without any search must name a page the second time; so must what looks like a call of a tool.
    """
    text = document.strip()
    if text and not was_searched_for and not text.startswith(_CALLS):
        return True
    return any(str(page["url"]) in text for page in pages)


def _pages(loop: ToolLoop) -> list[Json]:
    return [
        page
        for tool in ("tavilySearch", "tavilyExtract")
        for answer in loop.results_of(tool)
        for page in answer["results"]
    ]


async def _keep(scope: Scope, session: AsyncSession, answer: Json) -> None:
    await keep_pages(session, scope, answer)
