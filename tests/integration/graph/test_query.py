"""Searching the graph."""

import json
from uuid import uuid4

import pytest

from shared.graph.retrieval import query
from shared.tools import Json, ToolRefusalError
from tests.support.graph.world import World


async def _query(world: World, **conditions: object) -> Json:
    async with world.database.transaction() as session:
        return await query.query_graph(session, world.scope, **conditions)  # type: ignore[arg-type]  # any conditions


def _names(answer: Json) -> list[str]:
    return [node["name"] for node in answer["nodes"]]


async def test_name_matches_and_more_matching_words_rank_higher(world: World) -> None:
    await world.node("Niger", capital="Niamey")
    await world.node("Nigeria")
    await world.node("River town", capital="on the Niger")
    await world.node("Ghana", capital="Accra")
    assert _names(await _query(world, text="NIGER niamey")) == ["Niger", "Nigeria", "River town"]
    assert _names(await _query(world, text="zebra")) == []


@pytest.mark.parametrize("text", ["%", "_", "\\", "'", "100%"])
async def test_special_characters_are_literal(world: World, text: str) -> None:
    await world.node("Ghana")
    await world.node(f"Rate {text} up")
    assert _names(await _query(world, text=text)) == [f"Rate {text} up"]


async def test_conditions_narrow_the_search(world: World) -> None:
    await world.node_type("River")
    ghana = await world.node("Ghana")
    volta = await world.node("Volta", "River")
    await world.node("Niger", "River")
    assert _names(await _query(world)) == ["Niger", "Volta", "Ghana"]
    assert _names(await _query(world, type_name="River")) == ["Niger", "Volta"]
    assert _names(await _query(world, type_name="River", ids=[ghana, volta, uuid4()])) == ["Volta"]
    assert _names(await _query(world, type_name="River", limit=1)) == ["Niger"]


async def test_a_type_that_does_not_exist_is_refused(world: World) -> None:
    with pytest.raises(ToolRefusalError, match=r"no node type 'Rivers'"):
        await _query(world, type_name="Rivers")


async def test_edges_between_matches_and_optionally_to_their_neighbours(world: World) -> None:
    ghana, togo, benin = [await world.node(name) for name in ("Ghana", "Togo", "Benin")]
    near = await world.edge(ghana, togo)
    far = await world.edge(togo, benin)
    alone = await _query(world, ids=[ghana, togo])
    assert [edge["id"] for edge in alone["edges"]] == [str(near)]
    assert alone["edges"][0]["sourceId"] == str(ghana)
    around = await _query(world, ids=[ghana, togo], neighbours=True)
    assert {edge["id"] for edge in around["edges"]} == {str(near), str(far)}
    assert _names(around)[2:] == ["Benin"]


async def test_a_large_answer_is_cut_and_says_so(world: World) -> None:
    for number in range(30):
        await world.node(f"Country {number:02}", capital="x" * 3_000)
    answer = await _query(world, limit=50)
    assert len(json.dumps(answer, ensure_ascii=False).encode()) <= query.MAX_BYTES
    assert len(answer["nodes"]) == 30
    assert "shortened" in answer["cut"]
    whole = await _query(world, ids=[answer["nodes"][-1]["id"]])
    assert len(whole["nodes"][0]["properties"]["capital"]) == 3_000
    assert "cut" not in whole


async def test_another_agents_nodes_are_not_found(world: World, stranger: World) -> None:
    foreign_node = await stranger.node("Togo")
    assert _names(await _query(world)) == []
    assert _names(await _query(world, ids=[foreign_node], neighbours=True)) == []
