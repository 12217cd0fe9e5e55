"""Nodes: written by merging, so that the same thing found twice is one node that knows more."""

from collections.abc import Collection, Sequence
from uuid import UUID

from sqlalchemy import func, update
from sqlalchemy.dialects.postgresql import insert
from sqlalchemy.ext.asyncio import AsyncSession

from shared.graph import names
from shared.graph.scope import Scope
from shared.graph.types import RESERVED_TYPES, node_type
from shared.graph.validation import Validators
from shared.graph.values import normal_name, refuse_unstorable
from shared.store import ids
from shared.store.tables import GraphNode
from shared.tools import Json, ToolRefusalError


async def add(
    session: AsyncSession,
    scope: Scope,
    validators: Validators,
    *,
    type_name: str,
    name: str,
    properties: Json,
    aliases: Sequence[str] = (),
    distinct_from: Collection[UUID] = (),
    likeness: float | None = None,
) -> tuple[UUID, bool]:
    """The node's id and whether it is new; an existing one keeps its properties and takes those given on top.

    One that is known by this name, or another spelling of it, is that node, and keeps its own name. What results must
    satisfy the type's schema, or nothing is written. For `aliases`, `distinct_from` and `likeness`, and for what a
    transaction that adds several must do before, see `names`.
    """
    if type_name in RESERVED_TYPES:
        raise ToolRefusalError(
            f"{type_name} nodes are conclusions and cannot be added here; choose a type for facts."
        )
    schema = (await node_type(session, scope, type_name)).properties_schema
    name = normal_name(name)
    refuse_unstorable(properties, "properties")
    called = names.Called(type_name, name, aliases, distinct_from, likeness)
    async with session.begin_nested():
        [known] = await names.settle(session, scope, [called])
        name = known.name
        if await insert_new(session, scope, type_name=type_name, name=name, properties=properties):
            merged, created = properties, True
        else:
            merged, created = await _merge(session, scope, known.node_id, properties), False
        validators.check(schema, merged, type_name)
    return known.node_id, created


async def insert_new(
    session: AsyncSession, scope: Scope, *, type_name: str, name: str, properties: Json
) -> bool:
    """Writes the node unless there is one of this type and name; `name` is normal already. False if there is."""
    # The id follows from the name, so two unique keys clash at once; "on conflict do update" watches only one of them
    # and fails on the other when two workers insert at the same moment. "Do nothing" watches both.
    new = await session.scalar(
        insert(GraphNode)
        .values(
            id=ids.node_id(scope.agent_id, type_name, name),
            agent_id=scope.agent(),
            type=type_name,
            name=name,
            properties=properties,
            iteration_id=scope.iteration_id,
            step_id=scope.step_id,
        )
        .on_conflict_do_nothing()
        .returning(GraphNode.id)
    )
    return new is not None


async def _merge(session: AsyncSession, scope: Scope, node_id: UUID, properties: Json) -> Json:
    merged: Json = (
        await session.execute(
            update(GraphNode)
            .where(
                GraphNode.id == node_id,
                GraphNode.agent_id == scope.agent(),
            )
            .values(
                properties=GraphNode.properties.concat(properties),
                updated_at=func.clock_timestamp(),
            )
            .returning(GraphNode.properties)
            .execution_options(synchronize_session=False)
        )
    ).scalar_one()
    return merged
