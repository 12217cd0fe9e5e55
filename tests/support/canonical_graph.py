"""A graph in canonical form, without ids and times: equal knowledge gives equal text."""

from collections.abc import AsyncIterator, Iterable, Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Final
from uuid import UUID

from sqlalchemy import Select, func, select
from sqlalchemy.orm import InstrumentedAttribute, aliased

from shared.database.pagination import iterate_batches
from shared.database.tables import Evidence, GraphEdge, GraphNode, Source
from shared.database.transaction import Transaction
from shared.graph.conclusions.citations import Citation, Kind, parse_citations
from shared.graph.scope import GraphScope
from shared.graph.types import RESERVED_TYPES, EdgeType, NodeType, list_edge_types, list_node_types
from shared.graph.verification.loader import EDGES, NODES, load_current_ids
from shared.tools import Json
from tests.support.spelling import Name, Names, moment, one_json, plain
from tests.support.unordered_locks import UnorderedHash


@dataclass(frozen=True)
class EvidenceRow:
    url: str
    sha256: bytes
    first_byte: int
    end_byte: int
    claims: Json
    valid_from: datetime | None
    valid_to: datetime | None
    speaker: str | None
    is_retracted: bool

    def content(self, names: Names) -> Json:
        return {
            "url": self.url,
            "sha256": self.sha256.hex(),
            "bytes": [self.first_byte, self.end_byte],
            "claims": plain(self.claims, names),
            "valid_from": moment(self.valid_from),
            "valid_to": moment(self.valid_to),
            "speaker": self.speaker,
            "retracted": self.is_retracted,
        }


def evidence_json(rows: Iterable[EvidenceRow], names: Names) -> list[Json]:
    return sorted((row.content(names) for row in rows), key=one_json)


async def load_evidence(
    session: Transaction,
    scope: GraphScope,
    id_column: InstrumentedAttribute[UUID | None],
    ids: Sequence[UUID],
) -> dict[UUID, list[EvidenceRow]]:
    """Evidence by the id of its node or edge."""
    rows = await session.execute(
        select(
            func.coalesce(Evidence.node_id, Evidence.edge_id),
            *(Source.url, Source.sha256, Evidence.first_byte, Evidence.end_byte, Evidence.claims),
            *(Evidence.valid_from, Evidence.valid_to, Evidence.speaker),
            Source.retracted_at.is_not(None),
        )
        .join(Source, Source.id == Evidence.source_id)
        .where(Evidence.agent_id == scope.owned_agent_id(), id_column.in_(ids))
    )
    evidence: dict[UUID, list[EvidenceRow]] = {}
    for element_id, *columns in rows:
        evidence.setdefault(element_id, []).append(EvidenceRow(*columns))
    return evidence


BATCH_ROWS: Final = 2000
_GENERATED_AT = "generated_at"
"""The property of a conclusion with its time, which is left out."""


async def graph_fingerprint(session: Transaction, scope: GraphScope) -> str:
    """Hash the canonical form, in hex: its types, nodes and edges as JSON, in any order.

    Reads in batches, so that memory does not grow with the graph. With concurrent writers, use a transaction of
    repeatable reads.
    """
    hashed = UnorderedHash()
    for kind, types in (await _types(session, scope)).items():
        for type_ in types:
            hashed.add(one_json([kind, type_]))
    async for node in _nodes(session, scope):
        hashed.add(one_json(["nodes", node.content]))
    async for edge in _edges(session, scope):
        hashed.add(one_json(["edges", edge.content]))
    return hashed.hexdigest()


async def canonical(session: Transaction, scope: GraphScope) -> Json:
    """The agent's types, nodes and edges, sorted: equal for two agents with the same knowledge, however it was written.

    A node is named by its type and name, an edge by its type and ends, in citations too. Evidence is included: the
    span of the page, its claims and their validity. Left out are ids, all times of writing, and the phase, step and
    iteration. Numbers that PostgreSQL considers equal are written in the same way.

    Reads the whole graph into memory. With concurrent writers, use a transaction of repeatable reads.
    """
    nodes = [element async for element in _nodes(session, scope)]
    edges = [element async for element in _edges(session, scope)]
    return {
        **await _types(session, scope),
        "nodes": [element.content for element in sorted(nodes, key=_name_key)],
        "edges": [element.content for element in sorted(edges, key=_name_key)],
    }


@dataclass(frozen=True)
class _Element:
    name: Name
    content: Json


def _name_key(element: _Element) -> Name:
    return element.name


async def _types(session: Transaction, scope: GraphScope) -> dict[str, list[Json]]:
    return {
        "node_types": [_node_type(type_) for type_ in await list_node_types(session, scope)],
        "edge_types": [_edge_type(type_) for type_ in await list_edge_types(session, scope)],
    }


