"""Rows beneath what the api tells."""

from uuid import UUID, uuid4

from sqlalchemy import select
from sqlalchemy.ext.asyncio import AsyncSession

from shared.graph import conclusions, merging, seed_types
from shared.graph.scope import Scope
from shared.store.database import Database
from shared.store.tables import Agent, GraphEdge, GraphEdgeType, GraphNode, GraphNodeType
from tests.integration.making import make_iteration


async def row_of(database: Database, name: str) -> Agent:
    async with database.transaction() as session:
        return (await session.scalars(select(Agent).where(Agent.name == name))).one()


async def an_iteration(database: Database, agent_name: str) -> UUID:
    """A running iteration of the agent; its id."""
    return (await make_iteration(database, await row_of(database, agent_name))).iteration.id


async def advise(database: Database, agent: Agent) -> None:
    """A node, an edge, an analysis that cites both, and advice that stands on it."""
    scope = Scope(agent.owner_id, agent.id)
    maker, metal, edge = (uuid4() for _ in range(3))
    async with database.transaction() as session:
        await seed_types.ensure(session, agent.id)
        session.add_all(
            [
                GraphNodeType(
                    agent_id=agent.id,
                    name="Thing",
                    description="Any thing",
                    properties_schema={"type": "object"},
                    created_by="test",
                ),
                GraphEdgeType(
                    agent_id=agent.id, name="buys", description="buys", created_by="test"
                ),
            ]
        )
        await session.flush()
        for node_id, name in ((maker, "Halden Cells"), (metal, "Lithium")):
            session.add(
                GraphNode(id=node_id, agent_id=agent.id, type="Thing", name=name, properties={})
            )
        await session.flush()
        session.add(
            GraphEdge(id=edge, agent_id=agent.id, type="buys", source_id=maker, target_id=metal)
        )
        await session.flush()
        analysis = await conclusions.add_analysis(
            session,
            scope,
            name="Halden buys lithium",
            kind="observation",
            summary="It buys.",
            content=f"Halden [node:{maker}] buys it [edge:{edge}].",
        )
        await conclusions.add_advice(
            session,
            scope,
            name="Wait for Halden",
            action="HOLD",
            summary="Nothing to do.",
            content=f"As it stands [node:{analysis}].",
        )


async def merged(session: AsyncSession, agent: Agent) -> UUID:
    """A merge of two nodes, whose names are the agent's own; its id. There is the type Thing already."""
    kept, gone = await doubled(session, agent, "Battery", "Batteries")
    scope = Scope(agent.owner_id, agent.id)
    made = await merging.merge(
        session, scope, kept_id=kept, gone_id=gone, reason="One.", made_by=agent.owner_id
    )
    assert made is not None
    return made.id


async def doubled(session: AsyncSession, agent: Agent, *names: str) -> list[UUID]:
    """Nodes that can be made one; their ids."""
    found = [uuid4() for _ in names]
    for node_id, name in zip(found, names, strict=True):
        called = f"{name} of {agent.name}"
        session.add(
            GraphNode(id=node_id, agent_id=agent.id, type="Thing", name=called, properties={})
        )
    await session.flush()
    return found
