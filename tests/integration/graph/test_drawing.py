"""Parts of a graph that are drawn: bounded, and of this agent alone."""

from datetime import UTC, datetime, timedelta
from itertools import pairwise
from uuid import UUID, uuid4

from services.api.queries import graph
from services.api.queries.graph import DrawingFilter
from shared.database.engine import Database
from shared.schemas.graph import DrawingView
from tests.support.graph.world import World, make_world


def names(drawn: DrawingView) -> list[str]:
    return [node.name for node in drawn.nodes]


async def chain(world: World, *called: str) -> list[UUID]:
    """Nodes that border on the one before each; the last was touched last."""
    ids = [await world.node(name) for name in called]
    for before, after in pairwise(ids):
        await world.edge(before, after)
    start = datetime(2026, 1, 1, tzinfo=UTC)
    for days, each in enumerate(ids):
        await world.touch(each, updated_at=start + timedelta(days=days))
    return ids


async def test_the_newest_are_drawn_with_the_edges_among_them_alone(database: Database) -> None:
    world = await make_world(database)
    ids = await chain(world, "Aland", "Borland", "Corland")
    async with database.transaction() as session:
        two = await graph.draw_newest(session, world.scope, DrawingFilter(), 2)
        every = await graph.draw_newest(session, world.scope, DrawingFilter(), 3)
        since = DrawingFilter(("Country",), datetime(2026, 1, 3, tzinfo=UTC))
        late = await graph.draw_newest(session, world.scope, since, 3)
        others = await graph.draw_newest(session, world.scope, DrawingFilter(("Nothing",)), 3)
    assert (names(two), two.cut) == (["Corland", "Borland"], True)
    assert [(edge.source_id, edge.target_id) for edge in two.edges] == [(ids[1], ids[2])]
    assert (len(every.edges), every.cut) == (2, False)
    assert (names(late), late.edges) == (["Corland"], [])
    assert others.nodes == []


async def test_of_a_hub_with_many_edges_those_to_what_is_drawn_are_found(
    database: Database,
) -> None:
    world = await make_world(database)
    hub = await world.node("Hub")
    leaves = [await world.node(f"Leaf {number}") for number in range(5)]
    for leaf in leaves:
        await world.edge(hub, leaf)
    async with database.transaction() as session:
        drawn = await graph.draw_newest(session, world.scope, DrawingFilter(), 10)
        best = await graph.draw_best_connected(session, world.scope, DrawingFilter(), 10)
    assert {edge.target_id for edge in drawn.edges} == set(leaves)
    assert {node.id for node in best.nodes} == {hub, *leaves}
    assert len(best.edges) == len(leaves)


async def test_a_search_and_a_node_lead_in(database: Database) -> None:
    world = await make_world(database)
    aland, borland, _ = await chain(world, "Aland", "Borland", "Corland")
    async with database.transaction() as session:
        found = await graph.draw_search(session, world.scope, "aland", DrawingFilter())
        at = await graph.draw_neighbourhood(session, world.scope, aland, depth=1, limit=10)
        none = await graph.draw_neighbourhood(session, world.scope, uuid4(), depth=1, limit=10)
    assert (names(found), found.edges) == (["Aland"], [])
    assert at is not None
    assert {node.id for node in at.nodes} == {aland, borland}
    assert none is None


async def test_nothing_of_another_s_graph_is_drawn(database: Database) -> None:
    world, other = await make_world(database), await make_world(database, "other")
    aland, _ = await chain(world, "Aland", "Borland")
    async with database.transaction() as session:
        assert (await graph.draw_newest(session, other.scope, DrawingFilter(), 10)).nodes == []
        assert (
            await graph.draw_best_connected(session, other.scope, DrawingFilter(), 10)
        ).nodes == []
        assert (
            await graph.draw_neighbourhood(session, other.scope, aland, depth=1, limit=10) is None
        )
