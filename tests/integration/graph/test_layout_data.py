"""Graph layouts: bounded, and limited to one agent."""

from datetime import UTC, datetime, timedelta
from itertools import pairwise
from uuid import UUID, uuid4

import pytest
from sqlalchemy import update

from services.api.resources.graph import model as graph
from services.api.resources.graph.model import DrawingFilter
from shared.database.engine import Database
from shared.database.tables import Source
from shared.schemas.graph import GraphLayout
from tests.support.api.access import agent_access, is_missing
from tests.support.graph.agent_graph import AgentGraph, make_agent_graph
from tests.support.graph.page_evidence import said


def names(layout: GraphLayout) -> list[str]:
    return [node.name for node in layout.nodes]


async def chain(agent_graph: AgentGraph, *node_names: str) -> list[UUID]:
    """Add nodes that each border on the previous one; the last is the newest."""
    ids = [await agent_graph.node(name) for name in node_names]
    for before, after in pairwise(ids):
        await agent_graph.edge(before, after)
    start = datetime(2026, 1, 1, tzinfo=UTC)
    for days, node_id in enumerate(ids):
        await agent_graph.touch(node_id, updated_at=start + timedelta(days=days))
    return ids


async def test_the_newest_nodes_are_drawn_with_only_the_edges_between_them(
    database: Database,
) -> None:
    agent_graph = await make_agent_graph(database)
    ids = await chain(agent_graph, "Aland", "Borland", "Corland")
    async with database.transaction() as session:
        two = await graph.draw_newest(agent_access(session, agent_graph.scope), DrawingFilter(), 2)
        every = await graph.draw_newest(
            agent_access(session, agent_graph.scope), DrawingFilter(), 3
        )
        recent = DrawingFilter(("Country",), datetime(2026, 1, 3, tzinfo=UTC))
        late = await graph.draw_newest(agent_access(session, agent_graph.scope), recent, 3)
        others = await graph.draw_newest(
            agent_access(session, agent_graph.scope), DrawingFilter(("Nothing",)), 3
        )
    assert (names(two), two.cut) == (["Corland", "Borland"], True)
    assert [(edge.source_id, edge.target_id) for edge in two.edges] == [(ids[1], ids[2])]
    assert (len(every.edges), every.cut) == (2, False)
    assert (names(late), late.edges) == (["Corland"], [])
    assert others.nodes == []


async def test_the_edges_of_a_hub_to_drawn_nodes_are_found(
    database: Database,
) -> None:
    agent_graph = await make_agent_graph(database)
    hub = await agent_graph.node("Hub")
    leaves = [await agent_graph.node(f"Leaf {number}") for number in range(5)]
    for leaf in leaves:
        await agent_graph.edge(hub, leaf)
    async with database.transaction() as session:
        newest = await graph.draw_newest(
            agent_access(session, agent_graph.scope), DrawingFilter(), 10
        )
        best = await graph.draw_best_connected(
            agent_access(session, agent_graph.scope), DrawingFilter(), 10
        )
    assert {edge.target_id for edge in newest.edges} == set(leaves)
    assert {node.id for node in best.nodes} == {hub, *leaves}
    assert len(best.edges) == len(leaves)


async def test_search_results_and_neighbourhoods_are_drawn(database: Database) -> None:
    agent_graph = await make_agent_graph(database)
    aland, borland, _ = await chain(agent_graph, "Aland", "Borland", "Corland")
    async with database.transaction() as session:
        matches = await graph.draw_search(
            agent_access(session, agent_graph.scope), "aland", DrawingFilter()
        )
        neighbourhood = await graph.draw_neighbourhood(
            agent_access(session, agent_graph.scope), aland, depth=1, limit=10
        )
        access = agent_access(session, agent_graph.scope)
        assert await is_missing(graph.draw_neighbourhood(access, uuid4(), depth=1, limit=10))
    assert (names(matches), matches.edges) == (["Aland"], [])
    assert {node.id for node in neighbourhood.nodes} == {aland, borland}


async def test_the_graph_of_another_agent_is_not_drawn(database: Database) -> None:
    agent_graph, other = await make_agent_graph(database), await make_agent_graph(database, "other")
    aland, _ = await chain(agent_graph, "Aland", "Borland")
    async with database.transaction() as session:
        assert (
            await graph.draw_newest(agent_access(session, other.scope), DrawingFilter(), 10)
        ).nodes == []
        assert (
            await graph.draw_best_connected(agent_access(session, other.scope), DrawingFilter(), 10)
        ).nodes == []
        access = agent_access(session, other.scope)
        assert await is_missing(graph.draw_neighbourhood(access, aland, depth=1, limit=10))


