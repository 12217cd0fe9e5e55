"""Exports and imports include retractions, doubts and the names of nodes."""

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
from tests.support.graph.duplicates import Duplicates, merge_nodes
from tests.support.graph.graph_with_evidence import Proven, prove
from tests.support.graph.retraction_graph import Library
from tests.support.graph.transfer import exported, imported, reseal
from tests.support.graph.verifying import breaks
from tests.support.graph.world import World


@pytest.fixture
async def proven(world: World) -> Proven:
    return await prove(world)


async def test_unsupported_elements_are_imported_with_their_flag(proven: Proven) -> None:
    await proven.retract("https://a.example/togo")
    await proven.retract("https://a.example/ghana")
    scope = await imported(proven, await exported(proven))
    is_unsupported = GraphNode.unsupported_since.is_not(None)
    async with proven.world.database.transaction() as session:
        names = select(GraphNode.name).where(is_unsupported, GraphNode.agent_id == scope.agent_id)
        assert list(await session.scalars(names)) == ["Togo"]
        edges = select(GraphEdge.type, GraphEdge.unsupported_since.is_not(None))
        rows = await session.execute(edges.where(GraphEdge.agent_id == scope.agent_id))
        assert sorted(map(tuple, rows)) == [("about", False), ("borders", True)]


async def test_an_export_during_a_retraction_contains_the_final_state(
    proven: Proven,
) -> None:
    library = Library(proven.world)
    retraction_id = await library.ask_retract("https://b.example/census")
    halfway = await imported(proven, await exported(proven))
    await library.work_off()
    await library.ask_restore(retraction_id)
    restored = await imported(proven, await exported(proven))
    async with proven.world.database.snapshot() as session:
        for scope, people in ((halfway, 33_000_000), (restored, 35_000_000)):
            assert await breaks(session, scope) == []
            ghana = ids.node_id(scope.agent_id, "Country", "Ghana")
            node = await session.get_one(GraphNode, ghana)
            assert node.properties["population"] == people


async def test_a_renamed_node_keeps_its_evidence(proven: Proven) -> None:
    """Its id derives from the earlier spelling, and differs from the id of its present name."""
    from shared.graph.projection import reproject_node

    async with proven.world.database.transaction() as session:
        togo = proven.nodes["Togo"]
        await session.execute(update(GraphNode).where(GraphNode.id == togo).values(name="TOGO"))
        await reproject_node(session, proven.scope, togo)
    scope = await imported(proven, await exported(proven))
    async with proven.world.database.snapshot() as session:
        assert await breaks(session, scope) == []
        assert await canonical(session, scope) == await canonical(session, proven.scope)
        node = await session.get(GraphNode, ids.node_id(scope.agent_id, "Country", "TOGO"))
        assert node is None


async def test_an_imported_retraction_keeps_its_doubts_and_can_be_restored(
    proven: Proven,
) -> None:
    before = await doubted_names(proven.world, proven.scope)
    await Library(proven.world).retract("https://b.example/census")
    expected = await doubted_names(proven.world, proven.scope)
    assert expected > before
    scope = await imported(proven, await exported(proven))
    imported_library = Library(World(proven.world.database, scope, proven.world.validators))
    assert await doubted_names(imported_library.world, scope) == expected
    async with imported_library.world.database.transaction() as session:
        ghana = ids.node_id(scope.agent_id, "Country", "Ghana")
        assert [
            conclusion.name
            for conclusion in await citation_index.list_citing_conclusions(session, scope, ghana)
        ] == ["Growth"]
        is_own = Retraction.agent_id == scope.agent_id
        retraction = (await session.scalars(select(Retraction).where(is_own))).one()
        assert (retraction.url, retraction.reason) == ("https://b.example/census", "made up")
    await imported_library.restore(retraction.id)
    assert await doubted_names(imported_library.world, scope) == before
    node = await imported_library.get_node(ghana)
    assert node.properties["population"] == 35_000_000


async def doubted_names(world: World, scope: GraphScope) -> set[str]:
    """The names of the conclusions in doubt."""
    async with world.database.transaction() as session:
        is_own = GraphNode.agent_id == scope.agent_id
        return set(await session.scalars(select(GraphNode.name).where(is_own, doubts.is_doubted())))


async def test_the_names_of_a_node_are_imported(world: World, duplicates: Duplicates) -> None:
    """Otherwise the first page about the merged node would create a duplicate."""
    await merge_nodes(world, duplicates.kept_id, duplicates.merged_id)
    scope = await imported(Proven(world), await exported(Proven(world)))
    copy = World(world.database, scope, world.validators)
    kept_id = ids.node_id(scope.agent_id, "Country", "Ivory Coast")
    async with world.database.transaction() as session:
        names = await aliases.list_names(session, scope, kept_id)
    assert names == ["Ivory Coast", "Côte d’Ivoire"]
    assert await copy.node("Côte d'Ivoire") == await copy.node("IVORY COAST") == kept_id


def with_nodes(file: bytes, change: Callable[[dict[str, Any]], None]) -> bytes:
    """Apply `change` to each node, and reseal the file."""
    rows = [json.loads(line) for line in file.splitlines()]
    for row in rows:
        if "node" in row:
            change(row["node"])
    lines = [json.dumps(row, separators=(",", ":"), ensure_ascii=False) for row in rows]
    return reseal([f"{line}\n".encode() for line in lines])


async def test_an_older_export_is_imported_without_names_and_doubts(proven: Proven) -> None:
    def remove_names_and_doubts(node: dict[str, Any]) -> None:
        del node["names"], node["doubts"]

    scope = await imported(proven, with_nodes(await exported(proven), remove_names_and_doubts))
    async with proven.world.database.snapshot() as session:
        assert await breaks(session, scope) == []
        assert await canonical(session, scope) == await canonical(session, proven.scope)


async def test_a_name_shared_by_two_nodes_is_refused(proven: Proven) -> None:
    file = with_nodes(await exported(proven), lambda node: node["names"].update(same="Same"))
    with pytest.raises(BadFileError, match="its rows are inconsistent"):
        await imported(proven, file)
