"""Knowledge acquisition: from a query to a Markdown document with its sources."""

import re
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from functools import partial
from typing import Final
from uuid import UUID

from services.researcher.not_found import Statement, find_statements
from services.researcher.prompts import ACQUISITION_RULES, acquisition_message
from shared.agents import agents
from shared.database.engine import Database
from shared.database.statements import Batch
from shared.enums import Phase
from shared.errors import PermanentError
from shared.events.models import Query
from shared.graph import context
from shared.graph.context import Survey
from shared.graph.provenance.claims import parse_published
from shared.graph.provenance.numbered_pages import NumberedPage, RunPages, fill_in, names_page
from shared.graph.provenance.sources import known_pages, page_storing
from shared.graph.scope import GraphScope
from shared.graph.validation import one_line
from shared.llm.messages import section_content
from shared.llm.phase_run import PhaseRun
from shared.llm.provider import Model
from shared.llm.repair import Repairs, cut_text
from shared.llm.tool_loop import FollowUp, ToolLoop
from shared.tools import Arguments, Json, Refusal
from shared.web_search.client import SearchClient
from shared.web_search.memory import SearchMemory
from shared.web_search.tools import (
    Archive,
    KnownOfPages,
    TavilyExtract,
    knowledge_acquisition,
    refuse_unnamed,
)
from shared.workflow.agent_row import AgentRow
from shared.workflow.leases import Lease


@dataclass(frozen=True)
class QueryContext:
    lease: Lease
    scope: GraphScope
    query: Query
    survey: Survey
    now: datetime
    known: str = ""
    """Lines of the nodes that the query names, with their values in the graph."""
    requests: Mapping[UUID, str] = field(default_factory=dict)
    """Objectives of the investigation requests that the query is to answer, by id, in the order of their numbers."""

    @property
    def agent(self) -> AgentRow:
        return self.lease.agent


def allow_named_pages(
    message: str, arguments: Arguments, earlier: Sequence[Json]
) -> Refusal | None:
    """A `shared.tools.ToolPolicy`: only pages that the mission, the query or the step's own searches name, and those that
    were read.
    """
    if not isinstance(arguments, TavilyExtract):
        return None
    sections = [section_content(tag, message) for tag in ("mission", "query")]
    sections += context.read_addresses(section_content("graph_context", message))
    return refuse_unnamed(arguments, "\n".join(sections), earlier)


MAX_TITLE_CHARS = 200
MAX_PAGE_CHARS = 4_000
MAX_DOCUMENT_CHARS = 16_000
"""Limit of a document that code assembles from pages."""


def describe_sources(pages: Sequence[NumberedPage]) -> str:
    """One line per page, with its number, and title and date if they are known."""
    return "\n".join(f"{number}. {_line(page)}" for number, page in enumerate(pages, 1))


def headings(pages: Sequence[NumberedPage]) -> list[str]:
    """The heading of each page in a document: title, address and date."""
    return [
        "\n".join(
            [
                f"## {one_line(page.title)[:MAX_TITLE_CHARS] or one_line(page.url)}",
                f"Source: {one_line(page.url)}",
                *([f"Published: {date}"] if (date := _date(page)) else []),
            ]
        )
        for page in pages
    ]


def assemble_document(pages: Sequence[NumberedPage], left_out: Collection[str] = ()) -> str:
    """Assembles a document in the form that the model is asked for, of the sentences that it was shown.

    Pages whose address is `left_out` are not used.
    """
    parts: list[str] = []
    remaining_chars = MAX_DOCUMENT_CHARS
    for number, (page, heading) in enumerate(zip(pages, headings(pages), strict=True), 1):
        if page.url in left_out:
            continue
        page_chars = min(MAX_PAGE_CHARS, remaining_chars)
        lines: list[str] = []
        for place, text in enumerate(page.sentences, 1):
            page_chars -= len(text)
            if page_chars < 0:
                break
            lines.append(f"[{number}.{place}] {text}")
            remaining_chars -= len(text)
        if lines:
            parts.append("\n".join([heading, "", *lines]))
    return "\n\n".join(parts)


MIN_SENTENCE_CHARS: Final = 30
MAX_SENTENCE_CHARS: Final = 400
MAX_SENTENCES: Final = 30
"""Limits of the sentences that a model can choose facts from."""
_WORD: Final = re.compile(r"\w{4,}")


@dataclass(frozen=True)
class Sentence:
    """A sentence that the model was shown."""

    page: int
    """The number of its page."""
    number: int
    text: str


