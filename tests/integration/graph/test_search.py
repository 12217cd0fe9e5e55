"""Searching the graph: what is found, in which order and how far, and for whom."""

import json
from datetime import UTC, datetime, timedelta
from itertools import pairwise
from typing import Any
from uuid import UUID, uuid4

import psycopg
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from sqlalchemy import update

from services.api.resources.graph import model as graph
from shared.database import ids
from shared.database.tables import Evidence, GraphEdge, Source
from shared.enums import ADVICE_TYPE, StepKind
from shared.graph import context, elements, types
from shared.graph.conclusions import conclusions, queries
from shared.graph.prompt_format import format_utc
from shared.graph.retrieval import query
from shared.graph.retrieval.query import MIN_EDGES_PER_NODE
from shared.graph.scope import GraphScope
from shared.schemas.base import GraphCounts, PageRequest
from shared.tools import Json, ToolRefusalError
from tests.support.api.access import agent_access, is_missing
from tests.support.forecast_terms import ANALYSIS_TERMS
from tests.support.graph.agent_graph import COUNTRY, COUNTRY_SCHEMA, EVIDENCE_INPUTS, AgentGraph
from tests.support.graph.descriptions import describe_nodes, resolve_references
from tests.support.graph.duplicates import Duplicates, merge_nodes
from tests.support.graph.evidence_rows import EPOCH, make_evidence, make_source

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
    spokes = await agent_graph.unproven_nodes([f"Spoke {number}" for number in range(60)])
    await agent_graph.unproven_edges([(spoke, hub) for spoke in spokes])
    answer = await _query(agent_graph, ids=[hub], neighbours=2)
    assert len(answer["nodes"]) == query.MAX_NODES
    assert _names(answer)[1] == "Spoke 59", "the most recently updated come first"
    assert "Not all neighbours or edges are shown" in answer["cut"]


async def test_an_old_edge_between_two_hubs_is_shown_despite_newer_edges(
    agent_graph: AgentGraph,
) -> None:
    one, other = await agent_graph.node("One"), await agent_graph.node("Other")
    old = await agent_graph.edge(one, other)
    spokes = await agent_graph.unproven_nodes([f"Spoke {number}" for number in range(110)])
    await agent_graph.unproven_edges(
        [pair for spoke in spokes for pair in ((one, spoke), (spoke, other))]
    )
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
    spokes = await agent_graph.unproven_nodes([f"Spoke {number}" for number in range(220)])
    await agent_graph.unproven_edges([(spoke, hub) for spoke in spokes])
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
    await agent_graph.unproven_nodes(
        [f"Country {number:02}" for number in range(30)], capital="x" * 3_000
    )
    answer = await _query(agent_graph, limit=50)
    assert len(json.dumps(answer, ensure_ascii=False).encode()) <= query.MAX_BYTES
    assert len(answer["nodes"]) == 30
    assert "shortened" in answer["cut"]
    whole = await _query(agent_graph, ids=[answer["nodes"][-1]["id"]])
    assert len(whole["nodes"][0]["properties"]["capital"]) == 3_000
    assert "cut" not in whole


NOW = datetime.now(UTC)


def _ids(elements: list[Json]) -> list[str]:
    return [element["id"] for element in elements]


async def _touch_edge(agent_graph: AgentGraph, edge_id: UUID, **values: Any) -> None:
    async with agent_graph.database.transaction() as session:
        await session.execute(update(GraphEdge).where(GraphEdge.id == edge_id).values(**values))


async def test_a_cut_result_shows_the_newest_elements_in_order(agent_graph: AgentGraph) -> None:
    hub = await agent_graph.node("Hub")
    spokes = await agent_graph.unproven_nodes([f"Spoke {number}" for number in range(60)])
    edges = await agent_graph.unproven_edges([(spoke, hub) for spoke in spokes])
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
    near = await agent_graph.unproven_nodes([f"Near {number}" for number in range(30)])
    for edge in await agent_graph.unproven_edges([(centre, node) for node in near]):
        await _touch_edge(agent_graph, edge, updated_at=NOW - timedelta(days=9))
    for node, name in ((near[0], "Far"), (near[1], "Far too")):
        names = [f"{name} {number}" for number in range(3 * MIN_EDGES_PER_NODE)]
        far_nodes = await agent_graph.unproven_nodes(names)
        await agent_graph.unproven_edges([(node, far) for far in far_nodes])
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
    nodes = await agent_graph.unproven_nodes([f"Node {number}" for number in range(11)])
    pairs = [(one, other) for one in nodes for other in nodes if one != other]
    edges = await agent_graph.unproven_edges(pairs)
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


