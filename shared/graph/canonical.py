"""What an agent knows in one form, free of ids and of time: two agents that know the same are seen to."""

import hashlib
import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any
from uuid import UUID

from sqlalchemy import select
from sqlalchemy.ext.asyncio import AsyncSession
from sqlalchemy.orm import aliased

from shared.graph.citations import Citation, Kind, replaced
from shared.graph.moves import current_ids
from shared.graph.scope import Scope
from shared.graph.types import RESERVED_TYPES, EdgeType, NodeType, edge_types, node_types
from shared.store.tables import GraphEdge, GraphMove, GraphNode
from shared.tools import Json

_GENERATED_AT = "generated_at"
"""The one property of a conclusion that says when and not what."""

Name = list[Any]
"""What stands for an id: a node's type and name, an edge's type and the names of its two ends."""
Names = Mapping[Citation, Name]


async def canonical_hash(session: AsyncSession, scope: Scope) -> str:
    """sha256, in hex, of the canonical form as JSON in UTF-8, its keys sorted, without blanks."""
    return hashlib.sha256(_json(await canonical(session, scope)).encode()).hexdigest()


async def canonical(session: AsyncSession, scope: Scope) -> Json:
    """The agent's types, nodes and edges, sorted: equal where two agents know the same, whoever wrote it, and when.

    A node is named by its type and name, an edge by its type and ends, where texts cite them too. Left out are ids,
    times, and which phase, step or iteration wrote what. Numbers that PostgreSQL holds to be equal read the same.

    Reads the whole graph into memory. Where others write meanwhile, give it a transaction of repeatable reads.
    """
    edges = await _edges(session, scope)
    nodes = await _nodes(session, scope)
    names = {Citation(Kind.NODE, node.id): node.called for node in nodes} | {
        Citation(Kind.EDGE, edge.id): edge.called for edge in edges
    }
    names |= await _moved(session, scope, names)
    return {
        "node_types": [_node_type(each) for each in await node_types(session, scope)],
        "edge_types": [_edge_type(each) for each in await edge_types(session, scope)],
        "nodes": [node.told(names) for node in sorted(nodes, key=_called)],
        "edges": [edge.told(names) for edge in sorted(edges, key=_called)],
    }


async def _moved(session: AsyncSession, scope: Scope, names: Names) -> Names:
    """What is cited under an id that a merge has moved is named as it is now."""
    gone = await session.scalars(
        select(GraphMove.gone_id).where(GraphMove.agent_id == scope.agent())
    )
    current = await current_ids(session, scope, list(gone))
    return {
        Citation(kind, moved): names[Citation(kind, to)]
        for moved, to in current.items()
        for kind in Kind
        if Citation(kind, to) in names
    }


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
        return {"type": self.type, "name": self.name, "properties": _plain(known, names)}


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
            "properties": _plain(self.properties, names),
        }


def _called(known: _Node | _Edge) -> Name:
    return known.called


async def _nodes(session: AsyncSession, scope: Scope) -> list[_Node]:
    rows = await session.execute(
        select(GraphNode.id, GraphNode.type, GraphNode.name, GraphNode.properties).where(
            GraphNode.agent_id == scope.agent()
        )
    )
    return [_Node(*row) for row in rows]


async def _edges(session: AsyncSession, scope: Scope) -> list[_Edge]:
    source, target = aliased(GraphNode), aliased(GraphNode)
    rows = await session.execute(
        select(
            GraphEdge.id,
            GraphEdge.type,
            GraphEdge.properties,
            source.type,
            source.name,
            target.type,
            target.name,
        )
        .join(source, source.id == GraphEdge.source_id)
        .join(target, target.id == GraphEdge.target_id)
        .where(GraphEdge.agent_id == scope.agent())
    )
    return [_Edge(*row) for row in rows]


def _node_type(known: NodeType) -> Json:
    return {
        "name": known.name,
        "description": known.description,
        "properties_schema": _plain(known.properties_schema, {}),
        "example_properties": _plain(known.example_properties, {}),
    }


def _edge_type(known: EdgeType) -> Json:
    return {
        "name": known.name,
        "description": known.description,
        "properties_schema": _plain(known.properties_schema, {}),
        "example_properties": _plain(known.example_properties, {}),
        "source_types": sorted(known.source_types),
        "target_types": sorted(known.target_types),
    }


def _plain(value: Any, names: Names) -> Any:
    """`value` with names in its citations, and each number in one spelling."""
    if isinstance(value, dict):
        return {key: _plain(inner, names) for key, inner in value.items()}
    if isinstance(value, list):
        return [_plain(inner, names) for inner in value]
    if isinstance(value, str):
        return _with_names(value, names)
    if isinstance(value, float) and value.is_integer():
        return int(value)
    return value


def _with_names(text: str, names: Names) -> str:
    """`text` with what its citations name in place of ids: `[node:["Country","Ghana"]]`. What names nothing stays."""

    def name_of(citation: Citation) -> str | None:
        known = names.get(citation)
        return None if known is None else f"[{citation.kind}:{_json(known)}]"

    return replaced(text, name_of)


def _json(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False, sort_keys=True, separators=(",", ":"))
