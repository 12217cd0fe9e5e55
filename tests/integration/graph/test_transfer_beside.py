"""What stands beside a graph goes along with it: what is retracted and in doubt, and what its nodes are called."""

import json
from collections.abc import Callable
from typing import Any

import pytest
from sqlalchemy import select, update

from shared.database import ids
from shared.database.tables import GraphEdge, GraphNode, Retraction
from shared.graph.conclusions import citation_index
from shared.graph.entity_resolution import aliases
from shared.graph.retraction import doubts
from shared.graph.scope import GraphScope
from shared.graph.transfer.file_reader import BadFileError
from tests.support.canonical_graph import canonical
from tests.support.graph.doubled import Doubled, merge_nodes
from tests.support.graph.library import Library
from tests.support.graph.proven import Proven, prove
from tests.support.graph.transferring import exported, imported, resealed
from tests.support.graph.verifying import breaks
from tests.support.graph.world import World


@pytest.fixture
async def proven(world: World) -> Proven:
    return await prove(world)


async def test_what_rests_on_retracted_pages_alone_comes_back_with_its_flag(proven: Proven) -> None:
    await proven.retract("https://a.example/togo")
    await proven.retract("https://a.example/ghana")
    scope = await imported(proven, await exported(proven))
    flagged = GraphNode.unsupported_since.is_not(None)
    async with proven.world.database.transaction() as session:
        named = select(GraphNode.name).where(flagged, GraphNode.agent_id == scope.agent_id)
        assert list(await session.scalars(named)) == ["Togo"]
        edges = select(GraphEdge.type, GraphEdge.unsupported_since.is_not(None))
        found = await session.execute(edges.where(GraphEdge.agent_id == scope.agent_id))
        assert sorted(map(tuple, found)) == [("about", False), ("borders", True)]


async def test_a_graph_goes_out_as_it_will_be_while_a_retraction_is_gone_through(
    proven: Proven,
) -> None:
    library = Library(proven.world)
    made = await library.ask_retract("https://b.example/census")
    halfway = await imported(proven, await exported(proven))
    await library.work_off()
    await library.ask_restore(made)
    restored = await imported(proven, await exported(proven))
    async with proven.world.database.snapshot() as session:
        for scope, people in ((halfway, 33_000_000), (restored, 35_000_000)):
            assert await breaks(session, scope) == []
            ghana = ids.node_id(scope.agent_id, "Country", "Ghana")
            node = await session.get_one(GraphNode, ghana)
            assert node.properties["population"] == people


async def test_a_node_that_was_renamed_keeps_its_proof(proven: Proven) -> None:
    """Its id was made of the earlier spelling, and stays another than that of its name."""
    from shared.graph.projection import reproject_node

    async with proven.world.database.transaction() as session:
        togo = proven.nodes["Togo"]
        await session.execute(update(GraphNode).where(GraphNode.id == togo).values(name="TOGO"))
        await reproject_node(session, proven.scope, togo)
    scope = await imported(proven, await exported(proven))
    async with proven.world.database.snapshot() as session:
        assert await breaks(session, scope) == []
        assert await canonical(session, scope) == await canonical(session, proven.scope)
        found = await session.get(GraphNode, ids.node_id(scope.agent_id, "Country", "TOGO"))
        assert found is None


async def test_what_was_retracted_is_in_doubt_there_too_and_can_be_restored(
    proven: Proven,
) -> None:
    before = await in_doubt(proven.world, proven.scope)
    await Library(proven.world).retract("https://b.example/census")
    doubted = await in_doubt(proven.world, proven.scope)
    assert doubted > before
    scope = await imported(proven, await exported(proven))
    again = Library(World(proven.world.database, scope, proven.world.validators))
    assert await in_doubt(again.world, scope) == doubted
    async with again.world.database.transaction() as session:
        ghana = ids.node_id(scope.agent_id, "Country", "Ghana")
        assert [
            each.name
            for each in await citation_index.list_citing_conclusions(session, scope, ghana)
        ] == ["Growth"]
        of_it = Retraction.agent_id == scope.agent_id
        made = (await session.scalars(select(Retraction).where(of_it))).one()
        assert (made.url, made.reason) == ("https://b.example/census", "made up")
    await again.restore(made.id)
    assert await in_doubt(again.world, scope) == before
    restored = await again.found(ghana)
    assert restored.properties["population"] == 35_000_000


async def in_doubt(world: World, scope: GraphScope) -> set[str]:
    """By name."""
    async with world.database.transaction() as session:
        mine = GraphNode.agent_id == scope.agent_id
        return set(await session.scalars(select(GraphNode.name).where(mine, doubts.is_doubted())))


async def test_what_a_node_is_called_comes_along(world: World, doubled: Doubled) -> None:
    """Or what was merged into it would be written anew, as a double, by the first page that speaks of it."""
    await merge_nodes(world, doubled.kept, doubled.gone)
    scope = await imported(Proven(world), await exported(Proven(world)))
    again = World(world.database, scope, world.validators)
    kept = ids.node_id(scope.agent_id, "Country", "Ivory Coast")
    async with world.database.transaction() as session:
        told = await aliases.list_names(session, scope, kept)
    assert told == ["Ivory Coast", "Côte d’Ivoire"]
    assert await again.node("Côte d'Ivoire") == await again.node("IVORY COAST") == kept


def with_nodes(file: bytes, change: Callable[[dict[str, Any]], None]) -> bytes:
    """As if it had been written so."""
    told = [json.loads(line) for line in file.splitlines()]
    for each in told:
        if "node" in each:
            change(each["node"])
    lines = [json.dumps(each, separators=(",", ":"), ensure_ascii=False) for each in told]
    return resealed([f"{line}\n".encode() for line in lines])


async def test_an_export_of_before_comes_back_without_what_stands_beside_it(proven: Proven) -> None:
    def as_before(node: dict[str, Any]) -> None:
        del node["names"], node["doubts"]

    scope = await imported(proven, with_nodes(await exported(proven), as_before))
    async with proven.world.database.snapshot() as session:
        assert await breaks(session, scope) == []
        assert await canonical(session, scope) == await canonical(session, proven.scope)


async def test_a_name_that_two_nodes_have_is_refused(proven: Proven) -> None:
    file = with_nodes(await exported(proven), lambda node: node["names"].update(same="Same"))
    with pytest.raises(BadFileError, match="its rows are inconsistent"):
        await imported(proven, file)
