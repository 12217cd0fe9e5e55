"""The stages of graph construction: look up, create types, add nodes, resolve duplicates, add edges, report.

The plan is the same in each round. Each round makes the calls of the first unfinished stage that are not made yet.
"""

import json
import re
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from typing import Any

from sandbox.model.construct.entities import parse_sources
from sandbox.model.construct.plan import (
    ExistingGraph,
    GraphPlan,
    PlannedNode,
    make_plan,
    names_to_look_up,
)
from sandbox.model.construct.properties import (
    NODE_SCHEMA,
    example_properties,
    mention_evidence,
    property_evidence,
)
from sandbox.model.construct.relations import PlannedEdge
from sandbox.model.request import Answer, ChatRequest, Exchange, ToolCall, finish_call
from sandbox.text.english import join_with_and
from sandbox.text.tokens import fold, stem, words

LOOKUP_LIMIT = 5


def lookup_calls(names: list[str]) -> list[ToolCall]:
    """List the types, and query the names."""
    return [
        ToolCall.of("listNodeTypes"),
        ToolCall.of("listEdgeTypes"),
        *(ToolCall.of("queryGraph", text=name, limit=LOOKUP_LIMIT) for name in names),
    ]


def node_type_calls(plan: GraphPlan, existing: ExistingGraph) -> list[ToolCall]:
    """Create the missing node types, each with its first node as example."""
    missing: dict[str, PlannedNode] = {}
    for node in plan.nodes:
        if node.kind.name not in existing.node_types:
            missing.setdefault(node.kind.name, node)
    return [
        ToolCall.of(
            "createNodeType",
            name=name,
            description=node.kind.description,
            propertiesSchema=NODE_SCHEMA,
            exampleProperties=example_properties(node.properties),
            justification=f"No existing node type fits {node.name}.",
        )
        for name, node in missing.items()
    ]


def edge_type_calls(plan: GraphPlan, existing: ExistingGraph) -> list[ToolCall]:
    """Create the missing edge types."""
    missing = {
        edge.type: edge for edge in reversed(plan.edges) if edge.type not in existing.edge_types
    }
    return [
        ToolCall.of(
            "createEdgeType",
            name=name,
            description=missing[name].description,
            justification="No existing edge type describes how the sentence relates the two.",
        )
        for name in sorted(missing)
    ]


def node_calls(plan: GraphPlan, existing: ExistingGraph) -> list[ToolCall]:
    """Add all nodes in one message, which saves rounds."""
    return [
        ToolCall.of(
            "addGraphNode",
            type=existing.existing_type_name(node.kind.name),
            name=node.name,
            properties=node.properties,
            evidence=property_evidence(node.property_values),
        )
        for node in plan.nodes
    ]


def edge_calls(plan: GraphPlan, ids: Mapping[str, str], existing: ExistingGraph) -> list[ToolCall]:
    """Add edges whose ends exist and have allowed types."""
    kinds = {key: node.type for key, node in plan.known.items()}
    kinds |= {node.key: node.kind.name for node in plan.nodes}
    return [
        ToolCall.of(
            "addGraphEdge",
            type=existing.existing_type_name(edge.type),
            sourceId=ids[edge.source],
            targetId=ids[edge.target],
            properties={"figure": edge.figure} if edge.figure else {},
            evidence=[mention_evidence(edge.mention)],
        )
        for edge in plan.edges
        if edge.mention.source.url
        and edge.source in ids
        and edge.target in ids
        and _is_allowed(edge, kinds, existing)
    ]


def _is_allowed(edge: PlannedEdge, kinds: Mapping[str, str], existing: ExistingGraph) -> bool:
    stated = existing.edge_types.get(edge.type, {})
    sources, targets = stated.get("sourceTypes") or [], stated.get("targetTypes") or []
    return (not sources or kinds.get(edge.source) in sources) and (
        not targets or kinds.get(edge.target) in targets
    )


DUPLICATE_QUESTION = re.compile(r"\bdistinctFrom\b")
CANDIDATE = re.compile(r'\[(?:node:)?([0-9a-f-]{36}|n\d+)\] ("(?:[^"\\]|\\.)*")')


def duplicate_decisions(request: ChatRequest) -> list[ToolCall]:
    """Answer each question on duplicates: add the node under the existing name, or as distinct from all candidates."""
    return [
        ToolCall.of("addGraphNode", **{**question.arguments, **_decision(question)})
        for question in _duplicate_questions(request)
    ]


def resolved_names(request: ChatRequest) -> dict[str, str]:
    """Map the key of each requested name to the key of the name it was added under."""
    return {
        fold(str(question.arguments.get("name"))): fold(str(decision["name"]))
        for question in _duplicate_questions(request)
        if "name" in (decision := _decision(question))
    }


def _duplicate_questions(request: ChatRequest) -> Iterator[Exchange]:
    for exchange in request.exchanges:
        if exchange.name == "addGraphNode" and DUPLICATE_QUESTION.search(exchange.error):
            yield exchange


