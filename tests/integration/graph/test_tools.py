"""The tools as the model meets them: which each phase has, what they take, what they give back."""

from datetime import UTC, datetime
from typing import Any
from uuid import UUID

import pytest
from pydantic import ValidationError
from sqlalchemy import func, select

from shared.graph import conclusions, tools
from shared.graph.proof import seals
from shared.store.tables import Evidence, GraphEdge, GraphNode
from shared.tools import Json, StateTool, ToolRefusalError, declaration
from tests.committing import COMMITTED, SURE
from tests.integration.graph.world import COUNTRY, COUNTRY_SCHEMA, PAGE, World

EVIDENCE = [{"sourceUrl": PAGE["url"], "quote": PAGE["content"]}]


async def _call(world: World, tool: StateTool[Any], **arguments: Any) -> Json:
    async with world.database.transaction() as session:
        return await tool.run(session, tool.arguments.model_validate(arguments))


def _named(offered: list[StateTool[Any]], name: str) -> StateTool[Any]:
    return next(tool for tool in offered if tool.name == name)


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
    made = await _call(
        world,
        _named(offered, "createNodeType"),
        name="River",
        description="Water that runs.",
        propertiesSchema=COUNTRY_SCHEMA,
        exampleProperties=COUNTRY,
        justification="A river is no country.",
    )
    assert made == {"name": "River", "created": True}
    made = await _call(
        world,
        _named(offered, "createEdgeType"),
        name="flows_through",
        description="The river runs through the country.",
        sourceTypes=["River"],
        targetTypes=["Country"],
        justification="No type says where a river runs.",
    )
    assert made == {"name": "flows_through", "created": True}
    add = _named(offered, "addGraphNode")
    volta = await _call(
        world, add, type="River", name="Volta", properties=COUNTRY, evidence=EVIDENCE
    )
    ghana = await _call(
        world, add, type="Country", name="Ghana", properties=COUNTRY, evidence=EVIDENCE
    )
    assert volta.keys() == {"nodeId", "created"}
    edge = await _call(
        world,
        _named(offered, "addGraphEdge"),
        type="flows_through",
        sourceId=volta["nodeId"],
        targetId=ghana["nodeId"],
        evidence=EVIDENCE,
    )
    found = await _call(world, _named(offered, "queryGraph"), text="Volta", neighbours=True)
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
    made = await _call(
        world,
        _named(offered, "createNodeType"),
        name="COUNTRY",
        description="Another.",
        propertiesSchema={"type": "object"},
        exampleProperties={},
        justification="None.",
    )
    assert made == {"name": "Country", "created": False, "propertiesSchema": COUNTRY_SCHEMA}
    listed = await _call(world, _named(offered, "listNodeTypes"))
    assert [each["name"] for each in listed["nodeTypes"]] == [
        "AgentAdvice",
        "AgentAnalysis",
        "Country",
    ]
    assert listed["nodeTypes"][2].keys() == {"name", "description", "propertiesSchema"}
    listed = await _call(world, _named(offered, "listEdgeTypes"))
    assert listed["edgeTypes"][0] == {
        "name": "about",
        "description": "the analysis is about this node",
        "sourceTypes": ["AgentAnalysis"],
        "targetTypes": [],
    }


async def test_edges_satisfy_the_schema_that_their_type_was_given(world: World) -> None:
    offered = tools.graph_construction(world.scope, world.validators)
    create, add = _named(offered, "createEdgeType"), _named(offered, "addGraphEdge")
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
            await _call(world, create, **{**given, **wrong})
    right = {"propertiesSchema": schema, "exampleProperties": {"percent": 51}}
    assert await _call(world, create, **given, **right) == {"name": "owns", "created": True}
    again = await _call(world, create, **given)
    assert again["propertiesSchema"] == schema
    listed = await _call(world, _named(offered, "listEdgeTypes"))
    assert [each.get("propertiesSchema") for each in listed["edgeTypes"]] == [None, None, schema]
    ends = {
        "sourceId": await world.node("Ghana"),
        "targetId": await world.node("Togo"),
        "evidence": EVIDENCE,
    }
    with pytest.raises(ToolRefusalError, match="do not satisfy the schema of owns: percent"):
        await _call(world, add, type="owns", **ends, properties={"percent": 101})
    assert (await _call(world, add, type="owns", **ends, properties={"percent": 3}))["created"]


async def test_a_long_list_of_types_leaves_out_schemas_and_says_so(world: World) -> None:
    for number in range(3):
        async with world.database.transaction() as session:
            create = _named(tools.graph_construction(world.scope), "createNodeType")
            given = {
                "name": f"Big{number}",
                "description": "Large.",
                "propertiesSchema": {"type": "object", "description": "x" * 9_000},
                "exampleProperties": {},
                "justification": "None fits.",
            }
            await create.run(session, create.arguments.model_validate(given))
    listed = await _call(world, tools.list_node_types(world.scope))
    assert len(listed["nodeTypes"]) == 6
    assert "propertiesSchema" in listed["nodeTypes"][0]
    assert "createNodeType with a name that exists gives its schema" in listed["cut"]


async def test_from_node_to_analysis_to_advice(world: World) -> None:
    ghana = await world.node("Ghana")
    analyzer = tools.analysis_generation(world.scope)
    analysis = await _call(
        world,
        _named(analyzer, "addAgentAnalysisNode"),
        name="Growth",
        type="observation",
        summary="It grows.",
        content=f"It grows [node:{ghana}].",
        **SURE,
    )
    assert analysis.keys() == {"nodeId"}
    edge = await _call(
        world,
        _named(analyzer, "addGraphEdge"),
        type="about",
        sourceId=analysis["nodeId"],
        targetId=str(ghana),
    )
    assert edge["created"]
    advice = await _call(
        world,
        _named(tools.advice_generation(world.scope), "addAgentAdviceNode"),
        name="Buy",
        action="BUY",
        summary="Buy it.",
        content=f"Because [node:{analysis['nodeId']}].",
        **COMMITTED,
    )
    assert advice.keys() == {"nodeId", "action"}


