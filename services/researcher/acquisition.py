"""Knowledge acquisition: from a query to a Markdown document with its sources."""

import re
from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from typing import Final

from services.researcher.prompts import ACQUISITION_RULES, acquisition_message
from services.researcher.query_context import QueryContext
from shared.agents import agents
from shared.database.engine import Database
from shared.database.statements import BoundQuery
from shared.enums import Phase
from shared.errors import PermanentError
from shared.events.models import Query
from shared.graph.provenance.claims import parse_published
from shared.graph.provenance.numbered_pages import (
    NumberedPage,
    fill_in,
    number_pages,
    show_numbered,
)
from shared.graph.provenance.sources import page_storing
from shared.graph.scope import GraphScope
from shared.graph.validation import one_line
from shared.llm.messages import section_content
from shared.llm.phase_run import Model, PhaseRun
from shared.llm.repair import Repairs, cut_text
from shared.llm.tool_loop import FollowUp, ToolLoop
from shared.tools import Arguments, Json
from shared.web_search.client import SearchClient
from shared.web_search.memory import SearchMemory
from shared.web_search.tools import TavilyExtract, knowledge_acquisition, refuse_unnamed


def allow_named_pages(message: str, arguments: Arguments, earlier: Sequence[Json]) -> str | None:
    """A `shared.tools.ToolPolicy`: only pages that the mission, the query or the step's own searches name."""
    if not isinstance(arguments, TavilyExtract):
        return None
    named_text = f"{section_content('mission', message)}\n{section_content('query', message)}"
    return refuse_unnamed(arguments, named_text, earlier)


MAX_TITLE_CHARS = 200
MAX_PAGE_CHARS = 4_000
MAX_DOCUMENT_CHARS = 16_000
"""Limit of a document that code assembles from pages."""


def describe_sources(pages: Sequence[Json]) -> str:
    """One line per numbered page, with title and date if they are known of its URL."""
    titles, dates = _details(pages)
    return "\n".join(
        f"{number}. {_line(page.url, titles[page.url], dates[page.url])}"
        for number, page in enumerate(number_pages(pages), 1)
    )


def headings(pages: Sequence[Json]) -> list[str]:
    """For each numbered page, its title, address and date in the form of a document."""
    titles, dates = _details(pages)
    return [
        "\n".join(
            [
                f"## {titles[page.url][:MAX_TITLE_CHARS] or one_line(page.url)}",
                f"Source: {one_line(page.url)}",
                *([f"Published: {dates[page.url]}"] if dates[page.url] else []),
            ]
        )
        for page in number_pages(pages)
    ]


def _details(pages: Sequence[Json]) -> tuple[dict[str, str], dict[str, str]]:
    """Titles and dates by URL; empty where they are not known."""
    titles: dict[str, str] = {}
    dates: dict[str, str] = {}
    for page in pages:
        url = str(page["url"])
        titles[url] = titles.get(url) or one_line(str(page.get("title") or ""))
        date = parse_published(str(page.get("published_date") or ""))
        dates[url] = dates.get(url) or ("" if date is None else date.date().isoformat())
    return titles, dates


def assemble_document(pages: Sequence[Json]) -> str:
    """Assembles a document in the form that the model is asked for, from the longest text of each page."""
    texts: dict[str, Json] = {}
    for page in pages:
        longest = texts.get(str(page["url"]))
        if longest is None or len(_text(page)) > len(_text(longest)):
            texts[str(page["url"])] = {**(longest or {}), **page}
    parts: list[str] = []
    remaining_chars = MAX_DOCUMENT_CHARS
    for url, page in texts.items():
        text = cut_text(_text(page), min(MAX_PAGE_CHARS, remaining_chars))
        if remaining_chars <= 0 or not text:
            continue
        title = one_line(str(page.get("title") or url))[:MAX_TITLE_CHARS]
        date = parse_published(str(page.get("published_date") or ""))
        date_line = [] if date is None else [f"Published: {date.date().isoformat()}"]
        parts.append("\n".join([f"## {title}", f"Source: {one_line(url)}", *date_line, "", text]))
        remaining_chars -= len(text)
    return "\n\n".join(parts)


MIN_SENTENCE_CHARS: Final = 30
MAX_SENTENCE_CHARS: Final = 400
MAX_SENTENCES: Final = 30
"""Limits of the sentences that a model can quote by their numbers."""
_SENTENCE_END: Final = re.compile(r"(?<=[.!?])\s+|\n+")
_WORD: Final = re.compile(r"\w{4,}")


@dataclass(frozen=True)
class Sentence:
    """A sentence of a page."""

    url: str
    text: str


def quotable_sentences(pages: Sequence[Json], objective: str) -> list[Sentence]:
    """At most MAX_SENTENCES sentences of `pages`: those that share most words with `objective`, most of them first."""
    objective_words = set(_WORD.findall(objective.lower()))
    sentences = {
        part.strip(): Sentence(str(page["url"]), part.strip())
        for page in reversed(pages)
        for part in _SENTENCE_END.split(_text(page))
        if MIN_SENTENCE_CHARS <= len(part.strip()) <= MAX_SENTENCE_CHARS
    }

    def shared_words(sentence: Sentence) -> int:
        return len(objective_words & set(_WORD.findall(sentence.text.lower())))

    return sorted(sentences.values(), key=shared_words, reverse=True)[:MAX_SENTENCES]


