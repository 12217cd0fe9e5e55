"""What queryGraph finds, in which order and how far, and that no input makes it fail or exceed its bounds."""

import json
from datetime import UTC, datetime, timedelta
from itertools import pairwise
from typing import Any
from uuid import UUID, uuid4

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from shared.database import ids
from shared.database.tables import Evidence, Source
from shared.graph.retrieval import query
from shared.tools import Json, ToolRefusalError
from tests.support.graph.agent_graph import AgentGraph

LONG_AGO = datetime(2020, 1, 1, tzinfo=UTC)


async def _query(agent_graph: AgentGraph, **conditions: Any) -> Json:
    async with agent_graph.database.transaction() as session:
        return await query.query_graph(session, agent_graph.scope, **conditions)


def _names(answer: Json) -> list[str]:
    return [node["name"] for node in answer["nodes"]]


async def test_exact_names_rank_before_name_words_and_property_words(
    agent_graph: AgentGraph,
) -> None:
    await agent_graph.node("Bank of Ghana")
    await agent_graph.node("Ghana")
    await agent_graph.node("Ghanaian Railways")
    await agent_graph.node("Accra", capital="of Ghana")
    await agent_graph.node("Togo")
    expected = ["Ghana", "Bank of Ghana", "Ghanaian Railways", "Accra"]
    assert _names(await _query(agent_graph, text="ghana")) == expected
    assert _names(await _query(agent_graph, text="bank of ghana"))[0] == "Bank of Ghana"


async def test_several_words_that_are_a_name_leave_out_what_has_only_some_of_them(
    agent_graph: AgentGraph,
) -> None:
    await agent_graph.node_type("Port")
    named = await agent_graph.node("Assini Cocoa")
    await agent_graph.node("Assini Cocoa Holdings")
    await agent_graph.node("Tema", capital="Cocoa of Assini")
    others = [await agent_graph.node("Guayas Cocoa"), await agent_graph.node("Assini Port", "Port")]
    with_all = ["Assini Cocoa", "Assini Cocoa Holdings", "Tema"]
    assert _names(await _query(agent_graph, text="assini cocoa")) == with_all
    some = {*with_all, "Guayas Cocoa", "Assini Port"}
    assert set(_names(await _query(agent_graph, text="assini cocoa mill"))) == some
    # The node of that name must match the other conditions too.
    assert _names(await _query(agent_graph, text="assini cocoa", type_name="Port")) == [
        "Assini Port"
    ]
    for result in others:
        await agent_graph.touch(result, updated_at=datetime.now(UTC) + timedelta(hours=1))
    await agent_graph.touch(named, updated_at=LONG_AGO)
    lately = datetime.now(UTC) + timedelta(minutes=1)
    assert set(_names(await _query(agent_graph, text="assini cocoa", updated_since=lately))) == {
        "Guayas Cocoa",
        "Assini Port",
    }


async def test_equal_matches_are_ordered_by_last_update(agent_graph: AgentGraph) -> None:
    old, new = await agent_graph.node("North Ghana"), await agent_graph.node("South Ghana")
    await agent_graph.touch(old, updated_at=datetime.now(UTC) + timedelta(hours=1))
    assert _names(await _query(agent_graph, text="Ghana")) == ["North Ghana", "South Ghana"]
    await agent_graph.touch(new, updated_at=datetime.now(UTC) + timedelta(hours=2))
    assert _names(await _query(agent_graph, text="Ghana")) == ["South Ghana", "North Ghana"]


@pytest.mark.parametrize("text", ["Volkswgen", "volkswagne ag", "Wolkswagen"])
async def test_misspelled_names_are_found(agent_graph: AgentGraph, text: str) -> None:
    await agent_graph.node("Volkswagen AG")
    await agent_graph.node("Toyota")
    assert _names(await _query(agent_graph, text=text)) == ["Volkswagen AG"]


async def test_figures_and_words_deep_in_properties_are_found(agent_graph: AgentGraph) -> None:
    await agent_graph.node("Ghana", population=33_475_870)
    await agent_graph.node("Togo", capital="x " * 3_000 + "lome")
    assert _names(await _query(agent_graph, text="33475870")) == ["Ghana"]
    assert _names(await _query(agent_graph, text="lome")) == ["Togo"]


