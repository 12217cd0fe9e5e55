"""Types: seeded, created, found again, refused."""

import asyncio
from typing import Any

import pytest
from sqlalchemy import func, select, update

from shared.database.tables import GraphNodeType
from shared.graph import system_types, types
from shared.tools import ToolRefusalError
from tests.support.case_files import read_cases
from tests.support.graph.agent_graph import COUNTRY, COUNTRY_SCHEMA, AgentGraph
from tests.support.sql_capture import captured_statements

CASES = read_cases(__file__)


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


async def test_a_type_that_differs_in_case_only_is_the_same_type(agent_graph: AgentGraph) -> None:
    first, created = await _create_type(agent_graph, "TradeDeal")
    second, created_again = await _create_type(agent_graph, "Tradedeal", schema={"type": "object"})
    assert (created, created_again) == (True, False)
    assert second == first
    assert second.properties_schema == COUNTRY_SCHEMA


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