def _decision(question: Exchange) -> dict[str, object]:
    """A candidate is the same if its name has the same words, in any order. The page's spelling becomes an alias."""
    candidates = [
        (node_id, str(json.loads(name))) for node_id, name in CANDIDATE.findall(question.error)
    ]
    spelling = str(question.arguments.get("name"))
    for _, name in candidates:
        if _stems(name) == _stems(spelling):
            return {"name": name, "aliases": [spelling]}
    return {"distinctFrom": [node_id for node_id, _ in candidates]}


def _stems(name: str) -> frozenset[str]:
    return frozenset(stem(word) for word in words(name))


def construct(request: ChatRequest) -> Answer:
    """Answer with the calls of the first unfinished stage, or with a short report."""
    sources = parse_sources(request.section("document"))
    if not sources:
        return Answer("The document contains nothing that could become a node.")
    existing = ExistingGraph(request)
    objective = request.section("query") or request.mission
    plan = make_plan(sources, objective, existing, request.mission)
    if finish := finish_call(request):
        return _construct_at_once(request, plan, existing, finish)
    stages: list[Callable[[], list[ToolCall]]] = [
        lambda: (
            []
            if request.exchanges
            else lookup_calls(names_to_look_up(sources, objective, existing, request.mission))
        ),
        lambda: node_type_calls(plan, existing) + edge_type_calls(plan, existing),
        lambda: node_calls(plan, existing),
        lambda: duplicate_decisions(request),
        lambda: edge_calls(plan, _node_ids(request, plan), existing),
    ]
    finished = {_identity(exchange.name, exchange.arguments) for exchange in request.exchanges}
    for stage in stages:
        open_calls = [
            call
            for call in stage()
            if _identity(call.name, json.loads(call.arguments)) not in finished
        ]
        callable_now = tuple(call for call in open_calls if call.name in request.callable_tools)
        if callable_now:
            return Answer(calls=callable_now)
    return Answer(_report(request))


MAX_TRIES = 2
"""How often a refused edge is added: its ends may have been refused too."""


def _construct_at_once(
    request: ChatRequest, plan: GraphPlan, existing: ExistingGraph, finish: tuple[ToolCall, ...]
) -> Answer:
    """Types, nodes and edges in one answer; then what was refused, with the answers to questions on duplicates."""
    names = {key: node.name for key, node in plan.known.items()}
    names |= {node.key: node.name for node in plan.nodes}
    names |= {key: names.get(name, name) for key, name in resolved_names(request).items()}
    planned = [
        *node_type_calls(plan, existing),
        *edge_type_calls(plan, existing),
        *node_calls(plan, existing),
        *duplicate_decisions(request),
        *edge_calls(plan, names, existing),
    ]
    calls = [_compact(request, call) for call in planned]
    tries = Counter(_identity(exchange.name, exchange.arguments) for exchange in request.exchanges)
    written = {
        _identity(exchange.name, exchange.arguments)
        for exchange in request.exchanges
        if not exchange.error
    }

    def is_open(call: ToolCall) -> bool:
        identity = _identity(call.name, json.loads(call.arguments))
        most = MAX_TRIES if call.name == "addGraphEdge" else 1
        return identity not in written and tries[identity] < most

    open_calls = [call for call in calls if is_open(call) and call.name in request.callable_tools]
    return Answer(calls=(*open_calls, *finish))


def _compact(request: ChatRequest, call: ToolCall) -> ToolCall:
    """The call with `sentences` in place of evidence, if it has one entry and the tool takes them."""
    arguments = json.loads(call.arguments)
    match arguments.get("evidence"):
        case [{"page": page, "sentences": numbers, **others}] if not others:
            if request.has_parameter(call.name, "sentences"):
                del arguments["evidence"]
                arguments["sentences"] = [f"{page}.{number}" for number in numbers]
    if not arguments.get("properties", True):
        del arguments["properties"]
    return ToolCall.with_arguments(call.name, arguments)


def _identity(name: str, arguments: Mapping[str, Any]) -> str:
    return f"{name} {json.dumps(arguments, sort_keys=True)}"


def _node_ids(request: ChatRequest, plan: GraphPlan) -> dict[str, str]:
    """Ids by key, of existing and newly added nodes."""
    ids = {key: node.id for key, node in plan.known.items()}
    for exchange in request.results("addGraphNode"):
        node_id = (exchange.result or {}).get("nodeId")
        if node_id:
            ids[fold(str(exchange.arguments.get("name", "")))] = str(node_id)
    same = resolved_names(request)
    return ids | {key: ids[name] for key, name in same.items() if name in ids}


def _report(request: ChatRequest) -> str:
    """The report: how many of each were written, and the errors."""
    counts = Counter(
        exchange.name
        for exchange in request.exchanges
        if exchange.result and not exchange.error and exchange.result.get("created", True)
    )
    names = [
        f"{counts[tool]} {label}"
        for tool, label in (
            ("addGraphNode", "new nodes"),
            ("addGraphEdge", "new edges"),
            ("createNodeType", "new node types"),
            ("createEdgeType", "new edge types"),
        )
        if counts[tool]
    ]
    errors = [
        f"{exchange.name} was refused: {exchange.error}"
        for exchange in request.exchanges
        if exchange.error
    ]
    summary = (
        f"Wrote {join_with_and(names)} from the document."
        if names
        else "The document added nothing to the graph."
    )
    return "\n".join([summary, *errors])
