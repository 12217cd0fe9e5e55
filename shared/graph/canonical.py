"""What an agent knows in one form, free of ids and of time: two agents that know the same are seen to."""

import hashlib
import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any
from uuid import UUID

from sqlalchemy import func, select
from sqlalchemy.ext.asyncio import AsyncSession
from sqlalchemy.orm import aliased

from shared.graph.citations import Citation, Kind, replaced
from shared.graph.scope import Scope
from shared.graph.types import RESERVED_TYPES, EdgeType, NodeType, edge_types, node_types
from shared.store.tables import Evidence, GraphEdge, GraphNode, Source
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

    A node is named by its type and name, an edge by its type and ends, where texts cite them too. What they rest on
    counts: which bytes of which page, what they say and for which time. Left out are ids, when anything was fetched,
    learned or written, and by which phase, step or iteration. Numbers that PostgreSQL holds to be equal read the same.

    Reads the whole graph into memory. Where others write meanwhile, give it a transaction of repeatable reads.
    """
    edges = await _edges(session, scope)
    nodes = await _nodes(session, scope)
    names = {Citation(Kind.NODE, node.id): node.called for node in nodes} | {
        Citation(Kind.EDGE, edge.id): edge.called for edge in edges
    }
    grounds = await _grounds(session, scope)
    return {
        "node_types": [_node_type(each) for each in await node_types(session, scope)],
        "edge_types": [_edge_type(each) for each in await edge_types(session, scope)],
        "nodes": [
            node.told(names) | {"evidence": _told(grounds.get(node.id, ()), names)}
            for node in sorted(nodes, key=_called)
        ],
        "edges": [
            edge.told(names) | {"evidence": _told(grounds.get(edge.id, ()), names)}
            for edge in sorted(edges, key=_called)
        ],
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


@dataclass(frozen=True)
class _Ground:
    url: str
    sha256: bytes
    first_byte: int
    end_byte: int
    claims: Json
    valid_from: datetime | None
    valid_to: datetime | None
    is_retracted: bool

    def told(self, names: Names) -> Json:
        return {
            "url": self.url,
            "sha256": self.sha256.hex(),
            "bytes": [self.first_byte, self.end_byte],
            "claims": _plain(self.claims, names),
            "valid_from": _moment(self.valid_from),
            "valid_to": _moment(self.valid_to),
            "retracted": self.is_retracted,
        }


def _told(grounds: Iterable[_Ground], names: Names) -> list[Json]:
    return sorted((ground.told(names) for ground in grounds), key=_json)


def _moment(moment: datetime | None) -> str | None:
    return None if moment is None else moment.astimezone(UTC).isoformat()


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


async def _grounds(session: AsyncSession, scope: Scope) -> dict[UUID, list[_Ground]]:
    """By the node or edge that they bear out."""
    rows = await session.execute(
        select(
            func.coalesce(Evidence.node_id, Evidence.edge_id),
            Source.url,
            Source.sha256,
            Evidence.first_byte,
            Evidence.end_byte,
            Evidence.claims,
            Evidence.valid_from,
            Evidence.valid_to,
            Source.retracted_at.is_not(None),
        )
        .join(Source, Source.id == Evidence.source_id)
        .where(Evidence.agent_id == scope.agent())
    )
    found: dict[UUID, list[_Ground]] = {}
    for row in rows:
        found.setdefault(row[0], []).append(_Ground(*row[1:]))
    return found


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
