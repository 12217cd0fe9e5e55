"""The rounds of a graph construction: from a document to what is asked for next."""

import json
from typing import Any

from tests.support.sandbox.asking import (
    CONSTRUCTION,
    EMPTY_GRAPH,
    Body,
    answer,
    followed,
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


def looked(
    asked: Body, node_types: list[Any] | None = None, nodes: list[Any] | None = None
) -> Body:
    """After the first round: what there is."""
    given = answer(asked)
    found = {
        "listNodeTypes": {"nodeTypes": node_types or []},
        "listEdgeTypes": {"edgeTypes": []},
        "queryGraph": {"nodes": nodes or [], "edges": []},
    }
    return followed(asked, given, [found[call.name] for call in given.calls])


def made_types(asked: Body) -> Body:
    given = answer(asked)
    return followed(
        asked, given, [{"name": json.loads(call.arguments)["name"]} for call in given.calls]
    )


def added_nodes(asked: Body) -> Body:
    given = answer(asked)
    ids = [f"00000000-0000-4000-8000-{number:012}" for number in range(len(given.calls))]
    return followed(asked, given, [{"nodeId": one, "created": True} for one in ids])
