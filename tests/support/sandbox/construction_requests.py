"""The requests of a graph construction, each built from the request of the previous round."""

import json
from typing import Any

from tests.support.sandbox.requests import (
    CONSTRUCTION,
    EMPTY_GRAPH,
    Body,
    answer,
    next_request,
    query_section,
    request,
)

OBJECTIVE = "Find out about exports of Ghana"
DOCUMENT = """\
# Find out about exports of Ghana

## Ghana: Economy
Source: https://press.example/ghana
Published: 2026-01-02

- Ghana — Economic overview: West African economy; major gold exporter.
- Ghana — Exports 2023: $25.365 billion (2023 est.).
- Ghana — Exports - partners: Switzerland 24%, UAE 18% (2023).
- Ghana — Exports - commodities: gold, crude petroleum, cocoa beans (2023).
- Ghana's President John Dramani MAHAMA met the Bank of England in Accra.
"""


def body(document: str = DOCUMENT, graph: str = EMPTY_GRAPH) -> Body:
    sections = {
        "mission": "Watch exports",
        "query": query_section(OBJECTIVE, "Ghana exports"),
        "document": document,
        "graph_context": graph,
    }
    return request(sections, CONSTRUCTION)


def request_after_lookups(
    request_body: Body, node_types: list[Any] | None = None, nodes: list[Any] | None = None
) -> Body:
    """The request after the lookups of the first round."""
    reply = answer(request_body)
    results = {
        "listNodeTypes": {"nodeTypes": node_types or []},
        "listEdgeTypes": {"edgeTypes": []},
        "queryGraph": {"nodes": nodes or [], "edges": []},
    }
    return next_request(request_body, reply, [results[call.name] for call in reply.calls])


def request_after_types(request_body: Body) -> Body:
    reply = answer(request_body)
    return next_request(
        request_body, reply, [{"name": json.loads(call.arguments)["name"]} for call in reply.calls]
    )


def request_after_nodes(request_body: Body) -> Body:
    reply = answer(request_body)
    ids = [f"00000000-0000-4000-8000-{number:012}" for number in range(len(reply.calls))]
    return next_request(
        request_body, reply, [{"nodeId": node_id, "created": True} for node_id in ids]
    )
