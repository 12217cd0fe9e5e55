"""Types: seeded, made, found again, refused."""

import asyncio
from typing import Any

import pytest
from sqlalchemy import func, select, update

from shared.database.tables import GraphNodeType
from shared.graph import system_types, types
from shared.tools import ToolRefusalError
from tests.support.graph.world import COUNTRY, COUNTRY_SCHEMA, World
from tests.support.sent import listened


async def _make(world: World, name: str, **other: Any) -> tuple[types.NodeType, bool]:
    async with world.database.transaction() as session:
        return await types.create_node_type(
            session,
            world.scope,
            world.validators,
            name=name,
            description=other.get("description", "A thing."),
            properties_schema=other.get("schema", COUNTRY_SCHEMA),
            example_properties=other.get("example", COUNTRY),
            created_by="graph_construction",
        )


async def test_the_systems_types_are_there_once_however_often_they_are_ensured(
    world: World,
) -> None:
    async with world.database.transaction() as session:
        await system_types.ensure_system_types(session, world.scope.agent_id)
        node_types = await types.list_node_types(session, world.scope)
        edge_types = await types.list_edge_types(session, world.scope)
    by_system = [each.name for each in node_types if each.created_by == types.SYSTEM_CREATOR]
    assert by_system == ["AgentAdvice", "AgentAnalysis"]
    about = next(each for each in edge_types if each.name == system_types.ABOUT_TYPE)
    assert (about.source_types, about.target_types) == (("AgentAnalysis",), ())


async def test_the_systems_types_are_ensured_by_one_statement_and_others_are_left_alone(
    world: World,
) -> None:
    async with world.database.transaction() as session:
        advice = GraphNodeType.name == "AgentAdvice"
        own = {"created_by": "graph_construction", "properties_schema": {"type": "object"}}
        await session.execute(update(GraphNodeType).where(advice).values(own))
        with listened() as sent:
            await system_types.ensure_system_types(session, world.scope.agent_id)
        assert len(sent) == 1
        left = await types.get_node_type(session, world.scope, "AgentAdvice")
    assert left.properties_schema == {"type": "object"}


async def test_a_type_that_differs_in_case_only_is_the_same_type(world: World) -> None:
    made, created = await _make(world, "TradeDeal")
    again, created_again = await _make(world, "Tradedeal", schema={"type": "object"})
    assert (created, created_again) == (True, False)
    assert again == made
    assert again.properties_schema == COUNTRY_SCHEMA


@pytest.mark.parametrize("name", ["TradeDeals", "TRADEDEALS", "Tradedeal"])
async def test_a_type_under_another_spelling_of_its_name_is_the_same_type(
    world: World, name: str
) -> None:
    made, _ = await _make(world, "TradeDeal")
    assert await _make(world, name) == (made, False)


async def _make_edge(world: World, name: str, **other: Any) -> tuple[types.EdgeType, bool]:
    async with world.database.transaction() as session:
        return await types.create_edge_type(
            session,
            world.scope,
            name=name,
            description="what it says",
            source_types=[],
            target_types=[],
            created_by="graph_construction",
            **other,
        )


async def test_edge_types_that_differ_in_underscores_or_a_plural_are_one(world: World) -> None:
    made, created = await _make_edge(world, "is_part_of")
    assert created
    assert await _make_edge(world, "ispart_of") == (made, False)
    for again in ("border", "border_s"):
        found, created = await _make_edge(world, again)
        assert (found.name, created) == ("borders", False)


async def test_many_makers_of_one_edge_type_make_one(world: World) -> None:
    names = ["supplies", "supply", "suppl_y", "supplie_s"] * 4
    made = await asyncio.gather(*(_make_edge(world, name) for name in names))
    assert sum(created for _, created in made) == 1
    assert len({each.name for each, _ in made}) == 1


async def test_why_a_type_was_made_is_kept(world: World) -> None:
    made, _ = await _make_edge(world, "supplies", justification=" None says\nwho supplies. ")
    assert made.justification == "None says who supplies."
    for wrong in (" ", "x" * 501):
        with pytest.raises(ToolRefusalError, match="justification: "):
            await _make_edge(world, "owns", justification=wrong)


async def test_many_makers_of_one_type_in_any_case_make_one(world: World) -> None:
    names = ["River", "RIver", "RIVer", "RIVEr"] * 4
    made = await asyncio.gather(*(_make(world, name) for name in names))
    assert sum(created for _, created in made) == 1
    assert len({each.name for each, _ in made}) == 1
    async with world.database.transaction() as session:
        rivers = func.lower(GraphNodeType.name) == "river"
        count = select(func.count()).select_from(GraphNodeType).where(rivers)
        assert await session.scalar(count) == 1


@pytest.mark.parametrize(
    ("name", "other", "reason"),
    [
        ("country", {}, "'country' is no name of a type; it must be a capital letter"),
        ("Trade deal", {}, "is no name of a type"),
        ("Côte", {}, "is no name of a type"),
        ("X" * 65, {}, "at most 64 characters"),
        ("AgentAdvice", {}, "AgentAdvice is reserved"),
        ("Agentanalysis", {}, "Agentanalysis is reserved"),
        ("River", {"description": " "}, "description: 0 characters"),
        ("River", {"schema": {"type": "array"}}, '"type": "array"'),
        (
            "River",
            {"example": {}},
            r"River \(exampleProperties\).*'summary' is a required property",
        ),
    ],
)
async def test_what_a_node_type_must_not_be_is_refused_in_words(
    world: World, name: str, other: dict[str, Any], reason: str
) -> None:
    with pytest.raises(ToolRefusalError, match=reason):
        await _make(world, name, **other)


async def test_an_edge_type_that_exists_stays_as_it_is(world: World) -> None:
    async with world.database.transaction() as session:
        again, created = await types.create_edge_type(
            session,
            world.scope,
            name="borders",
            description="another",
            source_types=[],
            target_types=[],
            created_by="graph_construction",
        )
    assert not created
    assert again.source_types == ("Country",)


async def test_what_an_edge_type_must_not_be_is_refused_in_words(world: World) -> None:
    with pytest.raises(ToolRefusalError, match="'Borders' is no name of a type"):
        await world.edge_type("Borders")
    with pytest.raises(ToolRefusalError, match=r"no node type 'Contry'.* mean Country\?"):
        await world.edge_type("lies_in", target_types=["Contry"])


async def test_there_is_an_end_to_new_types(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(types, "MAX_TYPES", 3)
    with pytest.raises(ToolRefusalError, match="There are 3 node types already"):
        await _make(world, "River")
    assert not (await _make(world, "Country"))[1]
