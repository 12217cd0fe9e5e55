"""What queryGraph finds: in which order, how far, and that nothing that is asked can make it fail or grow."""

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


async def test_the_very_name_comes_first_then_words_of_names_then_those_of_properties(
    world: World,
) -> None:
    await world.node("Bank of Ghana")
    await world.node("Ghana")
    await world.node("Ghanaian Railways")
    await world.node("Accra", capital="of Ghana")
    await world.node("Togo")
    found = ["Ghana", "Bank of Ghana", "Ghanaian Railways", "Accra"]
    assert _names(await _query(world, text="ghana")) == found
    assert _names(await _query(world, text="bank of ghana"))[0] == "Bank of Ghana"


async def test_of_equal_matches_the_one_touched_last_comes_first(world: World) -> None:
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


async def test_several_types_and_times(world: World) -> None:
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


async def test_what_was_true_at_other_times_only_is_left_out_where_that_is_asked(
    world: World,
) -> None:
    ghana, togo, benin = [await world.unproven(name) for name in ("Ghana", "Togo", "Benin")]
    await _evidence(world, ghana, valid_from=LONG_AGO, valid_to=LONG_AGO + timedelta(days=365))
    await _evidence(world, togo, valid_from=LONG_AGO)

    async def at(moment: datetime) -> list[str]:
        return sorted(_names(await _query(world, as_of=moment)))

    assert await at(LONG_AGO - timedelta(days=1)) == ["Benin"], "nothing is known of its time"
    assert await at(LONG_AGO + timedelta(days=1)) == ["Benin", "Ghana", "Togo"]
    assert await at(LONG_AGO + timedelta(days=400)) == ["Benin", "Togo"]
    told = {node["id"]: node for node in (await _query(world))["nodes"]}
    assert told[str(ghana)]["asOf"] == "2020-01-01T00:00:00Z"
    assert told[str(ghana)]["until"] == "2020-12-31T00:00:00Z"
    assert "until" not in told[str(togo)]
    assert "asOf" not in told[str(benin)]


async def test_a_neighbourhood_reaches_as_far_as_asked(world: World) -> None:
    names = ["Ghana", "Togo", "Benin", "Nigeria"]
    nodes = [await world.node(name) for name in names]
    edges = [str(await world.edge(*pair)) for pair in pairwise(nodes)]
    for depth in range(3):
        answer = await _query(world, ids=nodes[:1], neighbours=depth)
        assert _names(answer) == names[: depth + 1]
        assert [edge["id"] for edge in answer["edges"]] == edges[:depth]


async def test_a_hub_is_shown_as_far_as_there_is_room_and_says_so(world: World) -> None:
    hub = await world.node("Hub")
    spokes = [await world.node(f"Spoke {number}") for number in range(60)]
    for spoke in spokes:
        await world.edge(spoke, hub)
    answer = await _query(world, ids=[hub], neighbours=2)
    assert len(answer["nodes"]) == query.MAX_NODES
    assert _names(answer)[1] == "Spoke 59", "those touched last are followed first"
    assert "Not all neighbours or edges are shown" in answer["cut"]


async def test_two_hubs_old_edge_is_among_them_however_many_newer_ones_there_are(
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
            "nodeIds": [str(each) for each in (a, b, c, d, e)],
            "edgeIds": [str(each) for each in (ab, cb, cd, de)],
        }
    ]
    assert _names(answer) == list("ABCDE")
    ae = await world.edge(e, a)
    answer = await _query(world, between=[a, e])
    assert [path["edgeIds"] for path in answer["paths"]] == [[str(ae)]]


async def test_paths_go_round_hubs_and_end_at_four_edges(world: World) -> None:
    hub, a, far = await world.node("Hub"), await world.node("A"), await world.node("Far")
    link = await world.node("Link")
    await world.edge(a, link)
    await world.edge(link, hub)
    for number in range(220):
        await world.edge(await world.node(f"Spoke {number}"), hub)
    (path,) = (await _query(world, between=[hub, a]))["paths"]
    assert path["nodeIds"] == [str(each) for each in (hub, link, a)]
    answer = await _query(world, between=[hub, far])
    assert answer["paths"] == []
    assert "No path of at most 4 edges" in answer["cut"]


async def test_paths_need_two_nodes_of_this_agent(world: World, stranger: World) -> None:
    ghana, theirs = await world.node("Ghana"), await stranger.node("Mali")
    for wrong in ([ghana], [ghana, ghana]):
        with pytest.raises(ToolRefusalError, match="two different nodes"):
            await _query(world, between=wrong)
    for unknown in (theirs, uuid4()):
        with pytest.raises(ToolRefusalError, match=f"no such node: {unknown}"):
            await _query(world, between=[ghana, unknown])


async def test_nothing_of_another_agent_is_found_in_any_way(world: World, stranger: World) -> None:
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


async def test_ten_kilobytes_of_text_are_a_question_like_any_other(world: World) -> None:
    await world.node("Ghana")
    assert _names(await _query(world, text="Ghana " + "x" * 10_000)) == ["Ghana"]
    assert _names(await _query(world, text="Ghana " * 2_000)) == ["Ghana"]


async def _evidence(world: World, node_id: UUID, **valid: datetime) -> None:
    """That there is such a node, on a page that says when."""
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
