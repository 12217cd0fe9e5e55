"""The tools as the model meets them: which each phase has, what they take, what they give back."""

from typing import Any

import pytest
from pydantic import ValidationError

from shared.graph import tools
from shared.tools import StateTool, ToolRefusalError, declaration
from tests.support.committing import COMMITTED, SURE
from tests.support.graph.tooling import EVIDENCE, call, named
from tests.support.graph.world import COUNTRY, COUNTRY_SCHEMA, World


async def test_each_phase_is_handed_its_tools_and_no_others(world: World) -> None:
    def names(offered: list[StateTool[Any]]) -> list[str]:
        return [tool.name for tool in offered]

    assert names(tools.graph_construction(world.scope)) == [
        "queryGraph",
        "listNodeTypes",
        "listEdgeTypes",
        "createNodeType",
        "createEdgeType",
        "addGraphNode",
        "addGraphEdge",
    ]
    assert names(tools.analysis_generation(world.scope)) == [
        "queryGraph",
        "addAgentAnalysisNode",
        "addGraphEdge",
        "requestInvestigation",
    ]
    assert names(tools.advice_generation(world.scope)) == ["queryGraph", "addAgentAdviceNode"]


async def test_every_tool_and_every_argument_is_described(world: World) -> None:
    offered = {
        tool.name: tool
        for tool in (
            *tools.graph_construction(world.scope),
            *tools.analysis_generation(world.scope),
            *tools.advice_generation(world.scope),
        )
    }
    for tool in offered.values():
        function = declaration(tool)["function"]
        assert len(function["description"]) > 40
        for name, argument in function["parameters"]["properties"].items():
            assert argument["description"], f"{tool.name}.{name}"
            assert "_" not in name


async def test_a_document_becomes_nodes_and_edges(world: World) -> None:
    offered = tools.graph_construction(world.scope, world.validators)
    made = await call(
        world,
        named(offered, "createNodeType"),
        name="River",
        description="Water that runs.",
        propertiesSchema=COUNTRY_SCHEMA,
        exampleProperties=COUNTRY,
        justification="A river is no country.",
    )
    assert made == {"name": "River", "created": True}
    made = await call(
        world,
        named(offered, "createEdgeType"),
        name="flows_through",
        description="The river runs through the country.",
        sourceTypes=["River"],
        targetTypes=["Country"],
        justification="No type says where a river runs.",
    )
    assert made == {"name": "flows_through", "created": True}
    add = named(offered, "addGraphNode")
    volta = await call(
        world, add, type="River", name="Volta", properties=COUNTRY, evidence=EVIDENCE
    )
    ghana = await call(
        world, add, type="Country", name="Ghana", properties=COUNTRY, evidence=EVIDENCE
    )
    assert volta.keys() == {"nodeId", "created"}
    edge = await call(
        world,
        named(offered, "addGraphEdge"),
        type="flows_through",
        sourceId=volta["nodeId"],
        targetId=ghana["nodeId"],
        evidence=EVIDENCE,
    )
    found = await call(world, named(offered, "queryGraph"), text="Volta", neighbours=True)
    assert [node["name"] for node in found["nodes"]] == ["Volta", "Ghana"]
    assert found["edges"] == [
        {
            "id": edge["edgeId"],
            "type": "flows_through",
            "sourceId": volta["nodeId"],
            "targetId": ghana["nodeId"],
            "properties": {},
            "asOf": "2024-05-01T00:00:00Z",
        }
    ]


async def test_types_that_exist_are_given_back_as_they_are(world: World) -> None:
    offered = tools.graph_construction(world.scope)
    made = await call(
        world,
        named(offered, "createNodeType"),
        name="COUNTRY",
        description="Another.",
        propertiesSchema={"type": "object"},
        exampleProperties={},
        justification="None.",
    )
    assert made == {"name": "Country", "created": False, "propertiesSchema": COUNTRY_SCHEMA}
    listed = await call(world, named(offered, "listNodeTypes"))
    assert [each["name"] for each in listed["nodeTypes"]] == [
        "AgentAdvice",
        "AgentAnalysis",
        "Country",
    ]
    assert listed["nodeTypes"][2].keys() == {"name", "description", "propertiesSchema"}
    listed = await call(world, named(offered, "listEdgeTypes"))
    assert listed["edgeTypes"][0] == {
        "name": "about",
        "description": "the analysis is about this node",
        "sourceTypes": ["AgentAnalysis"],
        "targetTypes": [],
    }


