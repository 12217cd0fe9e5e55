"""The knowledge acquisition phase: search, extract the best pages, write a document of their sentences."""

import re
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from math import ceil
from typing import Any

from sandbox.model.request import Answer, ChatRequest, ToolCall
from sandbox.search.passages import sentence_weights
from sandbox.text.english import shorten
from sandbox.text.language import ENGLISH, language_of
from sandbox.text.sentences import (
    CODE,
    is_prose,
    numbered_sentences,
    parse_label,
    sentences,
    without_numbers,
)
from sandbox.text.tokens import topic_stems

OBJECTIVE = re.compile(r"^Objective:\s*(.+)$", re.MULTILINE)
HINTS = re.compile(r"^Search hints:\s*\n((?:\s*-.*(?:\n|\Z))+)", re.MULTILINE)

URL = re.compile(r"https?://[^\s,()]+(?<![.;:])")

MAX_HINT_CHARS = 300


@dataclass(frozen=True, slots=True)
class Query:
    """An objective and at least one search hint."""

    objective: str
    hints: tuple[str, ...]

    @property
    def urls(self) -> tuple[str, ...]:
        """The pages that the objective names: they are read, and nothing is searched."""
        return tuple(dict.fromkeys(URL.findall(self.objective)))[:MAX_URLS]

    @property
    def text(self) -> str:
        """Objective and hints as one text, without addresses."""
        return " ".join([URL.sub(" ", self.objective), *self.hints])


def parse_query(request: ChatRequest) -> Query:
    """Parse the query section; without one, the mission is the objective."""
    section = request.section("query")
    stated = OBJECTIVE.search(section)
    objective = stated.group(1).strip() if stated else section or request.mission
    listed = HINTS.search(section)
    hints = [line.strip(" -") for line in listed.group(1).splitlines()] if listed else []
    usable = [shorten(hint, MAX_HINT_CHARS) for hint in hints if len(hint) > 1]
    return Query(objective, tuple(usable) or (shorten(objective, MAX_HINT_CHARS),))


CUT_MARK = "…"
"""Marks an omission in a passage."""
CLEAR_SCORE = 0.5
"""Minimal best score at which scores separate relevant pages from others."""
MIN_SHARE_IF_CLEAR = 0.66
MIN_SHARE_IF_UNCLEAR = 0.4
"""Minimal share of the best page's score."""


@dataclass(frozen=True, slots=True)
class Page:
    """A page, as far as it was fetched."""

    title: str
    url: str
    published: str
    text: str
    score: float
    is_complete: bool = False
    numbers: Mapping[str, str] = field(default_factory=dict, compare=False)
    """The number of each sentence, by which the document cites it."""


def collect_pages(request: ChatRequest) -> list[Page]:
    """The pages of all searches, best first; complete if extracted."""
    pages = _search_results(request)
    extracted: set[str] = set()
    for exchange in request.results("tavilyExtract"):
        for result in _objects(exchange.result, "results"):
            url, text = str(result.get("url", "")), str(result.get("content") or "")
            if text:
                result_page = pages.get(url) or Page(
                    str(result.get("title") or url), url, "", "", 0.0
                )
                pages[url] = replace(
                    result_page,
                    text=without_numbers(text),
                    is_complete=True,
                    numbers=numbered_sentences(text),
                )
                extracted.add(url)
    best = max((page.score for page in pages.values()), default=0.0)
    min_score = best * (MIN_SHARE_IF_CLEAR if best >= CLEAR_SCORE else MIN_SHARE_IF_UNCLEAR)
    selected = [page for page in pages.values() if page.url in extracted or page.score >= min_score]
    return sorted(selected, key=lambda page: -page.score)


def urls_to_extract(request: ChatRequest, max_urls: int) -> list[str]:
    """URLs of the best pages whose passage has gaps."""
    pages = [page for page in collect_pages(request) if not page.is_complete]
    return [page.url for page in pages[:max_urls] if page.url]


def _search_results(request: ChatRequest) -> dict[str, Page]:
    pages: dict[str, Page] = {}
    for exchange in request.results("tavilySearch"):
        for result in _objects(exchange.result, "results"):
            page = _page(result)
            if page.url not in pages or page.score > pages[page.url].score:
                pages[page.url] = page
    return pages


def _page(result: Mapping[str, Any]) -> Page:
    url, text = str(result.get("url") or ""), str(result.get("content") or "")
    return Page(
        title=str(result.get("title") or url),
        url=url,
        published=str(result.get("published_date") or ""),
        text=without_numbers(text),
        score=float(result.get("score") or 0.0),
        is_complete=CUT_MARK not in text,
        numbers=numbered_sentences(text),
    )


def _objects(result: Mapping[str, Any] | None, key: str) -> list[Mapping[str, Any]]:
    value = (result or {}).get(key)
    return [item for item in value if isinstance(item, dict)] if isinstance(value, list) else []


MAX_SOURCES = 8
MAX_SENTENCES = 12
MIN_SENTENCE_CHARS = 12
MIN_SHARED_WORDS = 2
MIN_SHARE_OF_BEST = 0.35
"""Minimal share of the best sentence's weight."""


def write_findings(query: Query, pages: list[Page], troubles: list[str]) -> str:
    """Write a Markdown document with a part for each relevant source, or a note that there is none."""
    parts = _source_parts(query, pages, MIN_SHARED_WORDS) or _source_parts(query, pages, 1)
    no_results = f"Nothing relevant was found for these searches: {', '.join(query.hints)}."
    notes = [f"Note: {trouble}" for trouble in troubles]
    heading = f"# {query.objective.rstrip('.')}"
    return "\n\n".join([heading, *(parts[:MAX_SOURCES] or [no_results]), *notes])


