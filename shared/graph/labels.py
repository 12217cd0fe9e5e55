"""Labels: type and name of nodes and edges by id."""

from collections.abc import Awaitable, Callable, Iterable
from dataclasses import dataclass
from uuid import UUID

from sqlalchemy import ScalarSelect, select
from sqlalchemy.ext.asyncio import AsyncSession
from sqlalchemy.orm import aliased

from shared.database.tables import Agent, GraphEdge, GraphNode
from shared.graph.entity_resolution.redirects import current_ids_of_agent


@dataclass(frozen=True)
class Label:
    """A node or edge by type and name; an edge's name consists of the names of both ends."""

    type: str
    name: str


async def load_labels(
    session: AsyncSession, owner_id: UUID, agent_id: UUID, ids: Iterable[UUID]
) -> dict[UUID, Label]:
    """Load the labels of the agent's nodes and edges by id; unknown ids are left out."""
    id_set = set(ids)
    nodes = await load_node_labels(session, owner_id, agent_id, id_set)
    return nodes | await load_edge_labels(session, owner_id, agent_id, id_set - nodes.keys())


async def load_node_labels(
    session: AsyncSession, owner_id: UUID, agent_id: UUID, ids: Iterable[UUID]
) -> dict[UUID, Label]:
    """Load the labels of nodes by id. The id of a merged node gives the label of the node it was merged into."""
    return await _load_with_redirects(_query_node_labels, session, owner_id, agent_id, set(ids))


async def load_edge_labels(
    session: AsyncSession, owner_id: UUID, agent_id: UUID, ids: Iterable[UUID]
) -> dict[UUID, Label]:
    """Like `load_node_labels`, for edges."""
    return await _load_with_redirects(_query_edge_labels, session, owner_id, agent_id, set(ids))


_LabelQuery = Callable[[AsyncSession, UUID, UUID, Iterable[UUID]], Awaitable[dict[UUID, Label]]]


async def _load_with_redirects(
    query: _LabelQuery, session: AsyncSession, owner_id: UUID, agent_id: UUID, ids: set[UUID]
) -> dict[UUID, Label]:
    labels = await query(session, owner_id, agent_id, ids)
    current_ids = await current_ids_of_agent(session, owner_id, agent_id, ids - labels.keys())
    current_labels = (
        await query(session, owner_id, agent_id, current_ids.values()) if current_ids else {}
    )
    return labels | {
        old_id: current_labels[new_id]
        for old_id, new_id in current_ids.items()
        if new_id in current_labels
    }


async def _query_node_labels(
    session: AsyncSession, owner_id: UUID, agent_id: UUID, ids: Iterable[UUID]
) -> dict[UUID, Label]:
    rows = await session.execute(
        select(GraphNode.id, GraphNode.type, GraphNode.name).where(
            GraphNode.agent_id == _owned_agent_id(owner_id, agent_id), GraphNode.id.in_(ids)
        )
    )
    return {node_id: Label(type_name, name) for node_id, type_name, name in rows}


async def _query_edge_labels(
    session: AsyncSession, owner_id: UUID, agent_id: UUID, ids: Iterable[UUID]
) -> dict[UUID, Label]:
    source, target = aliased(GraphNode), aliased(GraphNode)
    rows = await session.execute(
        select(GraphEdge.id, GraphEdge.type, source.name, target.name)
        .join(source, source.id == GraphEdge.source_id)
        .join(target, target.id == GraphEdge.target_id)
        .where(GraphEdge.agent_id == _owned_agent_id(owner_id, agent_id), GraphEdge.id.in_(ids))
    )
    return {
        edge_id: Label(type_name, f"{start} → {end}") for edge_id, type_name, start, end in rows
    }


def _owned_agent_id(owner_id: UUID, agent_id: UUID) -> ScalarSelect[UUID]:
    """SQL expression for the agent's id; null if the agent does not belong to the owner."""
    owned = select(Agent.id).where(Agent.id == agent_id, Agent.owner_id == owner_id)
    return owned.scalar_subquery()
