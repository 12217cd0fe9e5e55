"""Every property that an iteration writes is supported by a quote of a page it read, to the byte."""

from collections import Counter
from random import Random
from typing import Final
from uuid import UUID

import pytest
from sqlalchemy import ColumnElement, select

from shared.database.engine import Database
from shared.database.tables import Agent, Evidence, GraphEdge, GraphNode, Interaction, Source
from shared.database.transaction import Transaction
from shared.enums import Phase
from shared.graph.conclusions import conclusions
from shared.graph.provenance import integrity
from shared.graph.provenance.claims import Claim, project_properties
from shared.graph.scope import GraphScope
from shared.graph.types import RESERVED_TYPES
from shared.runtime.settings import Settings
from shared.tools import Json
from tests.support.factories import make_agent
from tests.support.forecast_terms import ADVICE_TERMS, ANALYSIS_TERMS
from tests.support.graph.mutations import MUTATIONS, name_of
from tests.support.graph.random_rows import Chance
from tests.support.graph.verification import breaks
from tests.support.running_services import ended_iteration, running_services
from tests.support.seeds import repeatable

ROUNDS: Final = 2
"""How often each kind of mutation is made, unless $VIGIL_TEST_SEEDS sets it."""


@pytest.fixture
async def agent(database: Database, sandbox_settings: Settings) -> Agent:
    """An agent after its first iteration."""
    created = await make_agent(
        database, mission="Watch Halden Energy, Kestrel Cells and their suppliers of lithium"
    )
    async with running_services(sandbox_settings):
        await ended_iteration(database, created, 1)
    return created


async def test_all_nodes_and_edges_are_supported_by_pages(agent: Agent, database: Database) -> None:
    async with database.transaction() as session:
        nodes = [
            node
            for node in await session.scalars(select(GraphNode))
            if node.type not in RESERVED_TYPES
        ]
        edges = [edge for edge in await session.scalars(select(GraphEdge)) if edge.type != "about"]
        assert len(nodes) >= 5
        assert len(edges) >= 3
        for node in nodes:
            ids = await _assert_supported(session, Evidence.node_id == node.id, node.properties)
            assert node.seal == integrity.node_seal(
                node_id=node.id,
                agent_id=agent.id,
                type_name=node.type,
                name=node.name,
                properties=node.properties,
                evidence=ids,
            )
        for edge in edges:
            ids = await _assert_supported(session, Evidence.edge_id == edge.id, edge.properties)
            assert edge.seal == integrity.edge_seal(
                edge_id=edge.id,
                agent_id=agent.id,
                type_name=edge.type,
                source_id=edge.source_id,
                target_id=edge.target_id,
                properties=edge.properties,
                evidence=ids,
            )


@pytest.mark.slow
async def test_every_unauthorized_change_of_the_graph_is_detected(
    agent: Agent, database: Database, seed: int, seeds_wanted: int | None
) -> None:
    scope, random = GraphScope(agent.owner_id, agent.id), Random(seed)
    async with database.transaction() as session:
        node = await session.scalar(select(GraphNode.id).where(GraphNode.agent_id == agent.id))
        edge = await session.scalar(select(GraphEdge.id).where(GraphEdge.agent_id == agent.id))
        analyses = [
            await conclusions.add_analysis(
                session,
                scope,
                name=name,
                kind="observation",
                summary="It is so.",
                content=f"It is so [node:{node}], as [edge:{edge}] says.",
                **ANALYSIS_TERMS,
            )
            for name in ("So it is", "And so it is, too")
        ]
        await conclusions.add_advice(
            session,
            scope,
            name="Wait",
            action="HOLD",
            summary="Wait.",
            content=f"As it is so {' '.join(f'[node:{analysis}]' for analysis in analyses)}.",
            **ADVICE_TERMS,
        )
    mutation_counts, detection_counts = Counter[str](), Counter[str]()
    with repeatable(seed):
        for mutation in [*MUTATIONS] * (seeds_wanted or ROUNDS):
            async with database.transaction() as session:
                assert await breaks(session, scope) == [], "intact"
                await mutation(Chance(session, random, agent.id))
                mutation_counts[name_of(mutation)] += 1
                detection_counts[name_of(mutation)] += bool(await breaks(session, scope))
                await session.rollback()
    assert detection_counts == mutation_counts
    print(
        f"{detection_counts.total()} of {mutation_counts.total()} mutations detected, of {len(mutation_counts)} kinds"
    )


async def test_no_tool_call_of_the_sandbox_is_refused(agent: Agent, database: Database) -> None:
    async with database.transaction() as session:
        runs = await session.scalars(
            select(Interaction.events).where(Interaction.phase == Phase.GRAPH_CONSTRUCTION)
        )
        results: list[Json] = [
            event["result"] for events in runs for event in events if "result" in event
        ]
    assert len(results) > 10
    assert [result["error"] for result in results if "error" in result] == []


async def _assert_supported(
    session: Transaction, condition: ColumnElement[bool], properties: Json
) -> list[UUID]:
    """Asserts that its quotes are in their pages and its properties follow from them; returns the ids of its evidence."""
    rows = (
        await session.execute(
            select(Evidence, Source).join(Source, Source.id == Evidence.source_id).where(condition)
        )
    ).all()
    assert rows
    for evidence, source in rows:
        quote = source.text.encode()[evidence.first_byte : evidence.end_byte]
        assert integrity.sha256(quote) == evidence.quote_sha256
        assert integrity.sha256(source.text) == source.sha256
    claims = [
        Claim(evidence.id, evidence.claims, evidence.as_of, evidence.learned_at, url=source.url)
        for evidence, source in rows
    ]
    assert project_properties({}, claims) == properties
    return [evidence.id for evidence, _ in rows]
