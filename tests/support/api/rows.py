"""Rows beneath what the api tells."""

from dataclasses import dataclass
from typing import Any
from uuid import UUID, uuid4

from sqlalchemy import delete, select, update
from sqlalchemy.ext.asyncio import AsyncSession

from shared.database.engine import Database
from shared.database.tables import (
    Agent,
    Evidence,
    GraphEdge,
    GraphEdgeType,
    GraphNode,
    GraphNodeType,
    Source,
)
from shared.graph import edges, entity_resolution, nodes, system_types
from shared.graph.conclusions import conclusions
from shared.graph.provenance.evidence import EvidenceInput
from shared.graph.provenance.sources import store_pages
from shared.graph.retraction import retractions
from shared.graph.retraction.propagation import propagate_retractions
from shared.graph.scope import GraphScope
from shared.graph.validation import Validators
from tests.support.committing import COMMITTED, SURE
from tests.support.graph.evidence_rows import make_source
from tests.support.making import make_iteration


async def row_of(database: Database, name: str) -> Agent:
    async with database.transaction() as session:
        return (await session.scalars(select(Agent).where(Agent.name == name))).one()


async def an_iteration(database: Database, agent_name: str) -> UUID:
    """A running iteration of the agent; its id."""
    return (await make_iteration(database, await row_of(database, agent_name))).iteration.id


@dataclass(frozen=True)
class RetractedPage:
    url: str
    source_id: UUID
    retraction_id: UUID


async def retracted_page(database: Database, agent: Agent, url: str) -> RetractedPage:
    """A page that was read, and is not believed; nothing rests on it."""
    scope = GraphScope(agent.owner_id, agent.id)
    async with database.transaction() as session:
        source_id = await make_source(session, scope, url)
        retraction_id = await retractions.retract_source(session, scope, url, "made up")
    await propagate_retractions(database)
    return RetractedPage(url, source_id, retraction_id)


async def advise(database: Database, agent: Agent) -> None:
    """A node, an edge, an analysis that cites both, and advice that stands on it."""
    scope = GraphScope(agent.owner_id, agent.id)
    maker, metal, edge = (uuid4() for _ in range(3))
    async with database.transaction() as session:
        await system_types.ensure_system_types(session, agent.id)
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
            **SURE,
        )
        await conclusions.add_advice(
            session,
            scope,
            name="Wait for Halden",
            action="HOLD",
            summary="Nothing to do.",
            content=f"As it stands [node:{analysis}].",
            **COMMITTED,
        )


async def rest_on_pages(database: Database, agent: Agent) -> UUID:
    """Two pages, on both of which every thing and what it buys rest; the id of one of them."""
    scope = GraphScope(agent.owner_id, agent.id)
    of_agent = GraphNode.agent_id == agent.id, GraphNode.type == "Thing"
    pages = [
        {
            "url": f"https://press.example/{year}",
            "content": f"Halden bought {year} tonnes – ½ of all.",
        }
        for year in (2024, 2025)
    ]
    async with database.transaction() as session:
        await store_pages(session, scope, {"results": pages})
        names = list(await session.scalars(select(GraphNode.name).where(*of_agent)))
        edge = (
            await session.scalars(
                select(GraphEdge).where(GraphEdge.agent_id == agent.id, GraphEdge.type == "buys")
            )
        ).one()
        for year, page in zip((2024, 2025), pages, strict=True):
            known: dict[str, Any] = {
                "properties": {"tonnes": year},
                "grounds": [EvidenceInput(page["url"], page["content"][7:])],
            }
            for name in sorted(names):
                await nodes.add_node(
                    session, scope, Validators(), type_name="Thing", name=name, **known
                )
            known |= {"source_id": edge.source_id, "target_id": edge.target_id}
            await edges.add_edge(session, scope, Validators(), type_name="buys", **known)
        found = await session.scalars(select(Source.id).where(Source.agent_id == agent.id))
        return min(found)


async def merged(session: AsyncSession, agent: Agent, name: str = "Battery") -> UUID:
    """A merge of two nodes, whose names are the agent's own; its id. There is the type Thing already."""
    kept, gone = await doubled(session, agent, name, f"{name}s")
    scope = GraphScope(agent.owner_id, agent.id)
    made = await entity_resolution.merge_nodes(
        session, scope, kept_id=kept, merged_id=gone, reason="One.", made_by=agent.owner_id
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


async def forget_pages(database: Database, agent: Agent) -> None:
    """As if no page had said a word of anything: nothing is known but that things are."""
    async with database.transaction() as session:
        await session.execute(delete(Evidence).where(Evidence.agent_id == agent.id))
        await session.execute(delete(Source).where(Source.agent_id == agent.id))
        facts = GraphNode.agent_id == agent.id, GraphNode.type == "Thing"
        await session.execute(update(GraphNode).where(*facts).values(properties={}, seal=None))
        edges = update(GraphEdge).where(GraphEdge.agent_id == agent.id)
        await session.execute(edges.values(properties={}, seal=None))
