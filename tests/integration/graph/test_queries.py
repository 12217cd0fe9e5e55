"""What users see of a graph, and that they never see the graphs of others."""

from uuid import uuid4

import psycopg
import pytest

from services.api.resources.graph import model as graph
from shared.enums import ADVICE_TYPE, StepKind
from shared.graph import context, elements, types
from shared.graph.conclusions import conclusions, queries
from shared.graph.retrieval import query
from shared.graph.scope import GraphScope
from shared.schemas.base import GraphCounts, PageRequest
from shared.tools import ToolRefusalError
from tests.support.api.access import agent_access, is_missing
from tests.support.forecast_terms import ANALYSIS_TERMS
from tests.support.graph.agent_graph import COUNTRY, COUNTRY_SCHEMA, EVIDENCE_INPUTS, AgentGraph
from tests.support.graph.descriptions import describe_nodes, resolve_references


async def test_counts_lists_and_one_node_with_its_edges(agent_graph: AgentGraph) -> None:
    ghana, togo, benin = [await agent_graph.node(name) for name in ("Ghana", "Togo", "Benin")]
    near, far = await agent_graph.edge(ghana, togo), await agent_graph.edge(togo, benin)
    async with agent_graph.database.transaction() as session:
        analysis = await conclusions.add_analysis(
            session,
            agent_graph.scope,
            name="Growth",
            kind="observation",
            summary="It grows.",
            content=f"[node:{ghana}]",
            **ANALYSIS_TERMS,
        )
        counts = (await graph.count_by_type(agent_access(session, agent_graph.scope))).totals
        newest = await graph.newest_nodes(agent_access(session, agent_graph.scope), limit=2)
        countries = await graph.newest_nodes(
            agent_access(session, agent_graph.scope), type_name="Country"
        )
        edges = await graph.newest_edges(agent_access(session, agent_graph.scope))
        edge_types = await types.list_edge_types(session, agent_graph.scope)
        details = await graph.get_node(agent_access(session, agent_graph.scope), togo)
        no_advice = await queries.list_conclusions(
            session, agent_graph.scope, ADVICE_TYPE, PageRequest()
        )
    assert counts == GraphCounts(nodes=4, edges=2, analyses=1, advice=0)
    assert [node.id for node in newest] == [analysis, benin]
    assert [node.name for node in countries] == ["Benin", "Togo", "Ghana"]
    assert [(edge.id, edge.source_name, edge.target_name) for edge in edges] == [
        (far, "Togo", "Benin"),
        (near, "Ghana", "Togo"),
    ]
    assert [edge_type.name for edge_type in edge_types] == ["about", "borders"]
    assert details.name == "Togo"
    assert [edge.id for edge in details.edges.items] == [far, near]
    assert (no_advice.items, no_advice.next) == ([], None)


async def test_limits_out_of_range_are_clamped(agent_graph: AgentGraph) -> None:
    await agent_graph.node("Ghana")
    async with agent_graph.database.transaction() as session:
        assert await graph.newest_nodes(agent_access(session, agent_graph.scope), limit=-1) == []
        assert (
            len(await graph.newest_nodes(agent_access(session, agent_graph.scope), limit=10**9))
            == 1
        )


async def test_other_users_can_neither_read_nor_write_the_graph(
    agent_graph: AgentGraph, stranger: AgentGraph
) -> None:
    ghana, togo = await agent_graph.node("Ghana"), await agent_graph.node("Togo")
    await agent_graph.edge(ghana, togo)
    intruder = GraphScope(owner_id=stranger.scope.owner_id, agent_id=agent_graph.scope.agent_id)
    async with agent_graph.database.transaction() as session:
        counts = (await graph.count_by_type(agent_access(session, intruder))).totals
        assert counts == GraphCounts(nodes=0, edges=0, analyses=0, advice=0)
        assert await graph.newest_nodes(agent_access(session, intruder)) == []
        assert await graph.newest_edges(agent_access(session, intruder)) == []
        assert await types.list_node_types(session, intruder) == []
        assert await types.list_edge_types(session, intruder) == []
        assert await is_missing(graph.get_node(agent_access(session, intruder), ghana))
        assert (await query.query_graph(session, intruder, neighbours=True))["nodes"] == []
        survey = await context.build_survey(session, intruder, StepKind.OBSERVE)
        assert survey == "The graph is empty."
        assert await describe_nodes(session, intruder, [ghana]) == ""
        assert await resolve_references(session, intruder, ["Ghana"]) == ([], ["Ghana"])
        with pytest.raises(ToolRefusalError, match="no node type"):
            await elements.add_node(
                session,
                intruder,
                agent_graph.validators,
                type_name="Country",
                name="Mali",
                properties=COUNTRY,
                evidence=EVIDENCE_INPUTS,
            )
    with pytest.raises(psycopg.IntegrityError):
        async with agent_graph.database.transaction() as session:
            await types.create_node_type(
                session,
                intruder,
                agent_graph.validators,
                name="River",
                description="x",
                properties_schema=COUNTRY_SCHEMA,
                example_properties=COUNTRY,
                created_by="intruder",
            )


async def test_nodes_of_another_agent_are_not_found(
    agent_graph: AgentGraph, stranger: AgentGraph
) -> None:
    foreign_node = await stranger.node("Mali")
    async with agent_graph.database.transaction() as session:
        access = agent_access(session, agent_graph.scope)
        assert await is_missing(graph.get_node(access, foreign_node))
        assert await is_missing(graph.get_node(access, uuid4()))
        assert (await graph.count_by_type(access)).totals.nodes == 0
