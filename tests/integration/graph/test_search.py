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
from tests.support.graph.world import World

LONG_AGO = datetime(2020, 1, 1, tzinfo=UTC)


async def _query(world: World, **conditions: Any) -> Json:
    async with world.database.transaction() as session:
        return await query.query_graph(session, world.scope, **conditions)


def _names(answer: Json) -> list[str]:
    return [node["name"] for node in answer["nodes"]]


async def test_exact_names_rank_before_name_words_and_property_words(
    world: World,
) -> None:
    await world.node("Bank of Ghana")
    await world.node("Ghana")
    await world.node("Ghanaian Railways")
    await world.node("Accra", capital="of Ghana")
    await world.node("Togo")
    expected = ["Ghana", "Bank of Ghana", "Ghanaian Railways", "Accra"]
    assert _names(await _query(world, text="ghana")) == expected
    assert _names(await _query(world, text="bank of ghana"))[0] == "Bank of Ghana"


async def test_equal_matches_are_ordered_by_last_update(world: World) -> None:
    old, new = await world.node("North Ghana"), await world.node("South Ghana")
    await world.touch(old, updated_at=datetime.now(UTC) + timedelta(hours=1))
    assert _names(await _query(world, text="Ghana")) == ["North Ghana", "South Ghana"]
    await world.touch(new, updated_at=datetime.now(UTC) + timedelta(hours=2))
    assert _names(await _query(world, text="Ghana")) == ["South Ghana", "North Ghana"]


@pytest.mark.parametrize("text", ["Volkswgen", "volkswagne ag", "Wolkswagen"])
async def test_misspelled_names_are_found(world: World, text: str) -> None:
    await world.node("Volkswagen AG")
    await world.node("Toyota")
    assert _names(await _query(world, text=text)) == ["Volkswagen AG"]


async def test_figures_and_words_deep_in_properties_are_found(world: World) -> None:
    await world.node("Ghana", population=33_475_870)
    await world.node("Togo", capital="x " * 3_000 + "lome")
    assert _names(await _query(world, text="33475870")) == ["Ghana"]
    assert _names(await _query(world, text="lome")) == ["Togo"]


async def test_results_are_filtered_by_types_and_times(world: World) -> None:
    for name in ("River", "Port"):
        await world.node_type(name)
    ghana = await world.node("Ghana")
    await world.node("Volta", "River")
    await world.node("Tema", "Port")
    assert _names(await _query(world, type_names=["River", "Port"])) == ["Tema", "Volta"]
    assert _names(await _query(world, type_name="Country", type_names=["Port"])) == [
        "Tema",
        "Ghana",
    ]
    await world.touch(ghana, updated_at=LONG_AGO)
    lately = datetime.now(UTC) - timedelta(hours=1)
    assert _names(await _query(world, updated_since=lately)) == ["Tema", "Volta"]
    assert _names(await _query(world, text="Ghana", updated_since=lately)) == []
    assert _names(await _query(world, text="a", type_names=["Port"])) == ["Tema"]


async def test_nodes_not_valid_at_the_requested_time_are_left_out(
    world: World,
) -> None:
    ghana, togo, benin = [await world.unproven(name) for name in ("Ghana", "Togo", "Benin")]
    await _add_evidence(world, ghana, valid_from=LONG_AGO, valid_to=LONG_AGO + timedelta(days=365))
    await _add_evidence(world, togo, valid_from=LONG_AGO)

    async def names_at(moment: datetime) -> list[str]:
        return sorted(_names(await _query(world, as_of=moment)))

    assert await names_at(LONG_AGO - timedelta(days=1)) == ["Benin"], "its validity is unknown"
    assert await names_at(LONG_AGO + timedelta(days=1)) == ["Benin", "Ghana", "Togo"]
    assert await names_at(LONG_AGO + timedelta(days=400)) == ["Benin", "Togo"]
    nodes = {node["id"]: node for node in (await _query(world))["nodes"]}
    assert nodes[str(ghana)]["asOf"] == "2020-01-01T00:00:00Z"
    assert nodes[str(ghana)]["until"] == "2020-12-31T00:00:00Z"
    assert "until" not in nodes[str(togo)]
    assert "asOf" not in nodes[str(benin)]


async def test_a_neighbourhood_has_the_requested_depth(world: World) -> None:
    names = ["Ghana", "Togo", "Benin", "Nigeria"]
    nodes = [await world.node(name) for name in names]
    edges = [str(await world.edge(*pair)) for pair in pairwise(nodes)]
    for depth in range(3):
        answer = await _query(world, ids=nodes[:1], neighbours=depth)
        assert _names(answer) == names[: depth + 1]
        assert [edge["id"] for edge in answer["edges"]] == edges[:depth]


