"""Edges: typed, directed, one of a type between two nodes; written by merging, as nodes are."""

from collections.abc import Sequence
from uuid import UUID

from sqlalchemy import func, select, update
from sqlalchemy.dialects.postgresql import insert
from sqlalchemy.ext.asyncio import AsyncSession

from shared.graph.moves import ends
from shared.graph.scope import Scope
from shared.graph.types import EdgeType, edge_type
from shared.graph.validation import Validators
from shared.graph.values import refuse_unstorable
from shared.store import ids
from shared.store.tables import GraphEdge, GraphNode
from shared.tools import Json, ToolRefusalError


async def add(
    session: AsyncSession,
    scope: Scope,
    validators: Validators,
    *,
    type_name: str,
    source_id: UUID,
    target_id: UUID,
    properties: Json,
) -> tuple[UUID, bool]:
    """The edge's id and whether it is new; an existing one takes the given properties on top of its own.

    Both ends must be nodes of this agent, of types that the edge type allows, and not the same node.
    """
    kind = await edge_type(session, scope, type_name)
    source_id, target_id = await ends(session, scope, source_id, target_id)
    await _refuse_wrong_ends(session, scope, kind, source_id, target_id)
    refuse_unstorable(properties, "properties")
    edge_id = ids.edge_id(scope.agent_id, type_name, source_id, target_id)
    async with session.begin_nested():
        if await _insert_new(session, scope, edge_id, type_name, source_id, target_id, properties):
            merged, created = properties, True
        else:
            merged, created = await _merge(session, scope, edge_id, properties), False
        validators.check(kind.properties_schema, merged, type_name)
    return edge_id, created


async def _refuse_wrong_ends(
    session: AsyncSession, scope: Scope, kind: EdgeType, source_id: UUID, target_id: UUID
) -> None:
    if source_id == target_id:
        raise ToolRefusalError(
            f"sourceId and targetId are both {source_id}; an edge joins two different nodes."
        )
    found = await session.execute(
        select(GraphNode.id, GraphNode.type).where(
            GraphNode.agent_id == scope.agent(), GraphNode.id.in_((source_id, target_id))
        )
    )
    types = {row.id: row.type for row in found}
    for argument, node_id in (("sourceId", source_id), ("targetId", target_id)):
        if node_id not in types:
            raise ToolRefusalError(
                f"{argument}: no such node: {node_id}; use an id that queryGraph or addGraphNode gave."
            )
    _refuse_wrong_type(kind, "start from", kind.source_types, types[source_id])
    _refuse_wrong_type(kind, "lead to", kind.target_types, types[target_id])


def _refuse_wrong_type(kind: EdgeType, verb: str, allowed: Sequence[str], actual: str) -> None:
    if allowed and actual not in allowed:
        raise ToolRefusalError(
            f"{kind.name} edges {verb} {' or '.join(allowed)} nodes, not {actual}; "
            "turn the edge round, or use another edge type."
        )


async def _insert_new(
    session: AsyncSession,
    scope: Scope,
    edge_id: UUID,
    type_name: str,
    source_id: UUID,
    target_id: UUID,
    properties: Json,
) -> bool:
    # "Do nothing", then update: the same reason as in `nodes.insert_new`.
    new = await session.scalar(
        insert(GraphEdge)
        .values(
            id=edge_id,
            agent_id=scope.agent(),
            type=type_name,
            source_id=source_id,
            target_id=target_id,
            properties=properties,
            iteration_id=scope.iteration_id,
            step_id=scope.step_id,
        )
        .on_conflict_do_nothing()
        .returning(GraphEdge.id)
    )
    return new is not None


async def _merge(session: AsyncSession, scope: Scope, edge_id: UUID, properties: Json) -> Json:
    merged: Json = (
        await session.execute(
            update(GraphEdge)
            .where(GraphEdge.id == edge_id, GraphEdge.agent_id == scope.agent())
            .values(
                properties=GraphEdge.properties.concat(properties),
                updated_at=func.clock_timestamp(),
            )
            .returning(GraphEdge.properties)
            .execution_options(synchronize_session=False)
        )
    ).scalar_one()
    return merged