async def test_edges_satisfy_the_schema_that_their_type_was_given(world: World) -> None:
    offered = tools.graph_construction(world.scope, world.validators)
    create, add = named(offered, "createEdgeType"), named(offered, "addGraphEdge")
    schema = {
        "type": "object",
        "properties": {"percent": {"type": "number", "maximum": 100}},
        "additionalProperties": False,
    }
    given = {
        "name": "owns",
        "description": "owns a part of",
        "justification": "No type says who owns.",
    }
    for wrong, why in (
        ({"propertiesSchema": schema}, "owns: exampleProperties is missing; give both, or neither"),
        ({"exampleProperties": {}}, "owns: propertiesSchema is missing"),
        (
            {"propertiesSchema": schema, "exampleProperties": {"percent": 101}},
            r"owns \(exampleProperties\): percent: 101 is greater",
        ),
        ({"propertiesSchema": {"type": "array"}, "exampleProperties": {}}, '"type": "object"'),
        ({"justification": " "}, "justification: 0 characters"),
    ):
        with pytest.raises(ToolRefusalError, match=why):
            await call(world, create, **{**given, **wrong})
    right = {"propertiesSchema": schema, "exampleProperties": {"percent": 51}}
    assert await call(world, create, **given, **right) == {"name": "owns", "created": True}
    again = await call(world, create, **given)
    assert again["propertiesSchema"] == schema
    listed = await call(world, named(offered, "listEdgeTypes"))
    assert [each.get("propertiesSchema") for each in listed["edgeTypes"]] == [None, None, schema]
    ends = {
        "sourceId": await world.node("Ghana"),
        "targetId": await world.node("Togo"),
        "evidence": EVIDENCE,
    }
    with pytest.raises(ToolRefusalError, match="do not satisfy the schema of owns: percent"):
        await call(world, add, type="owns", **ends, properties={"percent": 101})
    assert (await call(world, add, type="owns", **ends, properties={"percent": 3}))["created"]


async def test_a_long_list_of_types_leaves_out_schemas_and_says_so(world: World) -> None:
    for number in range(3):
        async with world.database.transaction() as session:
            create = named(tools.graph_construction(world.scope), "createNodeType")
            given = {
                "name": f"Big{number}",
                "description": "Large.",
                "propertiesSchema": {"type": "object", "description": "x" * 9_000},
                "exampleProperties": {},
                "justification": "None fits.",
            }
            await create.run(session, create.arguments.model_validate(given))
    listed = await call(world, tools.list_node_types(world.scope))
    assert len(listed["nodeTypes"]) == 6
    assert "propertiesSchema" in listed["nodeTypes"][0]
    assert "createNodeType with a name that exists gives its schema" in listed["cut"]


async def test_from_node_to_analysis_to_advice(world: World) -> None:
    ghana = await world.node("Ghana")
    analyzer = tools.analysis_generation(world.scope)
    analysis = await call(
        world,
        named(analyzer, "addAgentAnalysisNode"),
        name="Growth",
        type="observation",
        summary="It grows.",
        content=f"It grows [node:{ghana}].",
        **SURE,
    )
    assert analysis.keys() == {"nodeId"}
    edge = await call(
        world,
        named(analyzer, "addGraphEdge"),
        type="about",
        sourceId=analysis["nodeId"],
        targetId=str(ghana),
    )
    assert edge["created"]
    advice = await call(
        world,
        named(tools.advice_generation(world.scope), "addAgentAdviceNode"),
        name="Buy",
        action="BUY",
        summary="Buy it.",
        content=f"Because [node:{analysis['nodeId']}].",
        **COMMITTED,
    )
    assert advice.keys() == {"nodeId", "action"}


async def test_graph_construction_cannot_write_conclusions(world: World) -> None:
    add = named(tools.graph_construction(world.scope), "addGraphNode")
    for reserved in ("AgentAnalysis", "AgentAdvice"):
        with pytest.raises(ToolRefusalError, match="conclusions"):
            await call(world, add, type=reserved, name="x", properties={}, evidence=EVIDENCE)


async def test_arguments_that_are_not_known_or_not_right_are_told(world: World) -> None:
    advise = tools.add_agent_advice_node(world.scope)
    with pytest.raises(ValidationError, match="action"):
        advise.arguments.model_validate(
            {"name": "x", "action": "WAIT", "summary": "x", "content": "x"}
        )
    with pytest.raises(ValidationError, match="colour"):
        tools.query_graph(world.scope).arguments.model_validate({"colour": "red"})
    with pytest.raises(ValidationError, match="limit"):
        tools.query_graph(world.scope).arguments.model_validate({"limit": 51})