async def test_results_are_filtered_by_types_and_times(agent_graph: AgentGraph) -> None:
    for name in ("River", "Port"):
        await agent_graph.node_type(name)
    ghana = await agent_graph.node("Ghana")
    await agent_graph.node("Volta", "River")
    await agent_graph.node("Tema", "Port")
    assert _names(await _query(agent_graph, type_names=["River", "Port"])) == ["Tema", "Volta"]
    assert _names(await _query(agent_graph, type_name="Country", type_names=["Port"])) == [
        "Tema",
        "Ghana",
    ]
    await agent_graph.touch(ghana, updated_at=LONG_AGO)
    lately = datetime.now(UTC) - timedelta(hours=1)
    assert _names(await _query(agent_graph, updated_since=lately)) == ["Tema", "Volta"]
    assert _names(await _query(agent_graph, text="Ghana", updated_since=lately)) == []
    assert _names(await _query(agent_graph, text="a", type_names=["Port"])) == ["Tema"]


async def test_nodes_have_the_dates_of_their_validity(agent_graph: AgentGraph) -> None:
    ghana, togo, benin = [await agent_graph.unproven(name) for name in ("Ghana", "Togo", "Benin")]
    await _add_evidence(
        agent_graph, ghana, valid_from=LONG_AGO, valid_to=LONG_AGO + timedelta(days=365)
    )
    await _add_evidence(agent_graph, togo, valid_from=LONG_AGO)
    nodes = {node["id"]: node for node in (await _query(agent_graph))["nodes"]}
    assert nodes[str(ghana)]["asOf"] == "2020-01-01T00:00:00Z"
    assert nodes[str(ghana)]["until"] == "2020-12-31T00:00:00Z"
    assert "until" not in nodes[str(togo)]
    assert "asOf" not in nodes[str(benin)]


async def test_a_neighbourhood_has_the_requested_depth(agent_graph: AgentGraph) -> None:
    names = ["Ghana", "Togo", "Benin", "Nigeria"]
    nodes = [await agent_graph.node(name) for name in names]
    edges = [str(await agent_graph.edge(*pair)) for pair in pairwise(nodes)]
    for depth in range(3):
        answer = await _query(agent_graph, ids=nodes[:1], neighbours=depth)
        assert _names(answer) == names[: depth + 1]
        assert [edge["id"] for edge in answer["edges"]] == edges[:depth]


async def test_a_large_neighbourhood_is_cut_and_says_so(agent_graph: AgentGraph) -> None:
    hub = await agent_graph.node("Hub")
    spokes = [await agent_graph.node(f"Spoke {number}") for number in range(60)]
    for spoke in spokes:
        await agent_graph.edge(spoke, hub)
    answer = await _query(agent_graph, ids=[hub], neighbours=2)
    assert len(answer["nodes"]) == query.MAX_NODES
    assert _names(answer)[1] == "Spoke 59", "the most recently updated come first"
    assert "Not all neighbours or edges are shown" in answer["cut"]


async def test_an_old_edge_between_two_hubs_is_shown_despite_newer_edges(
    agent_graph: AgentGraph,
) -> None:
    one, other = await agent_graph.node("One"), await agent_graph.node("Other")
    old = await agent_graph.edge(one, other)
    for number in range(110):
        spoke = await agent_graph.node(f"Spoke {number}")
        await agent_graph.edge(one, spoke)
        await agent_graph.edge(spoke, other)
    answer = await _query(agent_graph, ids=[one, other], neighbours=1)
    assert answer["edges"][0]["id"] == str(old)


async def test_the_shortest_paths_between_two(agent_graph: AgentGraph) -> None:
    a, b, c, d, e = [await agent_graph.node(name) for name in "ABCDE"]
    ab, cb, cd, de = [await agent_graph.edge(*pair) for pair in ((a, b), (c, b), (c, d), (d, e))]
    answer = await _query(agent_graph, between=[a, e])
    assert answer["paths"] == [
        {
            "nodeIds": [str(node) for node in (a, b, c, d, e)],
            "edgeIds": [str(edge) for edge in (ab, cb, cd, de)],
        }
    ]
    assert _names(answer) == list("ABCDE")
    ae = await agent_graph.edge(e, a)
    answer = await _query(agent_graph, between=[a, e])
    assert [path["edgeIds"] for path in answer["paths"]] == [[str(ae)]]


