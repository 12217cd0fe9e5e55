"""The time of reading foreign text grows with its length alone, whatever it says."""

from collections.abc import Callable
from contextlib import suppress
from itertools import pairwise
from typing import Any, Final

import pytest

from shared.fetch.client import Fetched, FetchError
from shared.fetch.feeds import parse_feed
from shared.fetch.pages import page_content
from shared.graph.provenance.page_reading import MAX_SENTENCE_CHARS, find_sentences
from tests.support.pumped import MAX_SECONDS, public_functions, readers_of, seconds_of, slowest

PAGE_CHARS: Final = 20_000
"""The longest page of a search service that is stored."""
SENTENCE_CHARS: Final = 4 * MAX_SENTENCE_CHARS
"""Longest text that is read sentence by sentence, with a margin: evidence of earlier releases has longer quotes."""
READ_WHOLE: Final = (
    "shared.graph.grounding.words",
    "shared.graph.provenance.page_reading",
    "shared.graph.provenance.numbered_pages",
)
READ_IN_PARTS: Final = (
    "shared.graph.grounding.dates",
    "shared.graph.grounding.quantities",
    "shared.graph.grounding.names",
    "shared.graph.grounding.passages",
    "shared.graph.grounding.values",
    "shared.graph.grounding.date_rules",
    "shared.graph.grounding.figure_rules",
    "shared.graph.grounding.name_rules",
    "shared.graph.conclusions.figures",
    "shared.graph.provenance.claims",
    "shared.graph.provenance.validity",
    "shared.graph.provenance.sources",
    "shared.graph.entity_resolution.normalization",
    "shared.graph.entity_resolution.candidates",
    "shared.graph.conclusions.citations",
    "shared.domains",
    "shared.urls",
    "shared.agents.model_choice",
    "shared.fetch.client",
    "shared.fetch.addresses",
)
NO_TEXT: Final = {
    "shared.graph.entity_resolution.candidates.most_similar": "names and their nodes",
    "shared.graph.entity_resolution.candidates.refuse_undecided": "nodes",
    "shared.graph.entity_resolution.candidates.contradiction_text": "facts",
    "shared.graph.entity_resolution.candidates.read_names": "rows",
    "shared.graph.grounding.passages.read": "as values.check_element",
    "shared.graph.grounding.date_rules.clause_around": "places in a sentence",
    "shared.graph.grounding.passages.instead": "values, of which it shows five",
    "shared.graph.grounding.quantities.to_decimal": "a number",
    "shared.graph.grounding.figure_rules.is_same": "numbers that were found",
    "shared.graph.conclusions.figures.claimed_dates": "as figures.known_values",
    "shared.graph.conclusions.figures.matching": "numbers that were found",
    "shared.graph.provenance.validity.last_moment": "a time",
    "shared.graph.grounding.names.is_of_date": "a word",
    "shared.graph.grounding.words.alternatives": "words of the tables",
    "shared.graph.conclusions.citations.replace_citations": "as parse_citations, with a function",
    "shared.graph.provenance.claims.current_claims": "claims",
    "shared.graph.provenance.claims.upcoming_claims": "claims",
    "shared.graph.provenance.claims.project_properties": "claims",
    "shared.graph.provenance.claims.apply_claims": "claims",
    "shared.graph.provenance.claims.is_dated_by_reading": "dates",
    "shared.graph.provenance.page_reading.remember_reading": "what another process has read",
    "shared.graph.provenance.sources.remember_pages": "rows",
    "shared.graph.provenance.sources.pages_query": "addresses",
    "shared.graph.provenance.sources.known_pages": "addresses",
    "shared.graph.provenance.sources.page_storing": "what its look-ups have found",
    "shared.graph.provenance.sources.page_reading": "rows",
    "shared.fetch.addresses.refusal": "an address that was parsed",
}
"""Public functions of these modules that read no foreign text, and what they read."""
LONG: Final = {
    "shared.graph.conclusions.figures.read_sentences",
    "shared.graph.grounding.values.check_element",
    "shared.graph.grounding.quantities.find_quantities",
}
"""Functions whose texts take seconds, although their time is linear."""


