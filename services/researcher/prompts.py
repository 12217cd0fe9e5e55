"""Prompts of the Researcher's two phases."""

from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Final

from shared.events.models import Query
from shared.graph.validation import one_line
from shared.llm.messages import DATA_ONLY, now_line, wrap_section
from shared.workflow.questions import question_key

ACQUISITION_RULES: Final = f"""\
Find out what the objective asks. Read the addresses that it names; otherwise search. Read whole pages where passages do \
not settle it, and use research only where many pages must be weighed. Prefer primary and recent sources, and two for \
figures that matter. `known` is what the graph says: find what is newer or differs.

Then answer with the numbers of the sentences that bear on the objective, a line for each page, the best first:
[2.1] [2.4] [2.6-8]
Include all sides where pages differ, who says it, and what a figure is about. Type no sentence: the words are filled in. \
Only if the pages do not settle the objective, end with a line `Not found: ` that says what is missing.
{DATA_ONLY}"""

CONSTRUCTION_RULES: Final = f"""\
Write the document into the knowledge graph in one answer: types, nodes, edges, then `finish`.
- A node is one thing: an organisation, a place, a product, an event, a measure, a statement. `summary` is one sentence, \
and each figure a property. The name of an event, measure or statement is free text.
- An edge is a relation that the document states. It can join nodes of this answer.
- Use the types of the graph context. Create a type only if none fits.
- Write to the nodes in `known_nodes` under their type and name.
- Cite the sentences that state it: `sentences` ["2.3", "2.5"] are sentences 3 and 5 of page 2. `evidence` has them by \
property.
- Give figures, units and names as the sentences do; a date may be completed from that of its page. What they do not have \
is left out, the rest written: do not call again for it.
- Correct a refused call as the result says, or leave the fact out.
{DATA_ONLY}"""


_NOT_FOUND_REQUEST: Final = (
    "End with a line such as `Not found 1: ` for each request that the pages do not settle."
)
_LIST_FACTS = f"""\
Nothing is in the graph yet. List the sentences above that say something about the query, the most important first: the \
number of each, the name of the one thing that it is about, and the type of that thing, one of those above. If none does, \
answer with an empty list.
{DATA_ONLY}"""


def facts_message(
    mission: str, query: Query, pages: Mapping[str, Sequence[str]], node_types: Sequence[str]
) -> str:
    """Asks for facts by the numbers of the sentences. `pages` has lines of numbered sentences by address.

    They are in the form of documents, so that a page that the provider refuses can be left out.
    """
    blocks = [
        "\n".join([f"## Page {place}", f"Source: {url}", *lines])
        for place, (url, lines) in enumerate(pages.items(), start=1)
    ]
    return "\n\n".join(
        [
            wrap_section("mission", mission),
            wrap_section("query", _describe_query(query)),
            wrap_section("node_types", "\n".join(f"- {name}" for name in node_types)),
            wrap_section("sentences", "\n\n".join(blocks)),
            _LIST_FACTS,
        ]
    )


def acquisition_message(
    mission: str,
    query: Query,
    pages_read: str,
    known: str,
    now: datetime,
    requests: Sequence[str] = (),
) -> str:
    """`known`: what the graph says of what the query names. `requests`: what the query is to answer."""
    return "\n\n".join(
        [
            wrap_section("mission", mission),
            *([wrap_section("graph_context", pages_read)] if pages_read else []),
            wrap_section("query", _describe_query(query, requests)),
            *([wrap_section("known", known)] if known else []),
            now_line(now),
        ]
    )


def construction_message(
    mission: str,
    query: Query,
    document: str,
    sources: str,
    graph_context: str,
    known_nodes: str,
    now: datetime,
) -> str:
    """`sources`: the pages, if the document names none. `known_nodes`: nodes whose names it mentions."""
    return "\n\n".join(
        [
            wrap_section("mission", mission),
            wrap_section("graph_context", graph_context),
            wrap_section("query", _describe_query(query)),
            wrap_section("document", document),
            *([wrap_section("sources", sources)] if sources else []),
            wrap_section("known_nodes", known_nodes or "none"),
            now_line(now),
        ]
    )


def _describe_query(query: Query, requests: Sequence[str] = ()) -> str:
    """`requests` are listed with their numbers, unless the objective is the only one."""
    lines = [f"Objective: {one_line(query.objective)}", f"Reasoning: {one_line(query.reasoning)}"]
    if any(question_key(request) != question_key(query.objective) for request in requests):
        numbered = (f"{number}. {one_line(text)}" for number, text in enumerate(requests, 1))
        lines += ["Requests that it is to answer:", *numbered, _NOT_FOUND_REQUEST]
    return "\n".join(
        [*lines, "Search hints:", *(f"- {one_line(hint)}" for hint in query.search_hints)]
    )
