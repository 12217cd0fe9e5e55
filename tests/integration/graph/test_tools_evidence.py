"""The evidence that the tools require, and how they refuse calls without it."""

from datetime import UTC, datetime
from typing import Any
from uuid import UUID

import pytest
from pydantic import ValidationError
from sqlalchemy import func, select

from shared.database.tables import Evidence, GraphEdge, GraphNode
from shared.graph import tools
from shared.graph.provenance import integrity
from shared.tools import INTERPRETATIONS_KEY, Json, ToolRefusalError
from tests.support.case_files import read_cases
from tests.support.graph.agent_graph import COUNTRY, AgentGraph
from tests.support.graph.tooling import EVIDENCE, call, find_tool

CASES = read_cases(__file__)


async def _add(agent_graph: AgentGraph, evidence: list[dict[str, Any]], **properties: Any) -> Json:
    add = find_tool(
        tools.graph_construction(agent_graph.scope, agent_graph.validators), "addGraphNode"
    )
    return await call(
        agent_graph,
        add,
        type="Country",
        name="Ghana",
        properties=COUNTRY | properties,
        evidence=evidence,
    )


async def test_evidence_has_a_validity_and_answers_report_superseded_values(
    agent_graph: AgentGraph,
) -> None:
    of_2022 = [{**EVIDENCE[0], "validFrom": "2022", "validTo": "2022"}]
    of_2023 = [{**EVIDENCE[0], "validFrom": "2023-05-01T12:00:00+02:00", "validTo": None}]
    await _add(agent_graph, of_2022, population=31)
    newer = await _add(agent_graph, of_2023, population=33)
    assert newer["superseded"] == {"population": {"held": 31, "asOf": "2022-01-01T00:00:00Z"}}
    older = await _add(agent_graph, of_2022, population=30)
    assert older["kept"] == {"population": {"held": 33, "asOf": "2023-05-01T10:00:00Z"}}
    async with agent_graph.database.transaction() as session:
        ends = set(await session.scalars(select(Evidence.valid_to)))
    assert ends == {None, datetime(2023, 1, 1, tzinfo=UTC)}


async def test_invalid_evidence_is_refused(
    agent_graph: AgentGraph, subtests: pytest.Subtests
) -> None:
    for entry, reason in CASES["invalid_evidence_is_refused"]:
        with subtests.test(str(entry)), pytest.raises(ToolRefusalError, match=reason):
            await _add(agent_graph, [EVIDENCE[0] | entry])


async def test_a_wrapped_value_is_unwrapped(agent_graph: AgentGraph) -> None:
    wrapped = {"validFrom": "2023-01-01", "value": 31}
    result = await _add(agent_graph, EVIDENCE, population=wrapped)
    assert result[INTERPRETATIONS_KEY] == ["properties.population: its inner value was taken."]
    async with agent_graph.database.transaction() as session:
        [properties] = await session.scalars(select(GraphNode.properties))
    assert properties["population"] == 31


async def test_an_invalid_property_is_left_out_and_reported(agent_graph: AgentGraph) -> None:
    naming = [EVIDENCE[0], {**EVIDENCE[0], "properties": ["population"]}]
    result = await _add(agent_graph, naming, population="many")
    [note] = result[INTERPRETATIONS_KEY]
    assert "population: 'many' is not of type" in note
    assert "left out" in note
    async with agent_graph.database.transaction() as session:
        [properties] = await session.scalars(select(GraphNode.properties))
        claims = await session.scalars(select(Evidence.claims))
    assert "population" not in properties
    assert all("population" not in claim for claim in claims)


async def test_a_node_without_any_valid_property_is_refused(agent_graph: AgentGraph) -> None:
    add = find_tool(
        tools.graph_construction(agent_graph.scope, agent_graph.validators), "addGraphNode"
    )
    with pytest.raises(ToolRefusalError, match="population: 'many' is not of type"):
        await call(
            agent_graph,
            add,
            type="Country",
            name="Ghana",
            properties={"population": "many"},
            evidence=EVIDENCE,
        )
    async with agent_graph.database.transaction() as session:
        assert await session.scalar(select(func.count()).select_from(GraphNode)) == 0


async def test_arguments_without_evidence_are_invalid(agent_graph: AgentGraph) -> None:
    for name in ("addGraphNode", "addGraphEdge"):
        tool = find_tool(tools.graph_construction(agent_graph.scope), name)
        for evidence in (None, [], EVIDENCE * 11):
            with pytest.raises(ValidationError, match="evidence"):
                tool.arguments.model_validate({"type": "x", "name": "x", "evidence": evidence})


async def test_an_analyzer_links_only_analyses(agent_graph: AgentGraph) -> None:
    ghana, togo = await agent_graph.node("Ghana"), await agent_graph.node("Togo")
    await agent_graph.edge_type("resembles")
    analyzer = tools.analysis_generation(agent_graph.scope)
    link = find_tool(analyzer, "addGraphEdge")
    arguments = {"type": "borders", "sourceId": str(ghana), "targetId": str(togo)}
    with pytest.raises(ToolRefusalError, match="Neither end is an AgentAnalysis"):
        await call(agent_graph, link, **arguments)
    with pytest.raises(ValidationError, match="evidence"):
        link.arguments.model_validate({**arguments, "evidence": EVIDENCE})
    analysis = await call(
        agent_graph,
        find_tool(analyzer, "addAgentAnalysisNode"),
        name="Growth",
        type="observation",
        summary="It grows.",
        content=f"It grows [node:{ghana}].",
        confidence=0.5,
    )
    for properties in ({"share": 1}, {"why": "both grow"}):
        answer = await call(
            agent_graph,
            link,
            type="resembles",
            sourceId=str(ghana),
            targetId=analysis["nodeId"],
            properties=properties,
        )
    assert answer["created"] is False
    async with agent_graph.database.transaction() as session:
        edge = await session.get_one(GraphEdge, UUID(answer["edgeId"]))
        node = await session.get_one(GraphNode, UUID(analysis["nodeId"]))
        assert await session.scalar(select(func.count()).where(Evidence.edge_id == edge.id)) == 0
    assert edge.properties == {"share": 1, "why": "both grow"}
    assert edge.seal == integrity.edge_seal(
        edge_id=edge.id,
        agent_id=edge.agent_id,
        type_name="resembles",
        source_id=ghana,
        target_id=node.id,
        properties=edge.properties,
        evidence=(),
    )
    assert node.seal == integrity.node_seal(
        node_id=node.id,
        agent_id=node.agent_id,
        type_name="AgentAnalysis",
        name="Growth",
        properties=node.properties,
        evidence=(),
        rules=node.rules,
    )


async def test_graph_construction_cannot_add_edges_to_conclusions(agent_graph: AgentGraph) -> None:
    ghana = await agent_graph.node("Ghana")
    analysis = await agent_graph.analysis(f"It grows [node:{ghana}].", "Growth")
    connect = find_tool(tools.graph_construction(agent_graph.scope), "addGraphEdge")
    with pytest.raises(ToolRefusalError, match="An end is an AgentAnalysis"):
        await call(
            agent_graph,
            connect,
            type="about",
            sourceId=str(analysis),
            targetId=str(ghana),
            evidence=EVIDENCE,
        )