def quotable_sentences(
    pages: Sequence[NumberedPage], objective: str, left_out: Collection[str] = ()
) -> list[Sentence]:
    """At most MAX_SENTENCES sentences of `pages`: those that share most words with `objective`, most of them first.

    Pages whose address is `left_out` are not used.
    """
    objective_words = set(_WORD.findall(objective.lower()))
    sentences = {
        text: Sentence(number, place, text)
        for number, page in reversed(list(enumerate(pages, 1)))
        if page.url not in left_out
        for place, text in reversed(list(enumerate(page.sentences, 1)))
        if MIN_SENTENCE_CHARS <= len(text) <= MAX_SENTENCE_CHARS
    }

    def shared_words(sentence: Sentence) -> int:
        return len(objective_words & set(_WORD.findall(sentence.text.lower())))

    in_order = reversed(sentences.values())
    return sorted(in_order, key=shared_words, reverse=True)[:MAX_SENTENCES]


def _date(page: NumberedPage) -> str:
    date = parse_published(page.published)
    return "" if date is None else date.date().isoformat()


def _line(page: NumberedPage) -> str:
    parts = (one_line(page.title)[:MAX_TITLE_CHARS], _date(page))
    details = ", ".join(part for part in parts if part)
    return one_line(page.url) + (f" ({details})" if details else "")


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
    known_nodes: str = ""
    """The nodes that the document names, see `context.named_nodes`."""
    repairs: int = 0
    """Repairs of the model's calls and document by code."""
    sentences: Sequence[Sentence] = ()
    """Sentences of the pages that bear most on the query."""
    not_found: Sequence[Statement] = ()
    """Statements of the model about data that it did not find."""
    pages: Sequence[NumberedPage] = ()
    """The step's pages, whose sentences the document and evidence cite by number. Only these can be cited."""
    notes: Sequence[str] = ()
    """Notes for the owner, such as pages that were left out of the document."""


_CUT: Final = "The document reached the model's token limit, so its end is missing. VIGIL_MAX_OUTPUT_TOKENS sets the limit."


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
        context.pages_read(query_context.survey.text),
        query_context.known,
        query_context.now,
        [*query_context.requests.values()],
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
    query = query_context.query
    shown = RunPages(" ".join([query.objective, *query.search_hints]))
    loop = ToolLoop(
        run,
        knowledge_acquisition(
            search.of_corpus(query_context.agent.corpus),
            shown.show_passages,
            shown.show_reads,
            agents.domain_preferences(query_context.agent),
            memory,
            partial(_look_up, model.database, query_context.scope),
            Archive.of(query_context.agent.archive_date, parse_published),
        ),
        guard=allow_named_pages,
        must_act=True,
        review=partial(_review_searches, query_context.query, shown),
    )
    answer = await loop.run()
    if loop.broke_off:
        run.notes.append(_CUT)
    pages = shown.pages
    document = fill_in(answer, pages, headings(pages))
    not_found = find_statements(document)
    is_assembled = bool(pages) and not _is_document(
        document, pages, was_searched_for=loop.has_followed_up
    )
    if is_assembled:
        # The provider refuses what is left out in every request.
        document = assemble_document(pages, run.left_out)
    known_nodes = await _store(run, model.database, query_context.scope, pages, document)
    if is_assembled:
        repairs = Repairs(["No usable document was written; the pages' own words are used."])
        await run.record_repairs(str(Phase.KNOWLEDGE_ACQUISITION), repairs, key="document")
    if not document.strip():
        raise PermanentError("empty_answer", "knowledge acquisition ended without a document")
    sentences = quotable_sentences(pages, query_context.query.objective, run.left_out)
    has_address = any(names_page(document, page) for page in pages)
    sources = "" if has_address else describe_sources(pages)
    return Acquired(
        document, sources, known_nodes, run.repair_count, sentences, not_found, pages, run.notes
    )


def _review_searches(query: Query, shown: RunPages, _: str, loop: ToolLoop) -> FollowUp | None:
    """A `Review`: if no page was read, the sources of the model's research are, or else the query's own searches are made.

    Only a page can be quoted; the text of a research cannot.
    """
    if shown.pages:
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


def _is_document(document: str, pages: Sequence[NumberedPage], *, was_searched_for: bool) -> bool:
    """Whether a graph can be built from it.

    A document that was first written without any search must name a page the second time, as must one that looks like a
    tool call.
    """
    text = document.strip()
    if text and not was_searched_for and not text.startswith(_CALL_PREFIXES):
        return True
    return any(names_page(text, page) for page in pages)


async def _look_up(database: Database, scope: GraphScope, urls: Sequence[str]) -> KnownOfPages:
    known = await database.run(known_pages(scope, urls))
    return KnownOfPages(*known.by_address(urls))


async def _store(
    run: PhaseRun,
    database: Database,
    scope: GraphScope,
    pages: Sequence[NumberedPage],
    document: str,
) -> str:
    """Stores the pages of a run that has ended; returns the lines of the nodes that its document names.

    A resumed run stores nothing twice.
    """
    if not pages:
        return ""
    batch = Batch()
    storing = page_storing(batch, scope, pages)
    known_nodes = batch.add(context.named_nodes(scope, document))
    await database.read(batch)
    for query in storing.value:
        run.unit.defer_query(query)
    await run.unit.commit_if_immediate()
    return known_nodes.value