async def test_counts_lists_and_one_node_with_its_edges(agent_graph: AgentGraph) -> None:
    ghana, togo, benin = [await agent_graph.node(name) for name in ("Ghana", "Togo", "Benin")]
    near, far = await agent_graph.edge(ghana, togo), await agent_graph.edge(togo, benin)
    async with agent_graph.database.transaction() as session:
        analysis = await conclusions.add_analysis(
            session,
            agent_graph.scope,
            name="Growth",
            kind="observation",
            summary="It grows.",
            content=f"[node:{ghana}]",
            **ANALYSIS_TERMS,
        )
        counts = (await graph.count_by_type(agent_access(session, agent_graph.scope))).totals
        newest = await graph.newest_nodes(agent_access(session, agent_graph.scope), limit=2)
        countries = await graph.newest_nodes(
            agent_access(session, agent_graph.scope), type_name="Country"
        )
        edges = await graph.newest_edges(agent_access(session, agent_graph.scope))
        edge_types = await types.list_edge_types(session, agent_graph.scope)
        details = await graph.get_node(agent_access(session, agent_graph.scope), togo)
        no_advice = await queries.list_conclusions(
            session, agent_graph.scope, ADVICE_TYPE, PageRequest()
        )
    assert counts == GraphCounts(nodes=4, edges=2, analyses=1, advice=0)
    assert [node.id for node in newest] == [analysis, benin]
    assert [node.name for node in countries] == ["Benin", "Togo", "Ghana"]
    assert [(edge.id, edge.source_name, edge.target_name) for edge in edges] == [
        (far, "Togo", "Benin"),
        (near, "Ghana", "Togo"),
    ]
    assert [edge_type.name for edge_type in edge_types] == ["about", "borders"]
    assert details.name == "Togo"
    assert [edge.id for edge in details.edges.items] == [far, near]
    assert (no_advice.items, no_advice.next) == ([], None)


async def test_limits_out_of_range_are_clamped(agent_graph: AgentGraph) -> None:
    await agent_graph.node("Ghana")
    async with agent_graph.database.transaction() as session:
        assert await graph.newest_nodes(agent_access(session, agent_graph.scope), limit=-1) == []
        assert (
            len(await graph.newest_nodes(agent_access(session, agent_graph.scope), limit=10**9))
            == 1
        )


async def test_other_users_can_neither_read_nor_write_the_graph(
    agent_graph: AgentGraph, stranger: AgentGraph
) -> None:
    ghana, togo = await agent_graph.node("Ghana"), await agent_graph.node("Togo")
    await agent_graph.edge(ghana, togo)
    intruder = GraphScope(owner_id=stranger.scope.owner_id, agent_id=agent_graph.scope.agent_id)
    async with agent_graph.database.transaction() as session:
        counts = (await graph.count_by_type(agent_access(session, intruder))).totals
        assert counts == GraphCounts(nodes=0, edges=0, analyses=0, advice=0)
        assert await graph.newest_nodes(agent_access(session, intruder)) == []
        assert await graph.newest_edges(agent_access(session, intruder)) == []
        assert await types.list_node_types(session, intruder) == []
        assert await types.list_edge_types(session, intruder) == []
        assert await is_missing(graph.get_node(agent_access(session, intruder), ghana))
        assert (await query.query_graph(session, intruder, neighbours=True))["nodes"] == []
        survey = await context.build_survey(session, intruder, StepKind.OBSERVE)
        assert survey == "The graph is empty."
        assert await describe_nodes(session, intruder, [ghana]) == ""
        assert await resolve_references(session, intruder, ["Ghana"]) == ([], ["Ghana"])
        with pytest.raises(ToolRefusalError, match="no node type"):
            await elements.add_node(
                session,
                intruder,
                agent_graph.validators,
                type_name="Country",
                name="Mali",
                properties=COUNTRY,
                evidence=EVIDENCE_INPUTS,
            )
    with pytest.raises(psycopg.IntegrityError):
        async with agent_graph.database.transaction() as session:
            await types.create_node_type(
                session,
                intruder,
                agent_graph.validators,
                name="River",
                description="x",
                properties_schema=COUNTRY_SCHEMA,
                example_properties=COUNTRY,
                created_by="intruder",
            )