def _cases(packages: tuple[str, ...], chars: int) -> list[Any]:
    return [
        pytest.param(function, chars, id=name, marks=pytest.mark.slow if name in LONG else ())
        for name, function in public_functions(packages)
        if name not in NO_TEXT
    ]


@pytest.mark.parametrize(
    ("function", "chars"),
    [*_cases(READ_WHOLE, PAGE_CHARS), *_cases(READ_IN_PARTS, SENTENCE_CHARS)],
)
def test_reading_takes_linear_time(function: Callable[..., Any], chars: int) -> None:
    for read in readers_of(function):
        assert slowest(read, chars) == []


MIB: Final = 1024**2
HTML: Final = {
    "cells in MathML": "<math>" + "<td>" * 20_000 + "<input/>" * 20_000,
    "few deep cells": "<math>" + "<td>" * 2_900 + "<input/>" * 190_000,
    "blocks": "<div>" * (4 * MIB // 5),
    "ends of nothing": "<b>" * 2_900 + "</p>" * 190_000,
    "ends of others": "<b></p>" * (4 * MIB // 7),
    "varying": "<nav></nav>" * 99_000,
    "varying in varying": "<nav>" * 2_900 + "<time></time>" * 90_000,
    "text": "a " * (2 * MIB),
    "blanks": " " * (4 * MIB),
    "signs": "<" * (4 * MIB),
    "comments": "<!---->" * (4 * MIB // 7),
    "links": "<link rel=alternate type=application/rss+xml href=a>" * 80_000,
    "graphics": "<svg>" + "<g>" * 2_900 + "<path/>" * 90_000,
}
FEEDS: Final = {
    "items": "<rss>" + "<item><link>https://e.example/</link></item>" * 90_000 + "</rss>",
    "items in items": "<rss>" + "<item>" * 90_000 + "</item>" * 90_000 + "</rss>",
    "deep title": "<rss><item><title>"
    + "<a>" * 500_000
    + "</a>" * 500_000
    + "</title></item></rss>",
    "children": "<rss><item>" + "<a/>" * 900_000 + "</item></rss>",
    "deep under the limit": "<rss><item>"
    + ("<a>" * 190 + "x" + "</a>" * 190) * 1_000
    + "</item></rss>",
    "text": "<rss><item><title>" + "a " * (2 * MIB) + "</title></item></rss>",
}


@pytest.mark.parametrize("body", [pytest.param(body, id=name) for name, body in HTML.items()])
def test_the_largest_pages_are_compared_in_seconds(body: str) -> None:
    page = Fetched("https://e.example/", body.encode(), "text/html", "utf-8")
    assert seconds_of(lambda: page_content(page)) < 2 * MAX_SECONDS


@pytest.mark.parametrize("body", [pytest.param(body, id=name) for name, body in FEEDS.items()])
def test_the_largest_feeds_are_read_in_seconds(body: str) -> None:
    def read() -> None:
        with suppress(FetchError):  # a feed that has too much is refused
            parse_feed(body.encode(), "https://e.example/feed")

    assert seconds_of(read) < 2 * MAX_SECONDS


@pytest.mark.parametrize(
    "line",
    [
        "word " * 3_000,
        "x" * 9_000,
        "a" + " " * 9_000 + "b",
        "Größe: " + "ä" * 5_000 + " " + "ö" * 5_000,
        "A. " * 3_000,
    ],
)
def test_a_long_sentence_is_cut_between_words(line: str) -> None:
    spans = list(find_sentences(line))
    assert all(0 < end - start <= MAX_SENTENCE_CHARS for start, end in spans)
    assert "".join(line[start:end] for start, end in spans).replace(" ", "") == line.replace(
        " ", ""
    )
    assert all(line[start:end] == line[start:end].strip() for start, end in spans)
    assert all(first[1] <= second[0] for first, second in pairwise(spans))
