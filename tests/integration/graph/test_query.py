"""Searching the graph."""

import json
from uuid import uuid4

import pytest

from shared.graph.retrieval import query
from shared.tools import Json, ToolRefusalError
from tests.support.graph.agent_graph import AgentGraph


async def _query(agent_graph: AgentGraph, **conditions: object) -> Json:
    async with agent_graph.database.transaction() as session:
        return await query.query_graph(session, agent_graph.scope, **conditions)  # type: ignore[arg-type]  # any conditions


def _names(answer: Json) -> list[str]:
    return [node["name"] for node in answer["nodes"]]


async def test_name_matches_and_more_matching_words_rank_higher(agent_graph: AgentGraph) -> None:
    await agent_graph.node("Niger", capital="Niamey")
    await agent_graph.node("Nigeria")
    await agent_graph.node("River town", capital="on the Niger")
    await agent_graph.node("Ghana", capital="Accra")
    assert _names(await _query(agent_graph, text="NIGER niamey")) == [
        "Niger",
        "Nigeria",
        "River town",
    ]
    assert _names(await _query(agent_graph, text="zebra")) == []


@pytest.mark.parametrize("text", ["%", "_", "\\", "'", "100%"])
async def test_special_characters_are_literal(agent_graph: AgentGraph, text: str) -> None:
    await agent_graph.node("Ghana")
    await agent_graph.node(f"Rate {text} up")
    assert _names(await _query(agent_graph, text=text)) == [f"Rate {text} up"]


async def test_conditions_narrow_the_search(agent_graph: AgentGraph) -> None:
    await agent_graph.node_type("River")
    ghana = await agent_graph.node("Ghana")
    volta = await agent_graph.node("Volta", "River")
    await agent_graph.node("Niger", "River")
    assert _names(await _query(agent_graph)) == ["Niger", "Volta", "Ghana"]
    assert _names(await _query(agent_graph, type_name="River")) == ["Niger", "Volta"]
    assert _names(await _query(agent_graph, type_name="River", ids=[ghana, volta, uuid4()])) == [
        "Volta"
    ]
    assert _names(await _query(agent_graph, type_name="River", limit=1)) == ["Niger"]


async def test_a_type_that_does_not_exist_is_refused(agent_graph: AgentGraph) -> None:
    with pytest.raises(ToolRefusalError, match=r"no node type 'Rivers'"):
        await _query(agent_graph, type_name="Rivers")


async def test_edges_between_matches_and_optionally_to_their_neighbours(
    agent_graph: AgentGraph,
) -> None:
    ghana, togo, benin = [await agent_graph.node(name) for name in ("Ghana", "Togo", "Benin")]
    near = await agent_graph.edge(ghana, togo)
    far = await agent_graph.edge(togo, benin)
    alone = await _query(agent_graph, ids=[ghana, togo])
    assert [edge["id"] for edge in alone["edges"]] == [str(near)]
    assert alone["edges"][0]["sourceId"] == str(ghana)
    around = await _query(agent_graph, ids=[ghana, togo], neighbours=True)
    assert {edge["id"] for edge in around["edges"]} == {str(near), str(far)}
    assert _names(around)[2:] == ["Benin"]


async def test_a_large_answer_is_cut_and_says_so(agent_graph: AgentGraph) -> None:
    for number in range(30):
        await agent_graph.node(f"Country {number:02}", capital="x" * 3_000)
    answer = await _query(agent_graph, limit=50)
    assert len(json.dumps(answer, ensure_ascii=False).encode()) <= query.MAX_BYTES
    assert len(answer["nodes"]) == 30
    assert "shortened" in answer["cut"]
    whole = await _query(agent_graph, ids=[answer["nodes"][-1]["id"]])
    assert len(whole["nodes"][0]["properties"]["capital"]) == 3_000
    assert "cut" not in whole


async def test_another_agents_nodes_are_not_found(
    agent_graph: AgentGraph, stranger: AgentGraph
) -> None:
    foreign_node = await stranger.node("Togo")
    assert _names(await _query(agent_graph)) == []
    assert _names(await _query(agent_graph, ids=[foreign_node], neighbours=True)) == []