async def test_paths_avoid_hubs_and_have_at_most_four_edges(agent_graph: AgentGraph) -> None:
    hub, a, far = (
        await agent_graph.node("Hub"),
        await agent_graph.node("A"),
        await agent_graph.node("Far"),
    )
    link = await agent_graph.node("Link")
    await agent_graph.edge(a, link)
    await agent_graph.edge(link, hub)
    for number in range(220):
        await agent_graph.edge(await agent_graph.node(f"Spoke {number}"), hub)
    (path,) = (await _query(agent_graph, between=[hub, a]))["paths"]
    assert path["nodeIds"] == [str(node) for node in (hub, link, a)]
    answer = await _query(agent_graph, between=[hub, far])
    assert answer["paths"] == []
    assert "No path of at most 4 edges" in answer["cut"]


async def test_paths_need_two_nodes_of_this_agent(
    agent_graph: AgentGraph, stranger: AgentGraph
) -> None:
    ghana, foreign_node = await agent_graph.node("Ghana"), await stranger.node("Mali")
    for wrong in ([ghana], [ghana, ghana]):
        with pytest.raises(ToolRefusalError, match="two different nodes"):
            await _query(agent_graph, between=wrong)
    for unknown in (foreign_node, uuid4()):
        with pytest.raises(ToolRefusalError, match=f"no such node: {unknown}"):
            await _query(agent_graph, between=[ghana, unknown])


async def test_nodes_of_another_agent_are_never_found(
    agent_graph: AgentGraph, stranger: AgentGraph
) -> None:
    await agent_graph.node("Benin")
    one, other = await stranger.node("Mali", capital="Bamako"), await stranger.node("Niger")
    await stranger.edge(one, other)
    for text in ("Mali", "mal", "Malli", "bamako", "Mali Niger"):
        assert _names(await _query(agent_graph, text=text)) == []
    answer = await _query(agent_graph, ids=[one, other], neighbours=2)
    assert (answer["nodes"], answer["edges"]) == ([], [])


@settings(max_examples=60, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    text=st.one_of(
        st.text(max_size=60),
        st.text(alphabet="a%_\\'\"&|!:*()<> \x00\ud800é中", max_size=40),
        st.builds("".join, st.lists(st.sampled_from(["the ", "x" * 900, "a ", "\n"]), max_size=12)),
    )
)
async def test_any_text_is_answered_within_bounds(agent_graph: AgentGraph, text: str) -> None:
    await agent_graph.node("Ghana", capital="Accra")
    answer = await _query(agent_graph, text=text, neighbours=1, limit=query.MAX_NODES)
    assert len(json.dumps(answer, ensure_ascii=False).encode()) <= query.MAX_BYTES


async def test_ten_kilobytes_of_text_are_searched_normally(agent_graph: AgentGraph) -> None:
    await agent_graph.node("Ghana")
    assert _names(await _query(agent_graph, text="Ghana " + "x" * 10_000)) == ["Ghana"]
    assert _names(await _query(agent_graph, text="Ghana " * 2_000)) == ["Ghana"]


async def _add_evidence(agent_graph: AgentGraph, node_id: UUID, **valid: datetime) -> None:
    """Add evidence for the node with this validity."""
    agent_id, source_id, moment = agent_graph.scope.agent_id, uuid4(), datetime.now(UTC)
    async with agent_graph.database.transaction() as session:
        await session.insert(
            Source,
            id=source_id,
            agent_id=agent_id,
            url=f"https://example.org/{source_id}",
            fetched_at=moment,
            sha256=b"",
            text="page",
            seal=b"",
        )
        await session.insert(
            Evidence,
            id=ids.evidence_id(node_id, source_id, 0, 4, ""),
            agent_id=agent_id,
            node_id=node_id,
            source_id=source_id,
            first_byte=0,
            end_byte=4,
            quote_sha256=b"",
            claims={},
            as_of=valid["valid_from"],
            learned_at=moment,
            seal=b"",
            **valid,
        )
