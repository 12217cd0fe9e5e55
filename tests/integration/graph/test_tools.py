"""The tools as the model sees them, and the types that they seed, create and refuse."""

import asyncio
from typing import Any

import pytest
from pydantic import ValidationError
from sqlalchemy import func, select, update

from shared.database.tables import GraphEdge, GraphNodeType
from shared.graph import system_types, tools, types
from shared.tools import StateTool, ToolRefusalError, declaration
from tests.support.case_files import read_cases
from tests.support.forecast_terms import ACTIONS, ADVICE_TERMS, ANALYSIS_TERMS
from tests.support.graph.agent_graph import COUNTRY, COUNTRY_SCHEMA, AgentGraph
from tests.support.graph.tooling import EVIDENCE, call, find_tool
from tests.support.sql_capture import captured_statements

CASES = read_cases(__file__)


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
    assert names(tools.advice_generation(agent_graph.scope, ACTIONS)) == [
        "queryGraph",
        "addAgentAdviceNode",
        "reviewAdvice",
        "finish",
    ]


async def test_every_tool_and_every_argument_is_described(agent_graph: AgentGraph) -> None:
    phase_tools = {
        tool.name: tool
        for tool in (
            *tools.graph_construction(agent_graph.scope),
            *tools.analysis_generation(agent_graph.scope),
            *tools.advice_generation(agent_graph.scope, ACTIONS),
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
            "asOf": "2024-05-01",
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
    answer = await call(agent_graph, add, type="owns", **ends, properties={"percent": 101})
    assert answer["created"], "an edge says something by itself"
    [note] = answer["understood"]
    assert "percent: 101 is greater" in note
    assert "it was left out" in note
    answer = await call(agent_graph, add, type="owns", **ends, properties={"percent": 3})
    assert not answer["created"]


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
    again = await call(
        agent_graph,
        find_tool(analyzer, "addGraphEdge"),
        type="about",
        sourceId=analysis["nodeId"],
        targetId=str(ghana),
        properties={"note": "It defaults"},
    )
    assert (again["edgeId"], again["created"]) == (edge["edgeId"], False)
    assert again["leftOut"] == {"note": "an edge of an analysis has none"}
    async with agent_graph.database.transaction() as transaction:
        about = select(GraphEdge.properties).where(GraphEdge.type == "about")
        assert (await transaction.execute(about)).scalars().all() == [{}]
    second = await agent_graph.analysis(f"It is so [node:{ghana}].", "And so it is")
    advice = await call(
        agent_graph,
        find_tool(tools.advice_generation(agent_graph.scope, ACTIONS), "addAgentAdviceNode"),
        name="Buy",
        action="BUY",
        summary="Buy it.",
        content=f"Because [node:{analysis['nodeId']}] [node:{second}].",
        **ADVICE_TERMS,
    )
    assert advice.keys() == {"nodeId", "action"}
    reviewed = await call(
        agent_graph,
        find_tool(tools.advice_generation(agent_graph.scope, ACTIONS), "reviewAdvice"),
        advice=f"[node:{advice['nodeId']}]",
        review="confirms",
        because=f"It still is so [node:{second}].",
        horizon="6 months",
    )
    assert reviewed == {"advice": advice["nodeId"], "review": "confirms"}


async def test_graph_construction_cannot_write_conclusions(agent_graph: AgentGraph) -> None:
    add = find_tool(tools.graph_construction(agent_graph.scope), "addGraphNode")
    for reserved in ("AgentAnalysis", "AgentAdvice"):
        with pytest.raises(ToolRefusalError, match="conclusions"):
            await call(agent_graph, add, type=reserved, name="x", properties={}, evidence=EVIDENCE)


async def test_unknown_and_invalid_arguments_are_reported(agent_graph: AgentGraph) -> None:
    advise = tools.add_agent_advice_node(agent_graph.scope, ACTIONS)
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


async def _create_type(
    agent_graph: AgentGraph, name: str, **other: Any
) -> tuple[types.NodeType, bool]:
    async with agent_graph.database.transaction() as session:
        return await types.create_node_type(
            session,
            agent_graph.scope,
            agent_graph.validators,
            name=name,
            description=other.get("description", "A thing."),
            properties_schema=other.get("schema", COUNTRY_SCHEMA),
            example_properties=other.get("example", COUNTRY),
            created_by="graph_construction",
        )


async def test_ensuring_the_system_types_twice_creates_them_once(
    agent_graph: AgentGraph,
) -> None:
    async with agent_graph.database.transaction() as session:
        await system_types.ensure_system_types(session, agent_graph.scope.agent_id)
        node_types = await types.list_node_types(session, agent_graph.scope)
        edge_types = await types.list_edge_types(session, agent_graph.scope)
    by_system = [
        node_type.name for node_type in node_types if node_type.created_by == types.SYSTEM_CREATOR
    ]
    assert by_system == ["AgentAdvice", "AgentAnalysis"]
    about = next(edge_type for edge_type in edge_types if edge_type.name == system_types.ABOUT_TYPE)
    assert (about.source_types, about.target_types) == (("AgentAnalysis",), ())


async def test_ensuring_system_types_sends_one_statement_and_keeps_custom_types(
    agent_graph: AgentGraph,
) -> None:
    async with agent_graph.database.transaction() as session:
        advice = GraphNodeType.name == "AgentAdvice"
        own = {"created_by": "graph_construction", "properties_schema": {"type": "object"}}
        await session.execute(update(GraphNodeType).where(advice).values(own))
        with captured_statements() as statements:
            await system_types.ensure_system_types(session, agent_graph.scope.agent_id)
        assert len(statements) == 1
        advice_type = await types.get_node_type(session, agent_graph.scope, "AgentAdvice")
    assert advice_type.properties_schema == {"type": "object"}


@pytest.mark.parametrize("name", ["TradeDeals", "TRADEDEALS", "Tradedeal"])
async def test_a_type_under_another_spelling_of_its_name_is_the_same_type(
    agent_graph: AgentGraph, name: str
) -> None:
    first, _ = await _create_type(agent_graph, "TradeDeal")
    assert await _create_type(agent_graph, name) == (first, False)


async def _create_edge_type(
    agent_graph: AgentGraph, name: str, **other: Any
) -> tuple[types.EdgeType, bool]:
    async with agent_graph.database.transaction() as session:
        return await types.create_edge_type(
            session,
            agent_graph.scope,
            name=name,
            description="what it says",
            source_types=[],
            target_types=[],
            created_by="graph_construction",
            **other,
        )


async def test_edge_types_that_differ_in_underscores_or_a_plural_are_one(
    agent_graph: AgentGraph,
) -> None:
    first, created = await _create_edge_type(agent_graph, "is_part_of")
    assert created
    assert await _create_edge_type(agent_graph, "ispart_of") == (first, False)
    for name in ("border", "border_s"):
        edge_type, created = await _create_edge_type(agent_graph, name)
        assert (edge_type.name, created) == ("borders", False)


async def test_concurrent_creation_of_one_edge_type_creates_one(agent_graph: AgentGraph) -> None:
    names = ["supplies", "supply", "suppl_y", "supplie_s"] * 4
    results = await asyncio.gather(*(_create_edge_type(agent_graph, name) for name in names))
    assert sum(created for _, created in results) == 1
    assert len({edge_type.name for edge_type, _ in results}) == 1


async def test_the_justification_of_a_type_is_stored(agent_graph: AgentGraph) -> None:
    edge_type, _ = await _create_edge_type(
        agent_graph, "supplies", justification=" None says\nwho supplies. "
    )
    assert edge_type.justification == "None says who supplies."
    for justification in (" ", "x" * 501):
        with pytest.raises(ToolRefusalError, match="justification: "):
            await _create_edge_type(agent_graph, "owns", justification=justification)


async def test_concurrent_creation_of_one_type_in_any_case_creates_one(
    agent_graph: AgentGraph,
) -> None:
    names = ["River", "RIver", "RIVer", "RIVEr"] * 4
    results = await asyncio.gather(*(_create_type(agent_graph, name) for name in names))
    assert sum(created for _, created in results) == 1
    assert len({node_type.name for node_type, _ in results}) == 1
    async with agent_graph.database.transaction() as session:
        rivers = func.lower(GraphNodeType.name) == "river"
        count = select(func.count()).select_from(GraphNodeType).where(rivers)
        assert await session.scalar(count) == 1


async def test_invalid_node_types_are_refused_with_the_reason(
    agent_graph: AgentGraph, subtests: pytest.Subtests
) -> None:
    for name, other, reason in CASES["invalid_node_types_are_refused_with_the_reason"]:
        with subtests.test(reason), pytest.raises(ToolRefusalError, match=reason):
            await _create_type(agent_graph, name, **other)


async def test_an_existing_edge_type_stays_unchanged(agent_graph: AgentGraph) -> None:
    async with agent_graph.database.transaction() as session:
        edge_type, created = await types.create_edge_type(
            session,
            agent_graph.scope,
            name="borders",
            description="another",
            source_types=[],
            target_types=[],
            created_by="graph_construction",
        )
    assert not created
    assert edge_type.source_types == ("Country",)


async def test_invalid_edge_types_are_refused_with_the_reason(agent_graph: AgentGraph) -> None:
    with pytest.raises(ToolRefusalError, match="'Borders' is not a valid name for a type"):
        await agent_graph.edge_type("Borders")
    with pytest.raises(ToolRefusalError, match=r"no node type 'Contry'.* mean Country\?"):
        await agent_graph.edge_type("lies_in", target_types=["Contry"])


async def test_the_number_of_types_is_limited(
    agent_graph: AgentGraph, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(types, "MAX_TYPES", 3)
    with pytest.raises(ToolRefusalError, match="There are 3 node types already"):
        await _create_type(agent_graph, "River")
    assert not (await _create_type(agent_graph, "Country"))[1]