async def test_a_large_neighbourhood_is_cut_and_says_so(world: World) -> None:
    hub = await world.node("Hub")
    spokes = [await world.node(f"Spoke {number}") for number in range(60)]
    for spoke in spokes:
        await world.edge(spoke, hub)
    answer = await _query(world, ids=[hub], neighbours=2)
    assert len(answer["nodes"]) == query.MAX_NODES
    assert _names(answer)[1] == "Spoke 59", "the most recently updated come first"
    assert "Not all neighbours or edges are shown" in answer["cut"]


async def test_an_old_edge_between_two_hubs_is_shown_despite_newer_edges(
    world: World,
) -> None:
    one, other = await world.node("One"), await world.node("Other")
    old = await world.edge(one, other)
    for number in range(110):
        spoke = await world.node(f"Spoke {number}")
        await world.edge(one, spoke)
        await world.edge(spoke, other)
    answer = await _query(world, ids=[one, other], neighbours=1)
    assert answer["edges"][0]["id"] == str(old)


async def test_the_shortest_paths_between_two(world: World) -> None:
    a, b, c, d, e = [await world.node(name) for name in "ABCDE"]
    ab, cb, cd, de = [await world.edge(*pair) for pair in ((a, b), (c, b), (c, d), (d, e))]
    answer = await _query(world, between=[a, e])
    assert answer["paths"] == [
        {
            "nodeIds": [str(node) for node in (a, b, c, d, e)],
            "edgeIds": [str(edge) for edge in (ab, cb, cd, de)],
        }
    ]
    assert _names(answer) == list("ABCDE")
    ae = await world.edge(e, a)
    answer = await _query(world, between=[a, e])
    assert [path["edgeIds"] for path in answer["paths"]] == [[str(ae)]]


async def test_paths_avoid_hubs_and_have_at_most_four_edges(world: World) -> None:
    hub, a, far = await world.node("Hub"), await world.node("A"), await world.node("Far")
    link = await world.node("Link")
    await world.edge(a, link)
    await world.edge(link, hub)
    for number in range(220):
        await world.edge(await world.node(f"Spoke {number}"), hub)
    (path,) = (await _query(world, between=[hub, a]))["paths"]
    assert path["nodeIds"] == [str(node) for node in (hub, link, a)]
    answer = await _query(world, between=[hub, far])
    assert answer["paths"] == []
    assert "No path of at most 4 edges" in answer["cut"]


async def test_paths_need_two_nodes_of_this_agent(world: World, stranger: World) -> None:
    ghana, foreign_node = await world.node("Ghana"), await stranger.node("Mali")
    for wrong in ([ghana], [ghana, ghana]):
        with pytest.raises(ToolRefusalError, match="two different nodes"):
            await _query(world, between=wrong)
    for unknown in (foreign_node, uuid4()):
        with pytest.raises(ToolRefusalError, match=f"no such node: {unknown}"):
            await _query(world, between=[ghana, unknown])


async def test_nodes_of_another_agent_are_never_found(world: World, stranger: World) -> None:
    await world.node("Benin")
    one, other = await stranger.node("Mali", capital="Bamako"), await stranger.node("Niger")
    await stranger.edge(one, other)
    for text in ("Mali", "mal", "Malli", "bamako", "Mali Niger"):
        assert _names(await _query(world, text=text)) == []
    answer = await _query(world, ids=[one, other], neighbours=2)
    assert (answer["nodes"], answer["edges"]) == ([], [])


@settings(
    max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
@given(
    text=st.one_of(
        st.text(max_size=60),
        st.text(alphabet="a%_\\'\"&|!:*()<> \x00\ud800é中", max_size=40),
        st.builds("".join, st.lists(st.sampled_from(["the ", "x" * 900, "a ", "\n"]), max_size=12)),
    )
)
async def test_any_text_is_answered_within_bounds(world: World, text: str) -> None:
    await world.node("Ghana", capital="Accra")
    answer = await _query(world, text=text, neighbours=1, limit=query.MAX_NODES)
    assert len(json.dumps(answer, ensure_ascii=False).encode()) <= query.MAX_BYTES


async def test_ten_kilobytes_of_text_are_searched_normally(world: World) -> None:
    await world.node("Ghana")
    assert _names(await _query(world, text="Ghana " + "x" * 10_000)) == ["Ghana"]
    assert _names(await _query(world, text="Ghana " * 2_000)) == ["Ghana"]


async def _add_evidence(world: World, node_id: UUID, **valid: datetime) -> None:
    """Add evidence for the node with this validity."""
    agent_id, source_id, moment = world.scope.agent_id, uuid4(), datetime.now(UTC)
    async with world.database.transaction() as session:
        session.add(
            Source(
                id=source_id,
                agent_id=agent_id,
                url=f"https://example.org/{source_id}",
                fetched_at=moment,
                sha256=b"",
                text="page",
                seal=b"",
            )
        )
        await session.flush()
        session.add(
            Evidence(
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
        )
