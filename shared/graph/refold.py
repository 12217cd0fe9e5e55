"""Bringing a node or edge up to what its evidence says, and sealing it: after anything about its evidence changed."""

from collections.abc import Sequence
from datetime import datetime
from uuid import UUID

from sqlalchemy import ColumnElement, func, select
from sqlalchemy.ext.asyncio import AsyncSession

from shared.graph.proof import seals
from shared.graph.proof.fold import Claim, folded
from shared.graph.scope import Scope
from shared.store.tables import Evidence, GraphEdge, GraphNode, Source
from shared.tools import Json


async def refold_node(session: AsyncSession, scope: Scope, node_id: UUID) -> Json:
    """The node's properties as they are then. Locks the node. Raises NoResultFound where the agent has no such node."""
    # Whoever writes evidence of a node holds its key by then, two at once both do: neither may wait for that.
    node = (
        await session.scalars(
            select(GraphNode)
            .where(GraphNode.id == node_id, GraphNode.agent_id == scope.agent())
            .with_for_update(key_share=True)
            .execution_options(populate_existing=True)
        )
    ).one()
    claims = await claims_of(session, Evidence.node_id == node_id)
    node.properties = folded(node.properties, claims)
    seal_node(node, [claim.evidence_id for claim in claims])
    node.unsupported_since = _unsupported(node.unsupported_since, claims)
    node.updated_at = func.clock_timestamp()
    await session.flush()
    return node.properties


async def refold_edge(session: AsyncSession, scope: Scope, edge_id: UUID) -> Json:
    """As `refold_node`."""
    edge = (
        await session.scalars(
            select(GraphEdge)
            .where(GraphEdge.id == edge_id, GraphEdge.agent_id == scope.agent())
            .with_for_update(key_share=True)
            .execution_options(populate_existing=True)
        )
    ).one()
    claims = await claims_of(session, Evidence.edge_id == edge_id)
    edge.properties = folded(edge.properties, claims)
    seal_edge(edge, [claim.evidence_id for claim in claims])
    edge.unsupported_since = _unsupported(edge.unsupported_since, claims)
    edge.updated_at = func.clock_timestamp()
    await session.flush()
    return edge.properties


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
