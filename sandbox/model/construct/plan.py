"""The nodes and edges that a document yields. Each round of a request computes the same plan again."""

import re
from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from sandbox.model.construct.entities import Candidate, Mention, Source, find_candidates
from sandbox.model.construct.kinds import Kind, classify
from sandbox.model.construct.properties import (
    PropertyValue,
    fit_to_schema,
    node_properties,
    plain_values,
    select_values,
    with_evidence,
)
from sandbox.model.construct.relations import PlannedEdge, plan_edges
from sandbox.model.graph_view import OWN_TYPES, GraphView
from sandbox.model.request import ChatRequest
from sandbox.text.missions import parse_mission
from sandbox.text.tokens import fold, stem, topic_stems, words


@dataclass(frozen=True, slots=True)
class KnownNode:
    """An existing node."""

    id: str
    type: str
    name: str
    properties: Mapping[str, Any]


class ExistingGraph:
    """The existing types and nodes: from the graph context and from tool results."""

    def __init__(self, request: ChatRequest) -> None:
        self._request = request

    @cached_property
    def node_types(self) -> Mapping[str, Mapping[str, Any]]:
        """The JSON Schema of each node type's properties."""
        listed = _entries(self._request, "listNodeTypes", "nodeTypes")
        if not listed:
            return {name: schema for name, _, schema in self._shown_types("node types")}
        return {str(entry.get("name")): entry.get("propertiesSchema") or {} for entry in listed}

    @cached_property
    def edge_types(self) -> Mapping[str, Mapping[str, Any]]:
        """The edge types with their allowed ends."""
        listed = _entries(self._request, "listEdgeTypes", "edgeTypes")
        if not listed:
            return {name: ends for name, ends, _ in self._shown_types("edge types")}
        return {str(entry.get("name")): entry for entry in listed}

    def _shown_types(
        self, heading: str
    ) -> Iterator[tuple[str, Mapping[str, Any], Mapping[str, Any]]]:
        """Name, ends and schema of the types that the context describes."""
        for line in GraphView(self._request.section("graph_context")).lines(heading):
            if match := SHOWN_TYPE.match(line):
                rest = match["rest"] or ""
                ends, _, schema = rest.rpartition("; ") if "; " in rest else ("", "", rest)
                if "->" in schema:
                    ends, schema = schema, ""
                yield match["name"], _parse_ends(ends), _parse_schema(schema)

    @cached_property
    def nodes(self) -> Mapping[str, KnownNode]:
        """Nodes by folded name."""
        nodes: dict[str, KnownNode] = {}
        for entry in _entries(self._request, "queryGraph", "nodes"):
            node = KnownNode(
                str(entry.get("id")),
                str(entry.get("type")),
                str(entry.get("name")),
                entry.get("properties") or {},
            )
            if node.type not in OWN_TYPES:
                nodes.setdefault(fold(node.name), node)
        shown = GraphView(
            self._request.section("graph_context"), self._request.section("known_nodes")
        )
        for view_node in shown.nodes:
            properties = {key: value for key, value in view_node.properties.items() if key != KEYS}
            node = KnownNode(view_node.id, view_node.type, view_node.name, properties)
            nodes.setdefault(fold(node.name), node)
        return nodes

    def existing_type_name(self, name: str) -> str:
        """The name of the existing type for a type to be created; its spelling may differ."""
        return self._created_names.get(name, name)

    @cached_property
    def _created_names(self) -> Mapping[str, str]:
        return {
            str(exchange.arguments.get("name")): str((exchange.result or {}).get("name"))
            for tool in ("createNodeType", "createEdgeType")
            for exchange in self._request.results(tool)
        }

    @cached_property
    def kinds(self) -> Mapping[str, str]:
        """The type of each node by folded name."""
        return {key: node.type for key, node in self.nodes.items()}


def _entries(request: ChatRequest, tool: str, key: str) -> list[Mapping[str, Any]]:
    return [
        entry
        for exchange in request.results(tool)
        for entry in (exchange.result or {}).get(key) or []
        if isinstance(entry, dict)
    ]


SHOWN_TYPE = re.compile(r"^- (?P<name>\w+): .*?(?: \((?P<rest>(?:[^()]|\([^()]*\))*)\))?$")
"""`- Country: A state. (summary*: string, …)`, `- in: It lies there. (Place|Country -> any)`."""
KEYS = "has"
"""Under this key a shown node has the names of its further properties."""


def _parse_ends(text: str) -> Mapping[str, Any]:
    source, _, target = text.partition(" -> ")
    return {
        end: [] if names in ("", "any") else names.split("|")
        for end, names in (("sourceTypes", source), ("targetTypes", target))
    }


def _parse_schema(text: str) -> Mapping[str, Any]:
    """The JSON Schema of which `text` is the short form."""
    parts = [part.rpartition(": ") for part in text.split(", ") if ": " in part]
    return {
        "type": "object",
        "properties": {name.rstrip("*"): _parse_kind(kind) for name, _, kind in parts},
        "required": [name.rstrip("*") for name, _, _ in parts if name.endswith("*")],
        "additionalProperties": "…" in text,
    }


def _parse_kind(text: str) -> Mapping[str, Any]:
    kinds = text.split("|")
    if kinds == ["any"]:
        return {}
    is_type = all(
        kind in {"string", "integer", "number", "boolean", "array", "object"} for kind in kinds
    )
    return {"type": kinds} if is_type else {"enum": kinds}