def _source_parts(query: Query, pages: list[Page], min_words: int) -> list[str]:
    """The parts of pages that share `min_words` words with the query. With one word, only short pages count."""
    parts = (
        _source_part(page, query, min_words, best=place == 0) for place, page in enumerate(pages)
    )
    return [part for part in parts if part]


def _source_part(page: Page, query: Query, min_words: int, *, best: bool) -> str:
    usable = [
        sentence for sentence in dict.fromkeys(sentences(page.text)) if _is_usable(sentence, page)
    ]
    if language_of(page.text) != ENGLISH:
        return ""  # the rules for sentences and names are those of English
    is_short = len(usable) <= MAX_SENTENCES
    texts = [" ".join([page.title, *usable])] if is_short else usable
    min_words = min_words if is_short else MIN_SHARED_WORDS
    if not usable or not _is_relevant(texts, query, min_words, best=best):
        return ""
    head = [f"## {page.title}", f"Source: {page.url}"]
    if page.published:
        head.append(f"Published: {page.published}")
    relevant = _relevant_sentences(page, usable, topic_stems(query.text))
    numbers = dict.fromkeys(page.numbers.get(sentence, "") for sentence in relevant)
    cited = " ".join(f"[{number}]" for number in numbers if number)
    typed = [f"- {sentence}" for sentence in relevant if sentence not in page.numbers]
    return "\n".join([*head, "", *([cited] if cited else []), *typed])


def _is_relevant(texts: list[str], query: Query, min_words: int, *, best: bool) -> bool:
    """Whether a sentence shares half of a hint's words and `min_words`; of the best page, `min_words` of any hint.

    A short page counts as one sentence.
    """
    hints = [" ".join(query.hints)] if best else query.hints
    hint_stems = [topic_stems(hint) for hint in hints]
    text_stems = [topic_stems(text) for text in texts]
    for stems in hint_stems:
        enough = min_words if best else max(min_words, ceil(len(stems) / 2))
        if any(len(stems & text) >= min(enough, len(stems)) for text in text_stems):
            return True
    return False


def _relevant_sentences(page: Page, usable: list[str], topic: frozenset[str]) -> list[str]:
    """The sentences closest to the topic, in order; of a short page all."""
    if page.is_complete and len(usable) <= MAX_SENTENCES:
        return usable
    weights = dict(zip(usable, sentence_weights(usable, topic), strict=True))
    best = sorted(usable, key=lambda sentence: -weights[sentence])[:MAX_SENTENCES]
    floor = weights[best[0]] * MIN_SHARE_OF_BEST
    return [
        sentence
        for sentence in usable
        if sentence in set(best)
        and (weights[sentence] >= floor or _has_matching_label(sentence, topic))
    ]


def _has_matching_label(sentence: str, topic: frozenset[str]) -> bool:
    """Whether it is a fact whose label contains a word of the topic."""
    line = parse_label(sentence)
    return line is not None and not topic.isdisjoint(topic_stems(line.label))


def _is_usable(sentence: str, page: Page) -> bool:
    """Whether a sentence can be quoted: a fact with its label, or a whole sentence of text."""
    line = parse_label(sentence)
    is_note = sentence.startswith("note") or (line is not None and line.is_note)
    if len(sentence) < MIN_SENTENCE_CHARS or is_note:
        return False
    is_fact = line is not None and sentence != page.title and not CODE.search(sentence)
    return is_fact or is_prose(sentence)


MAX_URLS = 5
MAX_SEARCHES = 3
RESULTS_PER_SEARCH = 8
MAX_EXTRACTS = 3


def acquire(request: ChatRequest) -> Answer:
    """Search, then extract pages with gaps in their passages, then write the document."""
    query = parse_query(request)
    called_tools = {exchange.name for exchange in request.exchanges}
    if query.urls and "tavilyExtract" in request.callable_tools and not called_tools:
        return Answer(calls=(ToolCall.of("tavilyExtract", urls=list(query.urls)),))
    if query.urls and called_tools == {"tavilyExtract"} and collect_pages(request):
        return _findings(request, query)
    if "tavilySearch" in request.callable_tools and "tavilySearch" not in called_tools:
        return Answer(calls=_search_calls(query))
    urls = urls_to_extract(request, MAX_EXTRACTS)
    if urls and "tavilyExtract" in request.callable_tools and "tavilyExtract" not in called_tools:
        return Answer(calls=(ToolCall.of("tavilyExtract", urls=urls),))
    return _findings(request, query)


def _findings(request: ChatRequest, query: Query) -> Answer:
    findings = write_findings(query, collect_pages(request), _failed_calls(request))
    return Answer(_numbers_alone(findings) if FILLED_IN in request.rules else findings)


FILLED_IN = "titles and addresses are filled in"
"""Where the instructions say so, the document has the numbers of sentences alone."""
HEAD = re.compile(r"^(?:#.*|Source: .*|Published: .*)\n+", re.MULTILINE)


def _numbers_alone(findings: str) -> str:
    """The document without headings and addresses, if it has no sentence without a number."""
    return findings if re.search(r"^- ", findings, re.MULTILINE) else HEAD.sub("", findings).strip()


def _search_calls(query: Query) -> tuple[ToolCall, ...]:
    return tuple(
        ToolCall.of("tavilySearch", query=hint, maxResults=RESULTS_PER_SEARCH)
        for hint in query.hints[:MAX_SEARCHES]
    )


def _failed_calls(request: ChatRequest) -> list[str]:
    return [
        f"{exchange.name} failed: {exchange.error}"
        for exchange in request.exchanges
        if exchange.error
    ]
