"""Bringing a node or edge up to what its evidence says, and sealing it: after anything about its evidence changed."""

from collections.abc import Callable, Sequence
from datetime import datetime
from typing import TypeVar
from uuid import UUID

from sqlalchemy import ColumnElement, func, select
from sqlalchemy.ext.asyncio import AsyncSession
from sqlalchemy.orm import InstrumentedAttribute

from shared.graph.proof import seals
from shared.graph.proof.fold import Claim, folded
from shared.graph.scope import Scope
from shared.store.tables import Evidence, GraphEdge, GraphNode, Source
from shared.tools import Json

T = TypeVar("T", GraphNode, GraphEdge)


async def refold_node(session: AsyncSession, scope: Scope, node_id: UUID) -> Json:
    """The node's properties as they are then. Locks the node. Raises NoResultFound where the agent has no such node."""
    return await _refold(session, scope, GraphNode, Evidence.node_id, node_id, seal_node)


async def refold_edge(session: AsyncSession, scope: Scope, edge_id: UUID) -> Json:
    """As `refold_node`."""
    return await _refold(session, scope, GraphEdge, Evidence.edge_id, edge_id, seal_edge)


async def _refold(
    session: AsyncSession,
    scope: Scope,
    table: type[T],
    of: InstrumentedAttribute[UUID | None],
    thing_id: UUID,
    seal: Callable[[T, Sequence[UUID]], None],
) -> Json:
    # Whoever writes evidence of a thing holds its key by then, two at once both do: neither may wait for that.
    thing = (
        await session.scalars(
            select(table)
            .where(table.id == thing_id, table.agent_id == scope.agent())
            .with_for_update(key_share=True)
            .execution_options(populate_existing=True)
        )
    ).one()
    claims = await claims_of(session, of == thing_id)
    thing.properties = folded(thing.properties, claims)
    seal(thing, [claim.evidence_id for claim in claims])
    thing.unsupported_since = _unsupported(thing.unsupported_since, claims)
    thing.updated_at = func.clock_timestamp()
    await session.flush()
    return thing.properties


def seal_node(node: GraphNode, evidence: Sequence[UUID]) -> None:
    node.seal = seals.of_node(
        node_id=node.id,
        agent_id=node.agent_id,
        type_name=node.type,
        name=node.name,
        properties=node.properties,
        evidence=evidence,
    )


def seal_edge(edge: GraphEdge, evidence: Sequence[UUID]) -> None:
    edge.seal = seals.of_edge(
        edge_id=edge.id,
        agent_id=edge.agent_id,
        type_name=edge.type,
        source_id=edge.source_id,
        target_id=edge.target_id,
        properties=edge.properties,
        evidence=evidence,
    )


def _unsupported(
    since: datetime | None, claims: Sequence[Claim]
) -> datetime | ColumnElement[datetime] | None:
    """Since when it has evidence, and all of that is retracted."""
    if not claims or not all(claim.is_retracted for claim in claims):
        return None
    return since or func.clock_timestamp()


async def claims_of(session: AsyncSession, of_thing: ColumnElement[bool]) -> list[Claim]:
    """All that was ever claimed of it, retracted or not. Its row must be locked where something follows from them."""
    rows = await session.execute(
        select(
            Evidence.id,
            Evidence.claims,
            Evidence.as_of,
            Evidence.learned_at,
            Source.retracted_at.is_not(None),
        )
        .join(Source, Source.id == Evidence.source_id)
        .where(of_thing)
    )
    return [Claim(*row) for row in rows]