MAX_NODES = 20
MAX_NODES_PER_SOURCE = 6
"""Minimum; higher if there are few sources."""
FALLBACK_TYPE = "Topic"


@dataclass(frozen=True, slots=True)
class PlannedNode:
    """A node to add. `kind` describes its type if that is new."""

    key: str
    name: str
    kind: Kind
    property_values: Mapping[str, PropertyValue]

    @property
    def properties(self) -> Mapping[str, Any]:
        """The properties as they are written."""
        return plain_values(self.property_values)


@dataclass(frozen=True, slots=True)
class GraphPlan:
    """Planned nodes and edges. Edges refer to planned or known nodes by key."""

    nodes: tuple[PlannedNode, ...]
    known: Mapping[str, KnownNode]
    edges: tuple[PlannedEdge, ...]


def names_to_look_up(
    sources: list[Source], objective: str, existing: ExistingGraph, mission: str = ""
) -> list[str]:
    """Names of candidates, to be looked up in the graph before anything is added."""
    candidates = find_candidates(sources, mission_topics(mission))
    return [
        candidate.name for _, candidate, _ in _candidates_to_write(candidates, objective, existing)
    ]


def mission_topics(mission: str) -> list[str]:
    """The terms of a mission that are common nouns: what sources say of them is written too."""
    terms = parse_mission(mission).terms() if mission else []
    return [term for term in terms if term.islower() and not term.endswith("ed")]


def make_plan(
    sources: list[Source], objective: str, existing: ExistingGraph, mission: str = ""
) -> GraphPlan:
    """Plan the graph. An existing node keeps its type and is written again only if a source is about it."""
    topic = topic_stems(objective)
    candidates = find_candidates(sources, mission_topics(mission))
    nodes = [
        node
        for key, candidate, kind in _candidates_to_write(candidates, objective, existing)
        if (node := _plan_node(key, candidate, kind, topic, existing))
    ]
    linked = {node.key for node in nodes} | (existing.nodes.keys() & candidates.keys())
    kinds = {key: node.type for key, node in existing.nodes.items()}
    kinds |= {node.key: node.kind.name for node in nodes}
    edges = plan_edges({key: candidates[key] for key in candidates if key in linked}, kinds)
    return GraphPlan(tuple(nodes), existing.nodes, tuple(edges))


def _candidates_to_write(
    candidates: dict[str, Candidate], objective: str, existing: ExistingGraph
) -> list[tuple[str, Candidate, Kind]]:
    topic = topic_stems(objective)
    kinds = classify(candidates, existing.kinds)
    specific = {
        key: candidate
        for key, candidate in candidates.items()
        if _is_specific(candidate, kinds[key], topic, is_known=key in existing.nodes)
    }
    return [
        (key, candidates[key], kinds[key])
        for key in _select_keys(specific, topic)
        if candidates[key].is_subject or key not in existing.nodes
    ]


def _is_specific(
    candidate: Candidate, kind: Kind, topic: frozenset[str], *, is_known: bool
) -> bool:
    """Whether a candidate is specific enough: a short name of unknown type needs several sentences, or the objective."""
    if candidate.is_subject or is_known or kind.name != FALLBACK_TYPE:
        return True
    sentences = len({mention.sentence for mention in candidate.mentions})
    if not topic.isdisjoint(topic_stems(candidate.name)):
        return True
    words_in_name = len(candidate.name.split())
    return words_in_name >= 3 or sentences >= 2


def _plan_node(
    key: str, candidate: Candidate, kind: Kind, topic: frozenset[str], existing: ExistingGraph
) -> PlannedNode | None:
    node = existing.nodes.get(key)
    kind = Kind(node.type, kind.description) if node else kind
    name = node.name if node else candidate.name
    property_values = with_evidence(node_properties(candidate, topic, is_known=node is not None))
    if not property_values:
        return None
    schema = existing.node_types.get(kind.name)
    if not schema:
        return PlannedNode(key, name, kind, property_values)
    fitting = fit_to_schema(plain_values(property_values), schema, node.properties if node else {})
    return (
        PlannedNode(key, name, kind, select_values(property_values, fitting)) if fitting else None
    )


def _select_keys(candidates: dict[str, Candidate], topic: frozenset[str]) -> list[str]:
    """Keys of subjects first, then of the names mentioned most in relevant sentences."""
    order = sorted(
        candidates,
        key=lambda key: (not candidates[key].is_subject, -_weight(candidates[key], topic)),
    )
    sources = {candidate.mentions[0].source for candidate in candidates.values()}
    max_per_source = max(MAX_NODES_PER_SOURCE, MAX_NODES // (len(sources) or 1))
    count_by_source: Counter[Source] = Counter()
    selection: list[str] = []
    for key in order:
        source = candidates[key].mentions[0].source
        if count_by_source[source] < max_per_source and len(selection) < MAX_NODES:
            count_by_source[source] += 1
            selection.append(key)
    return selection


def _weight(candidate: Candidate, topic: frozenset[str]) -> float:
    return sum(_mention_weights(candidate.mentions, topic)) * (
        1 if candidate.name[0].isupper() else 0.5
    )


def _mention_weights(mentions: list[Mention], topic: frozenset[str]) -> Iterator[float]:
    for mention in mentions:
        yield 1 + len(topic & {stem(word) for word in words(mention.sentence)})