async def _nodes(session: Transaction, scope: GraphScope) -> AsyncIterator[_Element]:
    async for rows in iterate_batches(session, _all_nodes(scope), NODES.order, BATCH_ROWS):
        nodes = [_Node(*row) for row in rows]
        for element in await _with_evidence(session, scope, Evidence.node_id, nodes):
            yield element


async def _edges(session: Transaction, scope: GraphScope) -> AsyncIterator[_Element]:
    async for rows in iterate_batches(session, _all_edges(scope), EDGES.order, BATCH_ROWS):
        edges = [_Edge(*row) for row in rows]
        for element in await _with_evidence(session, scope, Evidence.edge_id, edges):
            yield element


async def _with_evidence(
    session: Transaction,
    scope: GraphScope,
    evidence_column: InstrumentedAttribute[UUID | None],
    elements: "Sequence[_Node | _Edge]",
) -> list[_Element]:
    names = await _names(
        session, scope, {citation for row in elements for citation in _citations(row.properties)}
    )
    evidence = await load_evidence(session, scope, evidence_column, [row.id for row in elements])
    return [
        _Element(
            row.key,
            row.content(names) | {"evidence": evidence_json(evidence.get(row.id, ()), names)},
        )
        for row in elements
    ]


async def _names(session: Transaction, scope: GraphScope, cited: set[Citation]) -> Names:
    """Names of the cited elements that exist, under their current ids."""
    if not cited:
        return {}
    current = await load_current_ids(session, scope, {citation.id for citation in cited})
    ids = set(current.values())
    nodes = await session.execute(_all_nodes(scope).where(GraphNode.id.in_(ids)))
    edges = await session.execute(_all_edges(scope).where(GraphEdge.id.in_(ids)))
    names = {Citation(Kind.NODE, row.id): _Node(*row).key for row in nodes}
    names |= {Citation(Kind.EDGE, row.id): _Edge(*row).key for row in edges}
    current_citations = {
        citation: Citation(citation.kind, current[citation.id]) for citation in cited
    }
    return {
        citation: names[current_citation]
        for citation, current_citation in current_citations.items()
        if current_citation in names
    }


def _citations(value: Any) -> Iterator[Citation]:
    if isinstance(value, str):
        yield from parse_citations(value).citations
    elif isinstance(value, dict | list):
        for inner in value.values() if isinstance(value, dict) else value:
            yield from _citations(inner)


@dataclass(frozen=True)
class _Node:
    id: UUID
    type: str
    name: str
    properties: Json

    @property
    def key(self) -> Name:
        return [self.type, self.name]

    def content(self, names: Names) -> Json:
        properties = self.properties
        if self.type in RESERVED_TYPES:
            properties = {key: value for key, value in properties.items() if key != _GENERATED_AT}
        return {"type": self.type, "name": self.name, "properties": plain(properties, names)}


@dataclass(frozen=True)
class _Edge:
    id: UUID
    type: str
    properties: Json
    source_type: str
    source_name: str
    target_type: str
    target_name: str

    @property
    def key(self) -> Name:
        return [
            self.type,
            [self.source_type, self.source_name],
            [self.target_type, self.target_name],
        ]

    def content(self, names: Names) -> Json:
        type_name, source, target = self.key
        return {
            "type": type_name,
            "source": source,
            "target": target,
            "properties": plain(self.properties, names),
        }


def _all_nodes(scope: GraphScope) -> Select[UUID, str, str, Json]:
    return select(GraphNode.id, GraphNode.type, GraphNode.name, GraphNode.properties).where(
        GraphNode.agent_id == scope.owned_agent_id()
    )


def _all_edges(scope: GraphScope) -> Select[UUID, str, Json, str, str, str, str]:
    source, target = aliased(GraphNode), aliased(GraphNode)
    return (
        select(
            GraphEdge.id,
            GraphEdge.type,
            GraphEdge.properties,
            source.type.label("source_type"),
            source.name.label("source_name"),
            target.type.label("target_type"),
            target.name.label("target_name"),
        )
        .join(source, source.id == GraphEdge.source_id)
        .join(target, target.id == GraphEdge.target_id)
        .where(GraphEdge.agent_id == scope.owned_agent_id())
    )


def _node_type(node_type: NodeType) -> Json:
    return {
        "name": node_type.name,
        "description": node_type.description,
        "properties_schema": plain(node_type.properties_schema, {}),
        "example_properties": plain(node_type.example_properties, {}),
    }


def _edge_type(edge_type: EdgeType) -> Json:
    return {
        "name": edge_type.name,
        "description": edge_type.description,
        "properties_schema": plain(edge_type.properties_schema, {}),
        "example_properties": plain(edge_type.example_properties, {}),
        "source_types": sorted(edge_type.source_types),
        "target_types": sorted(edge_type.target_types),
    }
