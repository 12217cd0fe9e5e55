"""One thing, one node: whatever its name is spelled like, and whoever writes it at the same moment."""

import asyncio
from typing import Any
from uuid import UUID

import pytest
from sqlalchemy import delete, func, select

from shared.database.tables import GraphName, GraphNode
from shared.graph import nodes, tools
from shared.graph.entity_resolution import aliases, candidates
from shared.graph.entity_resolution.candidates import DUPLICATE_THRESHOLD
from shared.tools import Json, ToolRefusalError
from tests.support.graph.world import COUNTRY, GROUNDS, PAGE, World

EVIDENCE = [{"sourceUrl": PAGE["url"], "quote": PAGE["content"]}]


async def _add(world: World, name: str, **asked: Any) -> UUID:
    async with world.database.transaction() as session:
        added = await nodes.add_node(
            session,
            world.scope,
            world.validators,
            type_name=asked.pop("type_name", "Company"),
            name=name,
            properties=COUNTRY,
            grounds=GROUNDS,
            **asked,
        )
    return added.id


async def _called(world: World, node_id: UUID) -> list[str]:
    async with world.database.transaction() as session:
        return await aliases.list_names(session, world.scope, node_id)


async def _count(world: World, table: type[GraphName] | type[GraphNode]) -> int:
    async with world.database.transaction() as session:
        return await session.scalar(select(func.count()).select_from(table)) or 0


@pytest.fixture
async def companies(world: World) -> World:
    await world.node_type("Company")
    return world


async def test_spellings_of_one_name_are_one_node_under_its_first_name(companies: World) -> None:
    first = await _add(companies, "Nvidia Corp.")
    for spelled in ("NVIDIA Corporation", "nvidia", "NVIDIA (NVDA)", "NVDA", "NASDAQ: NVDA"):
        assert await _add(companies, spelled) == first
    async with companies.database.transaction() as session:
        assert list(await session.scalars(select(GraphNode.name))) == ["Nvidia Corp."]
    assert await _called(companies, first) == ["Nvidia Corp.", "nvda"]


async def test_a_name_is_one_things_of_its_type_and_agent(
    companies: World, stranger: World
) -> None:
    await stranger.node_type("Company")
    found = {
        await _add(companies, "Chad"),
        await _add(companies, "Chad", type_name="Country"),
        await _add(stranger, "Chad"),
    }
    assert len(found) == 3


async def test_aliases_are_names_too_and_those_of_others_are_refused(companies: World) -> None:
    meta = await _add(companies, "Meta Platforms", aliases=["Facebook, Inc.", "META"])
    assert await _add(companies, "facebook") == meta
    assert await _add(companies, "Meta Platforms, Inc.", aliases=["Facebook"]) == meta
    with pytest.raises(
        ToolRefusalError, match=rf'aliases: "FACEBOOK" is a name of \[node:{meta}\]'
    ):
        await _add(companies, "Another", aliases=["FACEBOOK"])
    assert await _count(companies, GraphNode) == 1, "what was refused has left nothing"
    assert await _count(companies, GraphName) == 3
    with pytest.raises(ToolRefusalError, match="11 are more than the 10"):
        await _add(companies, "Another", aliases=[f"Name {number}" for number in range(11)])
    with pytest.raises(ToolRefusalError, match="aliases: 0 characters"):
        await _add(companies, "Another", aliases=[" "])


async def test_what_its_schema_refuses_takes_no_name(companies: World) -> None:
    async with companies.database.transaction() as session:
        with pytest.raises(ToolRefusalError, match="required"):
            await nodes.add_node(
                session,
                companies.scope,
                companies.validators,
                type_name="Company",
                name="Nobody",
                properties={},
                grounds=GROUNDS,
            )
    assert await _count(companies, GraphName) == 0


async def test_a_node_from_before_names_were_kept_takes_its_own(companies: World) -> None:
    first = await _add(companies, "Nvidia Corp.")
    async with companies.database.transaction() as session:
        await session.execute(delete(GraphName))
    assert await _add(companies, "Nvidia Corp.") == first
    assert await _add(companies, "NVIDIA") == first


async def _tool(world: World, **given: Any) -> Json:
    tool = tools.add_graph_node(world.scope, world.validators)
    arguments = tool.arguments.model_validate(
        {"type": "Company", "properties": COUNTRY, "evidence": EVIDENCE, **given}
    )
    async with world.database.transaction() as session:
        return await tool.run(session, arguments)


async def test_before_a_name_like_another_becomes_a_node_it_is_asked_about(
    companies: World,
) -> None:
    first = await _add(companies, "Taiwan Semiconductor Manufacturing")
    asked = rf"There is \[node:{first}\] \"Taiwan Semiconductor Manufacturing\" \(0\.\d\d\)"
    for spelled in (
        "Taiwan Semiconducter Manufacturing",
        "Taiwan Semiconductor Manufacturers",
        "Taiwan Semiconductor",
        "Manufacturing Taiwan Semiconductor of Hsinchu",
    ):
        with pytest.raises(ToolRefusalError, match=asked) as refused:
            await _tool(companies, name=spelled)
        assert f'distinctFrom: ["{first}"]' in str(refused.value)
    same = await _tool(companies, name="Taiwan Semiconductor Manufacturing Co., Ltd.")
    assert same == {"nodeId": str(first), "created": False}
    other = await _tool(companies, name="Taiwan Semiconductor", distinctFrom=[str(first)])
    assert other["created"]
    again = await _tool(companies, name="Taiwan Semiconductor")
    assert again == {"nodeId": other["nodeId"], "created": False}, "it is known now"
    with pytest.raises(ToolRefusalError, match=str(first)):
        await _tool(
            companies, name="Taiwan Semiconductor Manufactory", distinctFrom=[other["nodeId"]]
        )


async def test_numbers_dates_and_other_things_are_not_asked_about(companies: World) -> None:
    for name in (
        "Results of Q1 2025",
        "Results of Q2 2025",
        "Model 3",
        "Model Y",
        "Regulation 2019/1",
        "Regulation 2019/2",
        "Report of January",
        "Report of June",
        "Halden Cells",
        "Orran Metals",
    ):
        assert (await _tool(companies, name=name))["created"]


async def test_what_another_agent_or_type_calls_alike_is_not_told(
    companies: World, stranger: World
) -> None:
    await stranger.node_type("Company")
    await _add(stranger, "Taiwan Semiconductor Manufacturing")
    await _add(companies, "Taiwan Semiconductor Manufacturing", type_name="Country")
    assert (await _tool(companies, name="Taiwan Semiconductor Manufacturer"))["created"]


async def test_at_most_five_are_told_the_likest_first(companies: World) -> None:
    for end in ("ing", "er", "e", "es", "ery", "i"):
        await _add(companies, f"Halden Batteri{end}")
    async with companies.database.transaction() as session:
        found = await candidates.find_candidates(
            session, companies.scope, "Company", "halden batterien", DUPLICATE_THRESHOLD - 0.1
        )
    told = [each.similarity for each in found]
    assert len(told) == candidates.MAX_CANDIDATES
    assert told == sorted(told, reverse=True)


async def test_two_who_add_a_thing_under_each_others_names_do_not_wait_for_ever(
    companies: World,
) -> None:
    """Each takes two names, in whichever order they are given."""

    async def add(number: int) -> UUID:
        pair = ["Alphabet", "Google"][:: 1 if number % 2 else -1]
        return await _add(companies, pair[0], aliases=pair[1:])

    assert len(set(await asyncio.gather(*(add(number) for number in range(16))))) == 1
    assert await _count(companies, GraphName) == 2