async def test_paths_are_drawn_with_their_nodes_and_edges(database: Database) -> None:
    agent_graph = await make_agent_graph(database)
    aland, borland, corland = await chain(agent_graph, "Aland", "Borland", "Corland")
    volta = await agent_graph.node("Volta")
    async with database.transaction() as session:
        drawn = await graph.draw_paths(agent_access(session, agent_graph.scope), corland, aland)
        unconnected = await graph.draw_paths(agent_access(session, agent_graph.scope), aland, volta)
    assert drawn.paths == [[corland, borland, aland]]
    assert {node.id for node in drawn.layout.nodes} == {aland, borland, corland}
    assert len(drawn.layout.edges) == 2
    assert unconnected.paths == []
    assert {node.id for node in unconnected.layout.nodes} == {aland, volta}


async def test_a_neighbourhood_of_three_steps_is_drawn(database: Database) -> None:
    agent_graph = await make_agent_graph(database)
    ids = await chain(agent_graph, "Aland", "Borland", "Corland", "Togoland", "Volta")
    async with database.transaction() as session:
        layout = await graph.draw_neighbourhood(
            agent_access(session, agent_graph.scope), ids[0], depth=graph.MAX_FOCUS_DEPTH, limit=10
        )
    assert {node.id for node in layout.nodes} == set(ids[:4])


async def test_an_edge_is_found_by_its_type_and_ends(database: Database) -> None:
    agent_graph = await make_agent_graph(database)
    other = await make_agent_graph(database, "other")
    aland, borland = await chain(agent_graph, "Aland", "Borland")
    async with database.transaction() as session:
        found = await graph.find_edge_id(
            agent_access(session, agent_graph.scope), "borders", aland, borland
        )
        backwards = await graph.find_edge_id(
            agent_access(session, agent_graph.scope), "borders", borland, aland
        )
        foreign = await graph.find_edge_id(
            agent_access(session, other.scope), "borders", aland, borland
        )
        assert found is not None
        edge = await graph.get_edge(agent_access(session, agent_graph.scope), found)
    assert (edge.source_id, edge.target_id) == (aland, borland)
    assert (backwards, foreign) == (None, None)


async def _borders_with_sites(agent_graph: AgentGraph) -> tuple[UUID, UUID]:
    """An edge that pages of three sites support besides the site of every edge, and its source node."""
    aland, borland, _ = await chain(agent_graph, "Aland", "Borland", "Corland")
    async with agent_graph.database.transaction() as session:
        edge_id = await graph.find_edge_id(
            agent_access(session, agent_graph.scope), "borders", aland, borland
        )
    assert edge_id is not None
    for url in ("https://a.example/1", "https://a.example/2", "https://b.example", "https://c.io"):
        await said(agent_graph, url, f"Aland borders on Borland, says {url}", edge=edge_id)
    return edge_id, aland


async def test_the_sites_that_support_each_edge_are_counted(database: Database) -> None:
    agent_graph = await make_agent_graph(database)
    _, aland = await _borders_with_sites(agent_graph)
    async with database.transaction() as session:
        every = await graph.draw_newest(
            agent_access(session, agent_graph.scope), DrawingFilter(), 10
        )
        near = await graph.draw_neighbourhood(
            agent_access(session, agent_graph.scope), aland, depth=1, limit=10
        )
    assert {edge.source_id == aland: edge.sites for edge in every.edges} == {True: 4, False: 1}
    assert [edge.sites for edge in near.edges] == [4]


async def test_retracted_pages_do_not_count_as_sites(database: Database) -> None:
    agent_graph = await make_agent_graph(database)
    _, aland = await _borders_with_sites(agent_graph)
    async with database.transaction() as session:
        retracted = update(Source).values(retracted_at=datetime(2026, 2, 1, tzinfo=UTC))
        await session.execute(retracted.where(Source.url == "https://b.example"))
        every = await graph.draw_newest(
            agent_access(session, agent_graph.scope), DrawingFilter(), 10
        )
    assert [edge.sites for edge in every.edges if edge.source_id == aland] == [3]


async def test_sites_are_not_counted_for_many_edges(
    database: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(graph, "MAX_EDGES_WITH_SITES", 1)
    agent_graph = await make_agent_graph(database)
    await _borders_with_sites(agent_graph)
    async with database.transaction() as session:
        every = await graph.draw_newest(
            agent_access(session, agent_graph.scope), DrawingFilter(), 10
        )
        two = await graph.draw_newest(agent_access(session, agent_graph.scope), DrawingFilter(), 2)
    assert [edge.sites for edge in every.edges] == [0, 0]
    assert [edge.sites for edge in two.edges] == [1]
