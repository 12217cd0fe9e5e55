"""Database rows for the tests of the API."""

from dataclasses import dataclass
from typing import Any
from uuid import UUID, uuid4

from sqlalchemy import delete, select, update

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
from shared.database.transaction import Transaction
from shared.graph import elements, entity_resolution, system_types
from shared.graph.conclusions import conclusions
from shared.graph.entity_resolution import distinct
from shared.graph.provenance.evidence import EvidenceInput
from shared.graph.provenance.sources import store_pages
from shared.graph.retraction import retractions
from shared.graph.retraction.propagation import propagate_retractions
from shared.graph.scope import GraphScope
from shared.graph.validation import Validators
from tests.support.factories import make_iteration
from tests.support.forecast_terms import ADVICE_TERMS, ANALYSIS_TERMS
from tests.support.graph.evidence_rows import make_source
from tests.support.second_analysis import add_second_analysis
from tests.support.table_rows import add


async def get_agent(database: Database, name: str) -> Agent:
    async with database.transaction() as session:
        return (await session.scalars(select(Agent).where(Agent.name == name))).one()


async def start_iteration(database: Database, agent_name: str) -> UUID:
    """Starts an iteration of the agent; returns its id."""
    return (await make_iteration(database, await get_agent(database, agent_name))).iteration.id


@dataclass(frozen=True)
class RetractedPage:
    url: str
    source_id: UUID
    retraction_id: UUID


async def add_retracted_page(database: Database, agent: Agent, url: str) -> RetractedPage:
    """Stores and retracts a page that is evidence of nothing."""
    scope = GraphScope(agent.owner_id, agent.id)
    async with database.transaction() as session:
        source_id = await make_source(session, scope, url)
        retraction_id = await retractions.retract_source(session, scope, url, "made up")
    await propagate_retractions(database)
    return RetractedPage(url, source_id, retraction_id)


async def add_advice(database: Database, agent: Agent) -> None:
    """Adds two nodes, an edge, analyses that cite a node or the edge, and advice that cites both."""
    scope = GraphScope(agent.owner_id, agent.id)
    maker, metal, edge = (uuid4() for _ in range(3))
    async with database.transaction() as session:
        await system_types.ensure_system_types(session, agent.id)
        await add(
            session,
            *[
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
            ],
        )
        for node_id, name in ((maker, "Halden Cells"), (metal, "Lithium")):
            await session.insert(
                GraphNode, id=node_id, agent_id=agent.id, type="Thing", name=name, properties={}
            )
        await session.insert(
            GraphEdge, id=edge, agent_id=agent.id, type="buys", source_id=maker, target_id=metal
        )
        analysis = await conclusions.add_analysis(
            session,
            scope,
            name="Halden buys lithium",
            kind="observation",
            summary="It buys.",
            content=f"Halden [node:{maker}] buys it [edge:{edge}].",
            **ANALYSIS_TERMS,
        )
        second = await add_second_analysis(session, scope, metal, "Lithium is bought")
        await conclusions.add_advice(
            session,
            scope,
            name="Wait for Halden",
            action="HOLD",
            summary="Nothing to do about Lithium.",
            content=f"As it stands [node:{analysis}] [node:{second}].",
            **ADVICE_TERMS,
        )


async def add_evidence(database: Database, agent: Agent) -> UUID:
    """Adds two pages that are evidence of every node and edge; returns the id of one page."""
    scope = GraphScope(agent.owner_id, agent.id)
    is_thing = GraphNode.agent_id == agent.id, GraphNode.type == "Thing"
    pages = [
        {
            "url": f"https://press.example/{year}",
            "title": "Lithium of Halden Cells",
            "content": f"Halden bought {year} tonnes – ½ of all.",
            "published_date": f"{year}-12-31",
        }
        for year in (2024, 2025)
    ]
    async with database.transaction() as session:
        await store_pages(session, scope, {"results": pages})
        names = list(await session.scalars(select(GraphNode.name).where(*is_thing)))
        edge = (
            await session.scalars(
                select(GraphEdge).where(GraphEdge.agent_id == agent.id, GraphEdge.type == "buys")
            )
        ).one()
        for year, page in zip((2024, 2025), pages, strict=True):
            content: dict[str, Any] = {
                "properties": {"tonnes": year},
                "evidence": [EvidenceInput(page["url"], page["content"][7:])],
            }
            for name in sorted(names):
                await elements.add_node(
                    session, scope, Validators(), type_name="Thing", name=name, **content
                )
            content |= {"source_id": edge.source_id, "target_id": edge.target_id}
            await elements.add_edge(session, scope, Validators(), type_name="buys", **content)
        source_ids = await session.scalars(select(Source.id).where(Source.agent_id == agent.id))
        return min(source_ids)


async def add_merge(session: Transaction, agent: Agent, name: str = "Battery") -> UUID:
    """Merges two nodes with names of this agent only; returns the merge's id. The type Thing must exist."""
    kept, duplicate = await add_duplicates(session, agent, name, f"{name}s")
    scope = GraphScope(agent.owner_id, agent.id)
    merge = await entity_resolution.merge_nodes(
        session, scope, kept_id=kept, merged_id=duplicate, reason="One.", made_by=agent.owner_id
    )
    assert merge is not None
    return merge.id


async def add_distinct_pair(session: Transaction, agent: Agent, name: str = "Shaft") -> UUID:
    """Declares two new nodes with names of this agent only distinct; returns the pair's id."""
    one, other = await add_duplicates(session, agent, name, f"{name}s")
    pair_id = await distinct.declare_distinct(
        session, GraphScope(agent.owner_id, agent.id), (one, other), agent.owner_id
    )
    assert pair_id is not None
    return pair_id


async def add_duplicates(session: Transaction, agent: Agent, *names: str) -> list[UUID]:
    """Adds nodes that can be merged; returns their ids."""
    node_ids = [uuid4() for _ in names]
    for node_id, name in zip(node_ids, names, strict=True):
        full_name = f"{name} of {agent.name}"
        await session.insert(
            GraphNode, id=node_id, agent_id=agent.id, type="Thing", name=full_name, properties={}
        )
    return node_ids


async def delete_pages(database: Database, agent: Agent) -> None:
    """Removes all pages and evidence, and the properties that rest on them."""
    async with database.transaction() as session:
        await session.execute(delete(Evidence).where(Evidence.agent_id == agent.id))
        await session.execute(delete(Source).where(Source.agent_id == agent.id))
        is_thing = GraphNode.agent_id == agent.id, GraphNode.type == "Thing"
        await session.execute(update(GraphNode).where(*is_thing).values(properties={}, seal=None))
        update_edges = update(GraphEdge).where(GraphEdge.agent_id == agent.id)
        await session.execute(update_edges.values(properties={}, seal=None))