async def test_graph_construction_cannot_write_conclusions(world: World) -> None:
    add = _named(tools.graph_construction(world.scope), "addGraphNode")
    for reserved in ("AgentAnalysis", "AgentAdvice"):
        with pytest.raises(ToolRefusalError, match="conclusions"):
            await _call(world, add, type=reserved, name="x", properties={}, evidence=EVIDENCE)


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


async def _add(world: World, evidence: list[dict[str, Any]], **properties: Any) -> Json:
    add = _named(tools.graph_construction(world.scope, world.validators), "addGraphNode")
    return await _call(
        world,
        add,
        type="Country",
        name="Ghana",
        properties=COUNTRY | properties,
        evidence=evidence,
    )


async def test_evidence_says_when_it_holds_and_the_answer_what_gave_way(world: World) -> None:
    of_2022 = [{**EVIDENCE[0], "validFrom": "2022", "validTo": "2022"}]
    of_2023 = [{**EVIDENCE[0], "validFrom": "2023-05-01T12:00:00+02:00", "validTo": None}]
    await _add(world, of_2022, population=31)
    newer = await _add(world, of_2023, population=33)
    assert newer["superseded"] == {"population": {"held": 31, "asOf": "2022-01-01T00:00:00Z"}}
    older = await _add(world, of_2022, population=30)
    assert older["kept"] == {"population": {"held": 33, "asOf": "2023-05-01T10:00:00Z"}}
    async with world.database.transaction() as session:
        ends = set(await session.scalars(select(Evidence.valid_to)))
    assert ends == {None, datetime(2023, 1, 1, tzinfo=UTC)}


@pytest.mark.parametrize(
    ("entry", "reason"),
    [
        ({"validFrom": "lately"}, r"evidence\[0\].validFrom: 'lately' is no date; write YYYY"),
        ({"validTo": "9999"}, r"evidence\[0\].validTo: '9999' is no date"),
        ({"validFrom": "2024", "validTo": "2023"}, "validTo is before validFrom"),
        ({"properties": ["area"]}, "area, which is not among"),
        ({"quote": "That is not there."}, "it does not stand in"),
    ],
)
async def test_evidence_that_cannot_be_is_refused(
    world: World, entry: dict[str, Any], reason: str
) -> None:
    with pytest.raises(ToolRefusalError, match=reason):
        await _add(world, [EVIDENCE[0] | entry])


async def test_without_evidence_the_arguments_do_not_fit(world: World) -> None:
    for name in ("addGraphNode", "addGraphEdge"):
        tool = _named(tools.graph_construction(world.scope), name)
        for given in (None, [], EVIDENCE * 11):
            with pytest.raises(ValidationError, match="evidence"):
                tool.arguments.model_validate({"type": "x", "name": "x", "evidence": given})


async def test_an_analyzer_ties_analyses_and_nothing_else(world: World) -> None:
    ghana, togo = await world.node("Ghana"), await world.node("Togo")
    await world.edge_type("resembles")
    analyzer = tools.analysis_generation(world.scope)
    tie = _named(analyzer, "addGraphEdge")
    given = {"type": "borders", "sourceId": str(ghana), "targetId": str(togo)}
    with pytest.raises(ToolRefusalError, match="Neither end is an AgentAnalysis"):
        await _call(world, tie, **given)
    with pytest.raises(ValidationError, match="evidence"):
        tie.arguments.model_validate({**given, "evidence": EVIDENCE})
    analysis = await _call(
        world,
        _named(analyzer, "addAgentAnalysisNode"),
        name="Growth",
        type="observation",
        summary="It grows.",
        content=f"It grows [node:{ghana}].",
        confidence=0.5,
    )
    for properties in ({"share": 1}, {"why": "both grow"}):
        tied = await _call(
            world,
            tie,
            type="resembles",
            sourceId=str(ghana),
            targetId=analysis["nodeId"],
            properties=properties,
        )
    assert tied["created"] is False
    async with world.database.transaction() as session:
        edge = await session.get_one(GraphEdge, UUID(tied["edgeId"]))
        node = await session.get_one(GraphNode, UUID(analysis["nodeId"]))
        assert await session.scalar(select(func.count()).where(Evidence.edge_id == edge.id)) == 0
    assert edge.properties == {"share": 1, "why": "both grow"}
    assert edge.seal == seals.of_edge(
        edge_id=edge.id,
        agent_id=edge.agent_id,
        type_name="resembles",
        source_id=ghana,
        target_id=node.id,
        properties=edge.properties,
        evidence=(),
    )
    assert node.seal == seals.of_node(
        node_id=node.id,
        agent_id=node.agent_id,
        type_name="AgentAnalysis",
        name="Growth",
        properties=node.properties,
        evidence=(),
    )


async def test_no_page_speaks_of_a_conclusion(world: World) -> None:
    ghana = await world.node("Ghana")
    async with world.database.transaction() as session:
        analysis = await conclusions.add_analysis(
            session,
            world.scope,
            name="Growth",
            kind="pattern",
            summary="It grows.",
            content=f"It grows [node:{ghana}].",
            **SURE,
        )
    connect = _named(tools.graph_construction(world.scope), "addGraphEdge")
    with pytest.raises(ToolRefusalError, match="One end is an AgentAnalysis"):
        await _call(
            world,
            connect,
            type="about",
            sourceId=str(analysis),
            targetId=str(ghana),
            evidence=EVIDENCE,
        )
