"""What queries show of large results, and of merged or retracted elements."""

from datetime import UTC, datetime, timedelta
from itertools import pairwise
from typing import Any
from uuid import UUID

import pytest
from sqlalchemy import update

from shared.database.tables import GraphEdge, Source
from shared.graph.prompt_format import format_utc
from shared.graph.retrieval import query
from shared.graph.retrieval.query import MIN_EDGES_PER_NODE
from shared.tools import Json, ToolRefusalError
from tests.support.graph.agent_graph import AgentGraph
from tests.support.graph.duplicates import Duplicates, merge_nodes
from tests.support.graph.evidence_rows import EPOCH, make_evidence, make_source

NOW = datetime.now(UTC)


async def _query(agent_graph: AgentGraph, **conditions: Any) -> Json:
    async with agent_graph.database.transaction() as session:
        return await query.query_graph(session, agent_graph.scope, **conditions)


def _names(answer: Json) -> list[str]:
    return [node["name"] for node in answer["nodes"]]


def _ids(elements: list[Json]) -> list[str]:
    return [element["id"] for element in elements]


async def _touch_edge(agent_graph: AgentGraph, edge_id: UUID, **values: Any) -> None:
    async with agent_graph.database.transaction() as session:
        await session.execute(update(GraphEdge).where(GraphEdge.id == edge_id).values(**values))


async def test_a_cut_result_shows_the_newest_elements_in_order(agent_graph: AgentGraph) -> None:
    hub = await agent_graph.node("Hub")
    spokes = [await agent_graph.node(f"Spoke {number}") for number in range(60)]
    edges = [await agent_graph.edge(spoke, hub) for spoke in spokes]
    await _touch_edge(agent_graph, edges[7], updated_at=NOW + timedelta(hours=1))
    answer = await _query(agent_graph, ids=[hub], neighbours=1)
    newest = [7, *(number for number in range(59, -1, -1) if number != 7)]
    shown_numbers = newest[: query.MAX_NODES - 1]
    assert _names(answer) == ["Hub", *(f"Spoke {number}" for number in shown_numbers)]
    edge_ids = _ids(answer["edges"])
    assert edge_ids == [str(edges[number]) for number in newest[: len(edge_ids)]]
    assert edge_ids


async def test_nearer_nodes_come_before_newer_distant_nodes(agent_graph: AgentGraph) -> None:
    centre = await agent_graph.node("Centre")
    near = [await agent_graph.node(f"Near {number}") for number in range(30)]
    for node in near:
        await _touch_edge(
            agent_graph, await agent_graph.edge(centre, node), updated_at=NOW - timedelta(days=9)
        )
    for number in range(3 * MIN_EDGES_PER_NODE):
        await agent_graph.edge(near[0], await agent_graph.node(f"Far {number}"))
        await agent_graph.edge(near[1], await agent_graph.node(f"Far too {number}"))
    answer = await _query(agent_graph, ids=[centre], neighbours=2)
    names = _names(answer)
    assert names[0] == "Centre"
    assert sorted(names[1:31]) == sorted(f"Near {number}" for number in range(30))
    assert set(names[31:]) == {
        f"{far} {number}"
        for far in ("Far", "Far too")
        for number in range(2 * MIN_EDGES_PER_NODE, 3 * MIN_EDGES_PER_NODE)
    }, "the newest of each"


async def test_an_edge_between_two_matches_is_listed_once(agent_graph: AgentGraph) -> None:
    one, other, third = [await agent_graph.node(name) for name in ("One", "Other", "Third")]
    between = await agent_graph.edge(one, other)
    onward = await agent_graph.edge(other, third)
    for neighbours, expected in ((0, [between]), (1, [between, onward]), (2, [between, onward])):
        answer = await _query(agent_graph, ids=[one, other], neighbours=neighbours)
        assert _ids(answer["edges"]) == [str(edge) for edge in expected]