def _text(page: Json) -> str:
    return str(page.get("content") or "").strip()


def _line(url: str, title: str, date: str) -> str:
    details = ", ".join(part for part in (title[:MAX_TITLE_CHARS], date) if part)
    return one_line(url) + (f" ({details})" if details else "")


MAX_OWN_SEARCHES: Final = 3
"""Maximum number of searches by code if the model makes none."""
MAX_SEARCH_CHARS: Final = 400
_CALL_PREFIXES: Final = ("{", "[{", "<tool_call", "```json")
"""Beginnings of tool calls that a model writes as text when no tool is offered."""


@dataclass(frozen=True)
class Acquired:
    document: str
    sources: str
    """URL, title and date of the step's pages, if the document names none of them."""
    repairs: int = 0
    """Repairs of the model's calls and document by code."""
    sentences: Sequence[Sentence] = ()
    """Sentences of the pages that bear most on the query."""
    pages: Sequence[NumberedPage] = ()
    """The step's pages, whose sentences the document and evidence cite by number. Only these can be cited."""


async def acquire(
    model: Model,
    search: SearchClient,
    query_context: QueryContext,
    memory: SearchMemory | None = None,
) -> Acquired:
    """Runs the acquisition phase. Raises PermanentError if there is no document. Stores every page.

    What `memory` has is neither searched nor read again.
    If the model does not search, code does; if it writes no document, one is assembled from the pages.
    """
    message = acquisition_message(
        query_context.agent.mission,
        query_context.query,
        query_context.survey.text,
        query_context.now,
    )
    run = PhaseRun(
        model,
        query_context.lease,
        query_context.agent,
        Phase.KNOWLEDGE_ACQUISITION,
        message,
        rules=ACQUISITION_RULES,
        context=query_context.survey.text,
        pinned_for=query_context.survey.pinned_for,
    )
    store_results = partial(_page_storing, model.database, query_context.scope)
    loop = ToolLoop(
        run,
        knowledge_acquisition(
            search.of_corpus(query_context.agent.corpus),
            store_results,
            partial(show_numbered, _asked(query_context.query)),
            agents.domain_preferences(query_context.agent),
            memory,
        ),
        guard=allow_named_pages,
        must_act=True,
        review=partial(_review_searches, query_context.query),
    )
    answer = await loop.run()
    pages = _pages(loop)
    # The provider refuses what is left out in every request.
    shown = [page for page in pages if page["url"] not in loop.left_out]
    numbered = number_pages(pages)
    document = fill_in(answer, numbered, headings(pages))
    if pages and not _is_document(document, pages, was_searched_for=loop.has_followed_up):
        document = fill_in(assemble_document(shown), numbered)
        repairs = Repairs(["No usable document was written; the pages' own words are used."])
        await run.record_repairs(str(Phase.KNOWLEDGE_ACQUISITION), repairs, key="document")
    if not document.strip():
        raise PermanentError("empty_answer", "knowledge acquisition ended without a document")
    sentences = quotable_sentences(shown, query_context.query.objective)
    names_page = any(page.url in document for page in numbered)
    sources = "" if names_page else describe_sources(pages)
    return Acquired(document, sources, run.repair_count, sentences, numbered)


def _asked(query: Query) -> str:
    return " ".join([query.objective, *query.search_hints])


def _review_searches(query: Query, _: str, loop: ToolLoop) -> FollowUp | None:
    """A `Review`: if no page was read, the sources of the model's research are, or else the query's own searches are made.

    Only a page can be quoted; the text of a research cannot.
    """
    if _pages(loop):
        return None
    sources = [
        url
        for research in loop.results_of("tavilyResearch")
        for source in research.get("sources", [])
        if (url := source.get("url"))  # a source may have a title alone
    ]
    if sources:
        return FollowUp(
            "No page of the research was read, so its sources were read.",
            calls=[("tavilyExtract", {"urls": list(dict.fromkeys(sources))})],
        )
    # A hint of one word, such as a year, says too little without the others.
    hints = [hint for text in query.search_hints if " " in (hint := one_line(text))]
    searches = list(dict.fromkeys(hints)) or [one_line(query.objective)]
    return FollowUp(
        "No page was found for the document, so the query's own searches were made.",
        calls=[
            ("tavilySearch", {"query": cut_text(text, MAX_SEARCH_CHARS)})
            for text in searches[:MAX_OWN_SEARCHES]
        ],
    )


def _is_document(document: str, pages: Sequence[Json], *, was_searched_for: bool) -> bool:
    """Whether a graph can be built from it.

    A document that was first written without any search must name a page the second time, as must one that looks like a
    tool call.
    """
    text = document.strip()
    if text and not was_searched_for and not text.startswith(_CALL_PREFIXES):
        return True
    return any(str(page["url"]) in text for page in pages)


def _pages(loop: ToolLoop) -> list[Json]:
    return [
        page
        for tool in ("tavilySearch", "tavilyExtract")
        for answer in loop.results_of(tool)
        for page in answer["results"]
    ]


async def _page_storing(
    database: Database, scope: GraphScope, answer: Json
) -> Sequence[BoundQuery[None]]:
    async with database.connection() as connection:
        return await page_storing(connection, scope, answer)
