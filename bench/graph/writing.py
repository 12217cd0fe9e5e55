"""How a node and an edge are written in the measurement: as a Researcher's tools write them."""

from uuid import UUID

from sqlalchemy.ext.asyncio import AsyncSession

from shared.graph import edges, nodes
from shared.graph.scope import Scope
from shared.graph.validation import Validators
from shared.tools import Json


async def add_node(
    session: AsyncSession,
    scope: Scope,
    validators: Validators,
    *,
    type_name: str,
    name: str,
    properties: Json,
) -> UUID:
    node_id, _ = await nodes.add(
        session, scope, validators, type_name=type_name, name=name, properties=properties
    )
    return node_id


async def add_edge(
    session: AsyncSession,
    scope: Scope,
    validators: Validators,
    *,
    type_name: str,
    source_id: UUID,
    target_id: UUID,
) -> None:
    await edges.add(
        session,
        scope,
        validators,
        type_name=type_name,
        source_id=source_id,
        target_id=target_id,
        properties={"quote": "It says so."},
    )