async def test_of_very_many_edges_the_newest_are_shown(agent_graph: AgentGraph) -> None:
    """Two nodes have at most one edge of a type in each direction."""
    nodes = [await agent_graph.node(f"Node {number}") for number in range(11)]
    pairs = [(one, other) for one in nodes for other in nodes if one != other]
    edges = [await agent_graph.edge(*pair) for pair in pairs]
    answer = await _query(agent_graph, ids=nodes)
    edge_ids = _ids(answer["edges"])
    assert edge_ids == [str(edge) for edge in edges[::-1][: len(edge_ids)]]
    assert "Not all neighbours or edges are shown" in answer["cut"]


async def test_elements_supported_only_by_retracted_pages_are_never_shown(
    agent_graph: AgentGraph,
) -> None:
    one, unsupported, far = [await agent_graph.node(name) for name in ("One", "Gone", "Far")]
    away, onward, around = [
        await agent_graph.edge(*pair)
        for pair in ((one, unsupported), (unsupported, far), (far, one))
    ]
    await agent_graph.touch(unsupported, unsupported_since=NOW)
    await _touch_edge(agent_graph, away, unsupported_since=NOW)
    await _touch_edge(agent_graph, onward, unsupported_since=NOW)
    for conditions in ({"ids": [one, unsupported, far]}, {"ids": [one], "neighbours": 2}):
        answer = await _query(agent_graph, **conditions)
        assert sorted(_names(answer)) == ["Far", "One"]
        assert _ids(answer["edges"]) == [str(around)]
    with pytest.raises(ToolRefusalError, match=f"no such node: {unsupported}"):
        await _query(agent_graph, between=[one, unsupported])


async def test_paths_avoid_retracted_edges(agent_graph: AgentGraph) -> None:
    nodes = [await agent_graph.node(name) for name in "ABC"]
    edges = [await agent_graph.edge(*pair) for pair in pairwise(nodes)]
    assert len((await _query(agent_graph, between=[nodes[0], nodes[2]]))["paths"]) == 1
    await _touch_edge(agent_graph, edges[1], unsupported_since=NOW)
    assert (await _query(agent_graph, between=[nodes[0], nodes[2]]))["paths"] == []


async def test_paths_start_and_end_at_merged_nodes(
    agent_graph: AgentGraph, duplicates: Duplicates
) -> None:
    await merge_nodes(agent_graph, duplicates.kept_id, duplicates.merged_id)
    far = await agent_graph.node("Far")
    edge = await agent_graph.edge(duplicates.kept_id, far)
    (path,) = (await _query(agent_graph, between=[duplicates.merged_id, far]))["paths"]
    assert path == {"nodeIds": [str(duplicates.kept_id), str(far)], "edgeIds": [str(edge)]}
    with pytest.raises(ToolRefusalError, match="two different nodes"):
        await _query(agent_graph, between=[duplicates.merged_id, duplicates.kept_id])


async def test_an_unknown_type_among_several_is_refused(agent_graph: AgentGraph) -> None:
    with pytest.raises(ToolRefusalError, match="no node type 'Rivers'"):
        await _query(agent_graph, type_names=["Country", "Rivers"])


async def test_properties_are_shown_unchanged(agent_graph: AgentGraph) -> None:
    odd: Json = {
        "nothing": None,
        "deep": {"nothing": None, "list": [None, 1, 0.5, True]},
        "great": 10**30,
        "text": 'é中\u2028 "quoted" \\ \n',
    }
    node_id = await agent_graph.unproven("Odd", **odd)
    (node,) = (await _query(agent_graph, ids=[node_id]))["nodes"]
    assert {key: node["properties"][key] for key in odd} == odd
    assert list(node) == ["id", "type", "name", "properties", "updatedAt"]


async def test_as_of_is_the_date_of_the_latest_page_that_is_not_retracted(
    agent_graph: AgentGraph,
) -> None:
    node_id = await agent_graph.unproven("Ghana")
    async with agent_graph.database.transaction() as session:
        for day in (1, 2, 3):
            source = await make_source(session, agent_graph.scope, f"https://{day}", day=day)
            await make_evidence(session, agent_graph.scope, source, {}, node_id=node_id, day=day)
        await session.execute(
            update(Source).where(Source.url == "https://3").values(retracted_at=NOW)
        )
    (node,) = (await _query(agent_graph, ids=[node_id]))["nodes"]
    assert node["asOf"] == format_utc(EPOCH + timedelta(days=2))
    assert "until" not in node
