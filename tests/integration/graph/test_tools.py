"""The tools as the model sees them: the tools of each phase, their arguments and their answers."""

from typing import Any

import pytest
from pydantic import ValidationError

from shared.graph import tools
from shared.tools import StateTool, ToolRefusalError, declaration
from tests.support.forecast_terms import ADVICE_TERMS, ANALYSIS_TERMS
from tests.support.graph.agent_graph import COUNTRY, COUNTRY_SCHEMA, AgentGraph
from tests.support.graph.tooling import EVIDENCE, call, find_tool


async def test_each_phase_gets_exactly_its_tools(agent_graph: AgentGraph) -> None:
    def names(phase_tools: list[StateTool[Any]]) -> list[str]:
        return [tool.name for tool in phase_tools]

    assert names(tools.graph_construction(agent_graph.scope)) == [
        "queryGraph",
        "listNodeTypes",
        "listEdgeTypes",
        "createNodeType",
        "createEdgeType",
        "addGraphNode",
        "addGraphEdge",
        "finish",
    ]
    assert names(tools.analysis_generation(agent_graph.scope)) == [
        "queryGraph",
        "addAgentAnalysisNode",
        "addGraphEdge",
        "requestInvestigation",
        "finish",
    ]
    assert names(tools.advice_generation(agent_graph.scope)) == [
        "queryGraph",
        "addAgentAdviceNode",
        "finish",
    ]


async def test_every_tool_and_every_argument_is_described(agent_graph: AgentGraph) -> None:
    phase_tools = {
        tool.name: tool
        for tool in (
            *tools.graph_construction(agent_graph.scope),
            *tools.analysis_generation(agent_graph.scope),
            *tools.advice_generation(agent_graph.scope),
        )
    }
    for tool in phase_tools.values():
        function = declaration(tool)["function"]
        assert len(function["description"]) > 40
        for name, argument in function["parameters"]["properties"].items():
            assert argument["description"], f"{tool.name}.{name}"
            assert "_" not in name


async def test_a_document_becomes_nodes_and_edges(agent_graph: AgentGraph) -> None:
    phase_tools = tools.graph_construction(agent_graph.scope, agent_graph.validators)
    answer = await call(
        agent_graph,
        find_tool(phase_tools, "createNodeType"),
        name="River",
        description="Water that runs.",
        propertiesSchema=COUNTRY_SCHEMA,
        exampleProperties=COUNTRY,
        justification="A river is no country.",
    )
    assert answer == {"name": "River", "created": True}
    answer = await call(
        agent_graph,
        find_tool(phase_tools, "createEdgeType"),
        name="flows_through",
        description="The river runs through the country.",
        sourceTypes=["River"],
        targetTypes=["Country"],
        justification="No type says where a river runs.",
    )
    assert answer == {"name": "flows_through", "created": True}
    add = find_tool(phase_tools, "addGraphNode")
    volta = await call(
        agent_graph, add, type="River", name="Volta", properties=COUNTRY, evidence=EVIDENCE
    )
    ghana = await call(
        agent_graph, add, type="Country", name="Ghana", properties=COUNTRY, evidence=EVIDENCE
    )
    assert volta.keys() == {"nodeId", "created"}
    edge = await call(
        agent_graph,
        find_tool(phase_tools, "addGraphEdge"),
        type="flows_through",
        sourceId=volta["nodeId"],
        targetId=ghana["nodeId"],
        evidence=EVIDENCE,
    )
    graph = await call(
        agent_graph, find_tool(phase_tools, "queryGraph"), text="Volta", neighbours=True
    )
    assert [node["name"] for node in graph["nodes"]] == ["Volta", "Ghana"]
    assert graph["edges"] == [
        {
            "id": edge["edgeId"],
            "type": "flows_through",
            "sourceId": volta["nodeId"],
            "targetId": ghana["nodeId"],
            "properties": {},
            "asOf": "2024-05-01T00:00:00Z",
        }
    ]


async def test_existing_types_are_returned_unchanged(agent_graph: AgentGraph) -> None:
    phase_tools = tools.graph_construction(agent_graph.scope)
    answer = await call(
        agent_graph,
        find_tool(phase_tools, "createNodeType"),
        name="COUNTRY",
        description="Another.",
        propertiesSchema={"type": "object"},
        exampleProperties={},
        justification="None.",
    )
    assert answer == {"name": "Country", "created": False, "propertiesSchema": COUNTRY_SCHEMA}
    listing = await call(agent_graph, find_tool(phase_tools, "listNodeTypes"))
    assert [node_type["name"] for node_type in listing["nodeTypes"]] == [
        "AgentAdvice",
        "AgentAnalysis",
        "Country",
    ]
    assert listing["nodeTypes"][2].keys() == {"name", "description", "propertiesSchema"}
    listing = await call(agent_graph, find_tool(phase_tools, "listEdgeTypes"))
    assert listing["edgeTypes"][0] == {
        "name": "about",
        "description": "the analysis is about this node",
        "sourceTypes": ["AgentAnalysis"],
        "targetTypes": [],
    }


