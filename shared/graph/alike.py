"""In what nodes and edges are alike: both have evidence, are held to be what it says, and are sealed."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Final
from uuid import UUID

from sqlalchemy import Boolean, Text, Update, Uuid, bindparam, case, column, func, update
from sqlalchemy.dialects.postgresql import JSONB
from sqlalchemy.orm import InstrumentedAttribute

from shared.graph.proof import seals
from shared.store.tables import Evidence, GraphEdge, GraphNode
from shared.tools import Json


@dataclass(frozen=True)
class Alike:
    table: type[GraphNode] | type[GraphEdge]
    evidence_of: InstrumentedAttribute[UUID | None]
    called: Sequence[InstrumentedAttribute[Any]]
    """By what it is called, beside its id."""
    seal: Callable[[UUID, UUID, Sequence[Any], Json, Sequence[UUID]], bytes]
    """Of an agent's id, its own, what it is called, its properties and all its evidence."""
    update: Update
    """Writes many; takes `rows` as `changed_row` gives them."""


def changed_row(thing: UUID, properties: Json, seal: bytes, *, is_unsupported: bool) -> Json:
    return {
        "id": str(thing),
        "properties": properties,
        "seal": seal.hex(),
        "is_unsupported": is_unsupported,
    }


def _of_node(
    agent: UUID, node: UUID, called: Sequence[Any], properties: Json, evidence: Sequence[UUID]
) -> bytes:
    type_name, name = called
    return seals.of_node(
        node_id=node,
        agent_id=agent,
        type_name=type_name,
        name=name,
        properties=properties,
        evidence=evidence,
    )


def _of_edge(
    agent: UUID, edge: UUID, called: Sequence[Any], properties: Json, evidence: Sequence[UUID]
) -> bytes:
    type_name, source_id, target_id = called
    return seals.of_edge(
        edge_id=edge,
        agent_id=agent,
        type_name=type_name,
        source_id=source_id,
        target_id=target_id,
        properties=properties,
        evidence=evidence,
    )


def _update(table: type[GraphNode] | type[GraphEdge]) -> Update:
    told = (
        func.jsonb_to_recordset(bindparam("rows", type_=JSONB))
        .table_valued(
            column("id", Uuid),
            column("properties", JSONB),
            column("seal", Text),
            column("is_unsupported", Boolean),
        )
        .render_derived(name="told", with_types=True)
    )
    moment = func.clock_timestamp()
    since = case((told.c.is_unsupported, func.coalesce(table.unsupported_since, moment)))
    return (
        update(table)
        .where(table.id == told.c.id)
        .values(
            properties=told.c.properties,
            seal=func.decode(told.c.seal, "hex"),
            unsupported_since=since,
            updated_at=moment,
        )
        .execution_options(synchronize_session=False)
    )


NODES: Final = Alike(
    GraphNode, Evidence.node_id, (GraphNode.type, GraphNode.name), _of_node, _update(GraphNode)
)
EDGES: Final = Alike(
    GraphEdge,
    Evidence.edge_id,
    (GraphEdge.type, GraphEdge.source_id, GraphEdge.target_id),
    _of_edge,
    _update(GraphEdge),
)
