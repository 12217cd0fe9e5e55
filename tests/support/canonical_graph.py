"""A graph in canonical form, free of ids and times: equal knowledge is equal text."""

from collections.abc import AsyncIterator, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Final
from uuid import UUID

from sqlalchemy import Select, select
from sqlalchemy.ext.asyncio import AsyncSession
from sqlalchemy.orm import InstrumentedAttribute, aliased

from shared.database.pagination import iterate_batches
from shared.database.tables import Evidence, GraphEdge, GraphNode
from shared.graph.conclusions.citations import Citation, Kind, parse_citations
from shared.graph.scope import GraphScope
from shared.graph.types import RESERVED_TYPES, EdgeType, NodeType, list_edge_types, list_node_types
from shared.graph.verification.loader import EDGES_IN_ORDER, NODES_IN_ORDER, load_current_ids
from shared.tools import Json
from tests.support.canonical_grounds import grounds_of, listed
from tests.support.spelling import Name, Names, one_json, plain
from tests.support.unordered import UnorderedHash

BATCH_ROWS: Final = 2000
_GENERATED_AT = "generated_at"
"""The one property of a conclusion that says when and not what."""


async def canonical_hash(session: AsyncSession, scope: GraphScope) -> str:
    """Of the canonical form, in hex: of each of its types, nodes and edges as JSON, whatever their order.

    It is made batch by batch, so that it takes no more memory for a million nodes than for ten. Where others write
    meanwhile, give it a transaction of repeatable reads.
    """
    hashed = UnorderedHash()
    for kind, types in (await _types(session, scope)).items():
        for told in types:
            hashed.add(one_json([kind, told]))
    async for node in _nodes(session, scope):
        hashed.add(one_json(["nodes", node.told]))
    async for edge in _edges(session, scope):
        hashed.add(one_json(["edges", edge.told]))
    return hashed.hexdigest()


async def canonical(session: AsyncSession, scope: GraphScope) -> Json:
    """The agent's types, nodes and edges, sorted: equal where two agents know the same, whoever wrote it, and when.

    A node is named by its type and name, an edge by its type and ends, where texts cite them too. What they rest on
    counts: which bytes of which page, what they say and for which time. Left out are ids, when anything was fetched,
    learned or written, and by which phase, step or iteration. Numbers that PostgreSQL holds to be equal read the same.

    Reads the whole graph into memory. Where others write meanwhile, give it a transaction of repeatable reads.
    """
    nodes = [each async for each in _nodes(session, scope)]
    edges = [each async for each in _edges(session, scope)]
    return {
        **await _types(session, scope),
        "nodes": [each.told for each in sorted(nodes, key=_called)],
        "edges": [each.told for each in sorted(edges, key=_called)],
    }


@dataclass(frozen=True)
class _Told:
    called: Name
    told: Json


def _called(each: _Told) -> Name:
    return each.called


async def _types(session: AsyncSession, scope: GraphScope) -> dict[str, list[Json]]:
    return {
        "node_types": [_node_type(each) for each in await list_node_types(session, scope)],
        "edge_types": [_edge_type(each) for each in await list_edge_types(session, scope)],
    }


async def _nodes(session: AsyncSession, scope: GraphScope) -> AsyncIterator[_Told]:
    async for rows in iterate_batches(session, _all_nodes(scope), NODES_IN_ORDER, BATCH_ROWS):
        known = [_Node(*row) for row in rows]
        for each in await _with_grounds(session, scope, Evidence.node_id, known):
            yield each


async def _edges(session: AsyncSession, scope: GraphScope) -> AsyncIterator[_Told]:
    async for rows in iterate_batches(session, _all_edges(scope), EDGES_IN_ORDER, BATCH_ROWS):
        known = [_Edge(*row) for row in rows]
        for each in await _with_grounds(session, scope, Evidence.edge_id, known):
            yield each


async def _with_grounds(
    session: AsyncSession,
    scope: GraphScope,
    thing: InstrumentedAttribute[UUID | None],
    known: "Sequence[_Node | _Edge]",
) -> list[_Told]:
    names = await _names(session, scope, {each for row in known for each in _cited(row.properties)})
    grounds = await grounds_of(session, scope, thing, [row.id for row in known])
    return [
        _Told(
            row.called,
            row.told(names) | {"evidence": listed(grounds.get(row.id, ()), names)},
        )
        for row in known
    ]


async def _names(session: AsyncSession, scope: GraphScope, cited: set[Citation]) -> Names:
    """Of what is cited and there, as it is now."""
    if not cited:
        return {}
    current = await load_current_ids(session, scope, {each.id for each in cited})
    wanted = set(current.values())
    nodes = await session.execute(_all_nodes(scope).where(GraphNode.id.in_(wanted)))
    edges = await session.execute(_all_edges(scope).where(GraphEdge.id.in_(wanted)))
    called = {Citation(Kind.NODE, row.id): _Node(*row).called for row in nodes}
    called |= {Citation(Kind.EDGE, row.id): _Edge(*row).called for row in edges}
    now = {each: Citation(each.kind, current[each.id]) for each in cited}
    return {each: called[there] for each, there in now.items() if there in called}


def _cited(value: Any) -> Iterator[Citation]:
    if isinstance(value, str):
        yield from parse_citations(value).citations
    elif isinstance(value, dict | list):
        for inner in value.values() if isinstance(value, dict) else value:
            yield from _cited(inner)


@dataclass(frozen=True)
class _Node:
    id: UUID
    type: str
    name: str
    properties: Json

    @property
    def called(self) -> Name:
        return [self.type, self.name]

    def told(self, names: Names) -> Json:
        known = self.properties
        if self.type in RESERVED_TYPES:
            known = {key: value for key, value in known.items() if key != _GENERATED_AT}
        return {"type": self.type, "name": self.name, "properties": plain(known, names)}


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
    def called(self) -> Name:
        return [
            self.type,
            [self.source_type, self.source_name],
            [self.target_type, self.target_name],
        ]

    def told(self, names: Names) -> Json:
        type_name, source, target = self.called
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


def _node_type(known: NodeType) -> Json:
    return {
        "name": known.name,
        "description": known.description,
        "properties_schema": plain(known.properties_schema, {}),
        "example_properties": plain(known.example_properties, {}),
    }


def _edge_type(known: EdgeType) -> Json:
    return {
        "name": known.name,
        "description": known.description,
        "properties_schema": plain(known.properties_schema, {}),
        "example_properties": plain(known.example_properties, {}),
        "source_types": sorted(known.source_types),
        "target_types": sorted(known.target_types),
    }
