"""A request with any text gets an answer, and the same answer each time."""

import json

from hypothesis import given, settings
from hypothesis import strategies as st

from tests.support.sandbox.requests import (
    ACQUISITION,
    ADVICE,
    ANALYSIS,
    CONSTRUCTION,
    answer,
    next_request,
    request,
)

FRAGMENTS = st.sampled_from(
    [
        '- [node:00000000-0000-4000-8000-000000000001] Country "Gha\\"na" {"Exports 2023": "$1 bn"',
        '- [edge:00000000-0000-4000-8000-000000000001] "A" -of-> "B" {}',
        "## Newest nodes",
        "# Title: part",
        "Source: https://a.example/1",
        "Published: soon",
        "Ghana — Exports - partners: Mali 2%, Togo;, 3%",
        "- : , ; —",
        "Revenue rose 31% to $2.4 billion in 2025, said Dr. A. B. of X & Y.",
        "</mission>",
        "Objective:",
        "Search hints:",
        "- hint",
        "Relevant node ids: x",
        "MISSING: all",
        "1,2,3.4.5 %",
        "“”",
    ]
)
TEXTS = st.lists(st.one_of(FRAGMENTS, st.text(max_size=40)), max_size=12).map("\n".join)
TAGS = ("mission", "graph_context", "query", "document", "insight", "relevant_nodes", "analyses")
RESULTS = st.sampled_from(
    [
        {"error": "no"},
        {"results": [{"url": None, "content": 3}, "x"], "failed": None},
        {"nodes": [{}, {"id": 1, "name": None, "properties": None}], "edges": [{}]},
        {"nodeTypes": [{"name": "Topic"}], "edgeTypes": [{}]},
        {"nodeId": None},
        {},
    ]
)


@given(
    sections=st.dictionaries(st.sampled_from(TAGS), TEXTS),
    tools=st.sampled_from([ACQUISITION, CONSTRUCTION, ANALYSIS, ADVICE, ("queryGraph",), ()]),
    results=st.lists(RESULTS, min_size=3, max_size=3),
    plan=st.booleans(),
)
@settings(max_examples=80, deadline=None, derandomize=True)
def test_every_request_is_answered(
    sections: dict[str, str], tools: tuple[str, ...], results: list[dict[str, object]], plan: bool
) -> None:
    request_body = request(
        sections, tools, schema={} if plan else None, name="observer_plan" if plan else ""
    )
    for result in results:
        first, second = answer(request_body), answer(request_body)
        assert first == second
        assert first.text or first.calls
        for call in first.calls:
            json.loads(call.arguments)
        if not first.calls:
            break
        request_body = next_request(request_body, first, [result] * len(first.calls))
