"""Look, make the types that lack, add the nodes, add the edges, then say what was done.

The plan is the same in every round; each round makes those calls of the first open stage that have not been made yet.
"""

import json
from collections import Counter
from collections.abc import Callable, Mapping
from typing import Any

from sandbox.reader.answer import Answer, ToolCall
from sandbox.reader.construct.calls import (
    add_edges,
    add_nodes,
    create_edge_types,
    create_node_types,
    look,
)
from sandbox.reader.construct.doubles import decided, found_to_be
from sandbox.reader.construct.existing import Existing
from sandbox.reader.construct.plan import GraphPlan, make_plan, names_to_look_up
from sandbox.reader.construct.sources import parse_sources
from sandbox.reader.request import ChatRequest
from sandbox.text.english import listed
from sandbox.text.words import fold


def construct(request: ChatRequest) -> Answer:
    """Calls while a stage is open, then a short report."""
    sources = parse_sources(request.section("document"))
    if not sources:
        return Answer("The document states nothing that could become a node.")
    existing = Existing(request)
    objective = request.section("query") or request.mission
    plan = make_plan(sources, objective, existing)
    stages: list[Callable[[], list[ToolCall]]] = [
        lambda: [] if request.exchanges else look(names_to_look_up(sources, objective, existing)),
        lambda: create_node_types(plan, existing) + create_edge_types(plan, existing),
        lambda: add_nodes(plan, existing),
        lambda: decided(request),
        lambda: add_edges(plan, _node_ids(request, plan), existing),
    ]
    made = {_identity(one.name, one.arguments) for one in request.exchanges}
    for stage in stages:
        left = [
            call for call in stage() if _identity(call.name, json.loads(call.arguments)) not in made
        ]
        callable_now = tuple(call for call in left if call.name in request.tools)
        if callable_now:
            return Answer(calls=callable_now)
    return Answer(_report(request))


def _identity(name: str, arguments: Mapping[str, Any]) -> str:
    return f"{name} {json.dumps(arguments, sort_keys=True)}"


def _node_ids(request: ChatRequest, plan: GraphPlan) -> dict[str, str]:
    """Ids by the keys of nodes: those that exist, and those that were just added."""
    ids = {key: node.id for key, node in plan.known.items()}
    for one in request.results("addGraphNode"):
        node_id = (one.result or {}).get("nodeId")
        if node_id:
            ids[fold(str(one.arguments.get("name", "")))] = str(node_id)
    same = found_to_be(request)
    return ids | {key: ids[name] for key, name in same.items() if name in ids}


def _report(request: ChatRequest) -> str:
    """How many of each were written, and what was refused, in its own words."""
    done = Counter(
        one.name
        for one in request.exchanges
        if one.result and not one.refused and one.result.get("created", True)
    )
    names = [
        f"{done[tool]} {thing}"
        for tool, thing in (
            ("addGraphNode", "new nodes"),
            ("addGraphEdge", "new edges"),
            ("createNodeType", "new node types"),
            ("createEdgeType", "new edge types"),
        )
        if done[tool]
    ]
    refused = [f"{one.name} was refused: {one.refused}" for one in request.exchanges if one.refused]
    written = (
        f"Wrote {listed(names)} from the document."
        if names
        else "Nothing of the document was new to the graph."
    )
    return "\n".join([written, *refused])
