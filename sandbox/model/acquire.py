"""The knowledge acquisition phase: search, extract pages with gaps, cite the labelled lines that fit the objective."""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from sandbox.model.request import Answer, ChatRequest, ToolCall
from sandbox.model.sheets import RELATED_WORDS
from sandbox.text.labels import parse_label, subject_of
from sandbox.text.missions import parse_mission
from sandbox.text.tokens import shorten, topic_stems

OBJECTIVE = re.compile(r"^Objective:\s*(.+)$", re.MULTILINE)
HINTS = re.compile(r"^Search hints:\s*\n((?:\s*-.*(?:\n|\Z))+)", re.MULTILINE)
URL = re.compile(r"https?://[^\s,()]+(?<![.;:])")
NUMBERED = re.compile(r"^\[(\d+\.\d+)\] (.+)$", re.MULTILINE)
"""A numbered sentence of a page: `[2.3] sentence`."""
CUT_MARK = "…"
"""Marks an omission in a passage."""
MAX_HINT_CHARS = 300
MAX_URLS = 5
MAX_SEARCHES = 3
MAX_EXTRACTS = 3
RESULTS_PER_SEARCH = 8
MAX_LINES = 12
"""The most lines that a document cites of one page."""
CLEAR_SCORE = 0.5
MIN_SHARES = {True: 0.66, False: 0.4}
"""The share of the best page's score that a page has at least, if the best one reaches CLEAR_SCORE or not."""


@dataclass(frozen=True, slots=True)
class Page:
    """A page, as far as it was fetched: the number and text of each sentence."""

    title: str
    url: str
    score: float
    lines: Sequence[tuple[str, str]]
    is_complete: bool


def acquire(request: ChatRequest) -> Answer:
    """Search, or read the pages that the objective names; then extract; then cite."""
    section = request.section("query")
    stated = OBJECTIVE.search(section)
    objective = stated[1].strip() if stated else section or request.mission
    listed = HINTS.search(section)
    hints = [line.strip(" -") for line in listed[1].splitlines()] if listed else [objective]
    urls = list(dict.fromkeys(URL.findall(objective)))[:MAX_URLS]
    called = {exchange.name for exchange in request.exchanges}
    pages = _pages(request, named=urls)
    if urls and not called and "tavilyExtract" in request.callable_tools:
        return Answer(calls=(ToolCall.of("tavilyExtract", urls=urls),))
    has_read_named = bool(urls) and called == {"tavilyExtract"} and bool(pages)
    if not has_read_named:
        if "tavilySearch" in request.callable_tools and "tavilySearch" not in called:
            queries = [shorten(hint, MAX_HINT_CHARS) for hint in hints[:MAX_SEARCHES] if hint]
            return Answer(
                calls=tuple(
                    ToolCall.of("tavilySearch", query=query, maxResults=RESULTS_PER_SEARCH)
                    for query in queries
                )
            )
        gaps = [page.url for page in pages if not page.is_complete][:MAX_EXTRACTS]
        if gaps and "tavilyExtract" in request.callable_tools and "tavilyExtract" not in called:
            return Answer(calls=(ToolCall.of("tavilyExtract", urls=gaps),))
    # Of a page that is to be read, what the mission asks about.
    about = request.mission if urls else objective
    return Answer(_findings(request, about, pages, is_named=bool(urls)))


def _pages(request: ChatRequest, named: Sequence[str]) -> list[Page]:
    """The pages of all searches, best first; of those that were extracted, all of their text."""
    pages: dict[str, Page] = {}
    for exchange in request.results("tavilySearch"):
        for result in exchange.items("results"):
            page = _page(result)
            if page.url not in pages or page.score > pages[page.url].score:
                pages[page.url] = page
    for exchange in request.results("tavilyExtract"):
        for result in exchange.items("results"):
            page = _page(result)
            found = pages.get(page.url, page)
            pages[page.url] = replace(found, lines=page.lines or found.lines, is_complete=True)
    best = max((page.score for page in pages.values()), default=0.0)
    selected = [
        page
        for page in pages.values()
        if page.url in named or page.score >= best * MIN_SHARES[best >= CLEAR_SCORE]
    ]
    return sorted(selected, key=lambda page: -page.score)


def _page(result: Mapping[str, Any]) -> Page:
    url, text = str(result.get("url") or ""), str(result.get("content") or "")
    return Page(
        str(result.get("title") or url),
        url,
        float(result.get("score") or 0.0),
        NUMBERED.findall(text),
        CUT_MARK not in text,
    )


def _findings(request: ChatRequest, about: str, pages: Sequence[Page], *, is_named: bool) -> str:
    """The numbers of the lines whose labels have words of `about`.

    Those of all figures if it names no topic, or pages are read because of their addresses.
    """
    names = topic_stems(" ".join(parse_mission(about).names))
    titled = [page for page in pages if names & topic_stems(subject_of(page.title))]
    topic = set(topic_stems(about) - names)
    topic |= {word for each in topic for word in RELATED_WORDS.get(each, "").split()}
    attempts: list[tuple[Sequence[Page], frozenset[str] | None]] = [
        (pages if is_named else titled or pages, frozenset(topic))
    ]
    if is_named or not topic or not titled:
        attempts += [(titled, None), (pages, None)]
    fitting: list[list[str]] = []
    for readable, stems in attempts:
        if not any(fitting):
            fitting = [_fitting(page, stems) for page in readable]
    lines = [" ".join(f"[{number}]" for number in numbers) for numbers in fitting if numbers]
    errors = [f"{each.name} failed: {each.error}" for each in request.exchanges if each.error]
    missing = [] if lines else ["Not found: labelled figures on the objective."]
    return "\n".join([*lines, *missing, *errors])


def _fitting(page: Page, topic: frozenset[str] | None) -> list[str]:
    """The numbers of labelled lines: the best labels, in their order. None takes every figure."""
    weights: dict[str, int] = {}
    for number, text in page.lines:
        line = parse_label(text)
        if line is None or line.label.lower().endswith("note"):
            continue
        shared = len(topic & topic_stems(line.label)) if topic is not None else bool(line.figure)
        is_overview = line.label.lower().endswith("overview")
        if shared and (line.figure or line.entries or is_overview):
            weights[number] = shared
    best = sorted(weights, key=lambda number: -weights[number])[:MAX_LINES]
    return [number for number in weights if number in best]
