"""What the graph's own reader does not tell: what citations name."""

from collections.abc import Awaitable, Callable, Iterable
from dataclasses import dataclass
from uuid import UUID

from sqlalchemy import ScalarSelect, select
from sqlalchemy.ext.asyncio import AsyncSession
from sqlalchemy.orm import aliased

from shared.database.tables import Agent, GraphEdge, GraphNode
from shared.graph.entity_resolution.redirects import current_ids_of_agent


@dataclass(frozen=True)
class Named:
    """A node or edge by its type and name; an edge's name is both its ends'."""

    type: str
    name: str


async def named(
    session: AsyncSession, owner_id: UUID, agent_id: UUID, ids: Iterable[UUID]
) -> dict[UUID, Named]:
    """What the agent's nodes and edges of these ids are called; ids of anything else are left out."""
    wanted = set(ids)
    nodes = await nodes_named(session, owner_id, agent_id, wanted)
    return nodes | await edges_named(session, owner_id, agent_id, wanted - nodes.keys())


async def nodes_named(
    session: AsyncSession, owner_id: UUID, agent_id: UUID, ids: Iterable[UUID]
) -> dict[UUID, Named]:
    """One that a merge has moved is called what it is called there; so with edges."""
    return await _followed(_nodes_named, session, owner_id, agent_id, set(ids))


async def edges_named(
    session: AsyncSession, owner_id: UUID, agent_id: UUID, ids: Iterable[UUID]
) -> dict[UUID, Named]:
    return await _followed(_edges_named, session, owner_id, agent_id, set(ids))


_Reader = Callable[[AsyncSession, UUID, UUID, Iterable[UUID]], Awaitable[dict[UUID, Named]]]


async def _followed(
    read: _Reader, session: AsyncSession, owner_id: UUID, agent_id: UUID, ids: set[UUID]
) -> dict[UUID, Named]:
    found = await read(session, owner_id, agent_id, ids)
    moved = await current_ids_of_agent(session, owner_id, agent_id, ids - found.keys())
    there = await read(session, owner_id, agent_id, moved.values()) if moved else {}
    return found | {gone: there[kept] for gone, kept in moved.items() if kept in there}


async def _nodes_named(
    session: AsyncSession, owner_id: UUID, agent_id: UUID, ids: Iterable[UUID]
) -> dict[UUID, Named]:
    rows = await session.execute(
        select(GraphNode.id, GraphNode.type, GraphNode.name).where(
            GraphNode.agent_id == _owned(owner_id, agent_id), GraphNode.id.in_(ids)
        )
    )
    return {node_id: Named(type_name, name) for node_id, type_name, name in rows}


async def _edges_named(
    session: AsyncSession, owner_id: UUID, agent_id: UUID, ids: Iterable[UUID]
) -> dict[UUID, Named]:
    source, target = aliased(GraphNode), aliased(GraphNode)
    rows = await session.execute(
        select(GraphEdge.id, GraphEdge.type, source.name, target.name)
        .join(source, source.id == GraphEdge.source_id)
        .join(target, target.id == GraphEdge.target_id)
        .where(GraphEdge.agent_id == _owned(owner_id, agent_id), GraphEdge.id.in_(ids))
    )
    return {
        edge_id: Named(type_name, f"{start} → {end}") for edge_id, type_name, start, end in rows
    }


def _owned(owner_id: UUID, agent_id: UUID) -> ScalarSelect[UUID]:
    """The agent's id; null where it is not the owner's."""
    owned = select(Agent.id).where(Agent.id == agent_id, Agent.owner_id == owner_id)
    return owned.scalar_subquery()
