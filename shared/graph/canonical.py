"""What an agent knows in one form, free of ids and of time: two agents that know the same are seen to."""

import json
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any, Final
from uuid import UUID

from sqlalchemy import Select, func, or_, select
from sqlalchemy.ext.asyncio import AsyncSession
from sqlalchemy.orm import aliased

from shared.graph.citations import Citation, Kind, parse, replaced
from shared.graph.moves import current_ids
from shared.graph.scope import Scope
from shared.graph.types import RESERVED_TYPES, EdgeType, NodeType, edge_types, node_types
from shared.graph.unordered import UnorderedHash
from shared.graph.verify.load import EDGES_IN_ORDER, NODES_IN_ORDER
from shared.store.reading.keyset import slices_of
from shared.store.tables import Evidence, GraphEdge, GraphMove, GraphNode, Source
from shared.tools import Json

BATCH_ROWS: Final = 2000
_GENERATED_AT = "generated_at"
"""The one property of a conclusion that says when and not what."""

Name = list[Any]
"""What stands for an id: a node's type and name, an edge's type and the names of its two ends."""
Names = Mapping[Citation, Name]


async def canonical_hash(session: AsyncSession, scope: Scope) -> str:
    """Of the canonical form, in hex: of each of its types, nodes and edges as JSON, whatever their order.

    It is made batch by batch, so that it takes no more memory for a million nodes than for ten. Where others write
    meanwhile, give it a transaction of repeatable reads.
    """
    told = UnorderedHash()
    for node_type in await node_types(session, scope):
        told.add(_json(["node type", _node_type(node_type)]))
    for edge_type in await edge_types(session, scope):
        told.add(_json(["edge type", _edge_type(edge_type)]))
    async for nodes in slices_of(session, _all_nodes(scope), NODES_IN_ORDER, BATCH_ROWS):
        for line in await _lines(session, scope, "node", [_Node(*row) for row in nodes]):
            told.add(line)
    async for edges in slices_of(session, _all_edges(scope), EDGES_IN_ORDER, BATCH_ROWS):
        for line in await _lines(session, scope, "edge", [_Edge(*row) for row in edges]):
            told.add(line)
    return told.hexdigest()


async def _lines(
    session: AsyncSession, scope: Scope, kind: str, known: "Sequence[_Node | _Edge]"
) -> list[str]:
    cited = {each for row in known for each in _cited(row.properties)}
    names = await _names(session, scope, cited) if cited else {}
    grounds = await _grounds(session, scope, [row.id for row in known])
    return [_json([kind, _with_grounds(row, grounds, names)]) for row in known]


async def _names(session: AsyncSession, scope: Scope, cited: set[Citation]) -> Names:
    current = await current_ids(session, scope, [each.id for each in cited])
    by_kind = {
        kind: {current.get(each.id, each.id) for each in cited if each.kind is kind}
        for kind in Kind
    }
    nodes = await session.execute(_all_nodes(scope).where(GraphNode.id.in_(by_kind[Kind.NODE])))
    edges = await session.execute(_all_edges(scope).where(GraphEdge.id.in_(by_kind[Kind.EDGE])))
    called = {Citation(Kind.NODE, row.id): _Node(*row).called for row in nodes}
    called |= {Citation(Kind.EDGE, row.id): _Edge(*row).called for row in edges}
    return called | {
        each: called[now]
        for each in cited
        if (now := Citation(each.kind, current.get(each.id, each.id))) in called
    }


def _cited(value: Any) -> Iterator[Citation]:
    if isinstance(value, str):
        yield from parse(value).citations
    elif isinstance(value, dict | list):
        for inner in value.values() if isinstance(value, dict) else value:
            yield from _cited(inner)


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
    names |= await _moved(session, scope, names)
    grounds = await _grounds(session, scope)
    return {
        "node_types": [_node_type(each) for each in await node_types(session, scope)],
        "edge_types": [_edge_type(each) for each in await edge_types(session, scope)],
        "nodes": [_with_grounds(each, grounds, names) for each in sorted(nodes, key=_called)],
        "edges": [_with_grounds(each, grounds, names) for each in sorted(edges, key=_called)],
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


Grounds = Mapping[UUID, Iterable[_Ground]]
"""By the node or edge that they bear out."""


def _with_grounds(known: "_Node | _Edge", grounds: Grounds, names: Names) -> Json:
    told = (ground.told(names) for ground in grounds.get(known.id, ()))
    return known.told(names) | {"evidence": sorted(told, key=_json)}


def _moment(moment: datetime | None) -> str | None:
    return None if moment is None else moment.astimezone(UTC).isoformat()


def _called(known: _Node | _Edge) -> Name:
    return known.called


async def _nodes(session: AsyncSession, scope: Scope) -> list[_Node]:
    return [_Node(*row) for row in await session.execute(_all_nodes(scope))]


async def _edges(session: AsyncSession, scope: Scope) -> list[_Edge]:
    return [_Edge(*row) for row in await session.execute(_all_edges(scope))]


def _all_nodes(scope: Scope) -> Select[UUID, str, str, Json]:
    return select(GraphNode.id, GraphNode.type, GraphNode.name, GraphNode.properties).where(
        GraphNode.agent_id == scope.agent()
    )


def _all_edges(scope: Scope) -> Select[UUID, str, Json, str, str, str, str]:
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
        .where(GraphEdge.agent_id == scope.agent())
    )


async def _grounds(
    session: AsyncSession, scope: Scope, of: Collection[UUID] | None = None
) -> Grounds:
    """Of all, or of those nodes and edges."""
    statement = (
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
    if of is not None:
        statement = statement.where(or_(Evidence.node_id.in_(of), Evidence.edge_id.in_(of)))
    found: dict[UUID, list[_Ground]] = {}
    for row in await session.execute(statement):
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