async def test_edges_must_satisfy_the_schema_of_their_type(agent_graph: AgentGraph) -> None:
    phase_tools = tools.graph_construction(agent_graph.scope, agent_graph.validators)
    create, add = find_tool(phase_tools, "createEdgeType"), find_tool(phase_tools, "addGraphEdge")
    schema = {
        "type": "object",
        "properties": {"percent": {"type": "number", "maximum": 100}},
        "additionalProperties": False,
    }
    arguments = {
        "name": "owns",
        "description": "owns a part of",
        "justification": "No type says who owns.",
    }
    for invalid, message in (
        ({"propertiesSchema": schema}, "owns: exampleProperties is missing; give both, or neither"),
        ({"exampleProperties": {}}, "owns: propertiesSchema is missing"),
        (
            {"propertiesSchema": schema, "exampleProperties": {"percent": 101}},
            r"owns \(exampleProperties\): percent: 101 is greater",
        ),
        ({"propertiesSchema": {"type": "array"}, "exampleProperties": {}}, '"type": "object"'),
        ({"justification": " "}, "justification: 0 characters"),
    ):
        with pytest.raises(ToolRefusalError, match=message):
            await call(agent_graph, create, **{**arguments, **invalid})
    valid = {"propertiesSchema": schema, "exampleProperties": {"percent": 51}}
    assert await call(agent_graph, create, **arguments, **valid) == {
        "name": "owns",
        "created": True,
    }
    answer = await call(agent_graph, create, **arguments)
    assert answer["propertiesSchema"] == schema
    listing = await call(agent_graph, find_tool(phase_tools, "listEdgeTypes"))
    assert [edge_type.get("propertiesSchema") for edge_type in listing["edgeTypes"]] == [
        None,
        None,
        schema,
    ]
    ends = {
        "sourceId": await agent_graph.node("Ghana"),
        "targetId": await agent_graph.node("Togo"),
        "evidence": EVIDENCE,
    }
    with pytest.raises(ToolRefusalError, match="do not satisfy the schema of owns: percent"):
        await call(agent_graph, add, type="owns", **ends, properties={"percent": 101})
    assert (await call(agent_graph, add, type="owns", **ends, properties={"percent": 3}))["created"]


async def test_a_long_list_of_types_leaves_out_schemas_and_says_so(agent_graph: AgentGraph) -> None:
    for number in range(3):
        async with agent_graph.database.transaction() as session:
            create = find_tool(tools.graph_construction(agent_graph.scope), "createNodeType")
            arguments = {
                "name": f"Big{number}",
                "description": "Large.",
                "propertiesSchema": {"type": "object", "description": "x" * 9_000},
                "exampleProperties": {},
                "justification": "None fits.",
            }
            await create.run(session, create.arguments.model_validate(arguments))
    listing = await call(agent_graph, tools.list_node_types(agent_graph.scope))
    assert len(listing["nodeTypes"]) == 6
    assert "propertiesSchema" in listing["nodeTypes"][0]
    assert "createNodeType with a name that exists gives its schema" in listing["cut"]


async def test_from_node_to_analysis_to_advice(agent_graph: AgentGraph) -> None:
    ghana = await agent_graph.node("Ghana")
    analyzer = tools.analysis_generation(agent_graph.scope)
    analysis = await call(
        agent_graph,
        find_tool(analyzer, "addAgentAnalysisNode"),
        name="Growth",
        type="observation",
        summary="It grows.",
        content=f"It grows [node:{ghana}].",
        **ANALYSIS_TERMS,
    )
    assert analysis.keys() == {"nodeId"}
    edge = await call(
        agent_graph,
        find_tool(analyzer, "addGraphEdge"),
        type="about",
        sourceId=analysis["nodeId"],
        targetId=str(ghana),
    )
    assert edge["created"]
    second = await agent_graph.analysis(f"It is so [node:{ghana}].", "And so it is")
    advice = await call(
        agent_graph,
        find_tool(tools.advice_generation(agent_graph.scope), "addAgentAdviceNode"),
        name="Buy",
        action="BUY",
        summary="Buy it.",
        content=f"Because [node:{analysis['nodeId']}] [node:{second}].",
        **ADVICE_TERMS,
    )
    assert advice.keys() == {"nodeId", "action"}


async def test_graph_construction_cannot_write_conclusions(agent_graph: AgentGraph) -> None:
    add = find_tool(tools.graph_construction(agent_graph.scope), "addGraphNode")
    for reserved in ("AgentAnalysis", "AgentAdvice"):
        with pytest.raises(ToolRefusalError, match="conclusions"):
            await call(agent_graph, add, type=reserved, name="x", properties={}, evidence=EVIDENCE)


async def test_unknown_and_invalid_arguments_are_reported(agent_graph: AgentGraph) -> None:
    advise = tools.add_agent_advice_node(agent_graph.scope)
    with pytest.raises(ValidationError, match="action"):
        advise.arguments.model_validate(
            {"name": "x", "action": "WAIT", "summary": "x", "content": "x"}
        )
    with pytest.raises(ValidationError, match="colour"):
        tools.query_graph(agent_graph.scope).arguments.model_validate({"colour": "red"})
    with pytest.raises(ValidationError, match="limit"):
        tools.query_graph(agent_graph.scope).arguments.model_validate({"limit": 51})


@pytest.mark.parametrize(
    ("since", "names"), [("2020", ["Ghana"]), ("2020-01-31", ["Ghana"]), ("2999-01-01", [])]
)
async def test_a_query_accepts_plain_dates(
    agent_graph: AgentGraph, since: str, names: list[str]
) -> None:
    await agent_graph.node("Ghana")
    tool = tools.query_graph(agent_graph.scope)
    graph = await call(agent_graph, tool, updatedSince=since)
    assert [node["name"] for node in graph["nodes"]] == names
    with pytest.raises(ToolRefusalError, match="updatedSince: 'lately' is not a date; write YYYY"):
        await call(agent_graph, tool, updatedSince="lately")


async def test_a_query_promises_no_earlier_values(agent_graph: AgentGraph) -> None:
    with pytest.raises(ValidationError, match="asOf"):
        tools.query_graph(agent_graph.scope).arguments.model_validate({"asOf": "2026-10-30"})
