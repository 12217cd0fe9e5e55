"""Undoing a merge restores the previous state, and evidence added since stays with the kept node."""

from datetime import UTC, datetime

import pytest
from sqlalchemy import update

from shared.database import ids
from shared.graph.entity_resolution import MergeRefusedError
from shared.graph.entity_resolution.merge import EDGES
from shared.graph.entity_resolution.redirects import current_ids
from tests.support.graph.duplicates import (
    Duplicates,
    assert_sealed,
    load_rows,
    merge_nodes,
    undo_merge,
)
from tests.support.graph.page_evidence import said
from tests.support.graph.verifying import breaks
from tests.support.graph.world import World


async def test_an_immediate_undo_restores_the_previous_state(
    world: World, duplicates: Duplicates
) -> None:
    before = await load_rows(world)
    merge = await merge_nodes(world, duplicates.kept_id, duplicates.merged_id)
    undone_merge = await undo_merge(world, merge.id)
    assert undone_merge.undone_at is not None
    assert await load_rows(world) == before
    repeated = await undo_merge(world, merge.id)
    assert repeated.undone_at == undone_merge.undone_at
    second = await merge_nodes(world, duplicates.kept_id, duplicates.merged_id)
    await undo_merge(world, second.id)
    assert await load_rows(world) == before


async def test_undoing_a_merge_redirects_its_edges_back(
    world: World, duplicates: Duplicates
) -> None:
    merge = await merge_nodes(world, duplicates.kept_id, duplicates.merged_id)
    merged = ids.edge_id(world.scope.agent_id, "borders", duplicates.kept_id, duplicates.ghana)
    await undo_merge(world, merge.id)
    async with world.database.transaction() as session:
        assert await current_ids(session, world.scope, [merged]) == {merged: duplicates.to_ghana}
    assert await world.edge(duplicates.kept_id, duplicates.ghana) == merged
    async with world.database.transaction() as session:
        assert await current_ids(session, world.scope, [merged]) == {}
    await merge_nodes(world, duplicates.kept_id, duplicates.merged_id)
    async with world.database.transaction() as session:
        assert await current_ids(session, world.scope, [duplicates.to_ghana]) == {
            duplicates.to_ghana: merged
        }
    await assert_sealed(world)


async def test_evidence_added_after_the_merge_stays_with_the_kept_node(
    world: World, duplicates: Duplicates
) -> None:
    merge = await merge_nodes(world, duplicates.kept_id, duplicates.merged_id)
    merged = ids.edge_id(world.scope.agent_id, "borders", duplicates.kept_id, duplicates.ghana)
    await said(world, "https://x", "There are 32 million.", node=duplicates.kept_id, population=32)
    await said(world, "https://y", "It was drawn in 1893.", edge=merged, since=1893)
    togo = await world.node("Togo")
    new = await world.edge(duplicates.kept_id, togo)
    await undo_merge(world, merge.id)
    node_rows, edge_rows, _, _ = await load_rows(world)
    by_id = {row["id"]: row["properties"] for row in [*node_rows, *edge_rows]}
    assert by_id[duplicates.kept_id] == {
        "summary": "A republic.",
        "capital": "Abidjan",
        "population": 32,
    }
    assert by_id[duplicates.merged_id]["population"] == 1
    assert by_id[merged] == {"since": 1893}
    assert by_id[duplicates.to_ghana] == {"km": 720}
    assert new in by_id
    await assert_sealed(world)


async def test_merges_that_build_on_each_other_are_undone_in_reverse(
    world: World, duplicates: Duplicates
) -> None:
    before = await load_rows(world)
    first = await merge_nodes(world, duplicates.kept_id, duplicates.merged_id)
    second = await merge_nodes(world, duplicates.ghana, duplicates.kept_id)
    async with world.database.transaction() as session:
        redirects = await current_ids(session, world.scope, [duplicates.merged_id])
    assert redirects == {duplicates.merged_id: duplicates.ghana}
    with pytest.raises(
        MergeRefusedError, match=f"merge {second.id} of 'Ivory Coast' was made later"
    ):
        await undo_merge(world, first.id)
    await undo_merge(world, second.id)
    await undo_merge(world, first.id)
    assert await load_rows(world) == before


async def test_independent_merges_may_be_undone_in_any_order(
    world: World, duplicates: Duplicates
) -> None:
    one, other = await world.node("Chad"), await world.node("Tchad")
    before = await load_rows(world)
    first = await merge_nodes(world, duplicates.kept_id, duplicates.merged_id)
    second = await merge_nodes(world, one, other)
    await undo_merge(world, first.id)
    await undo_merge(world, second.id)
    assert await load_rows(world) == before


async def test_a_page_that_is_retracted_meanwhile_stays_retracted(
    world: World, duplicates: Duplicates
) -> None:
    merge = await merge_nodes(world, duplicates.kept_id, duplicates.merged_id)
    from shared.database.tables import Source

    async with world.database.transaction() as session:
        at_b = update(Source).where(Source.url == "https://b")
        await session.execute(at_b.values(retracted_at=datetime.now(UTC)))
    await undo_merge(world, merge.id)
    node_rows, _, _, _ = await load_rows(world)
    merged_node = next(row for row in node_rows if row["id"] == duplicates.merged_id)
    assert "capital" not in merged_node["properties"]
    await assert_sealed(world)


async def test_repeated_claims_about_the_kept_node_leave_its_seal_valid(
    world: World, duplicates: Duplicates
) -> None:
    """Its properties are the same, with more evidence."""
    merge = await merge_nodes(world, duplicates.kept_id, duplicates.merged_id)
    await said(
        world, "https://x", "A republic it is.", node=duplicates.kept_id, summary="A republic."
    )
    await said(world, "https://y", "Both are old.", edge=duplicates.kept_to_mali, since=1960)
    await undo_merge(world, merge.id)
    await assert_sealed(world)


async def test_an_edge_of_the_merge_is_removed_even_if_its_quote_was_repeated(
    world: World, duplicates: Duplicates
) -> None:
    """Otherwise an edge without evidence would remain."""
    merge = await merge_nodes(world, duplicates.kept_id, duplicates.merged_id)
    merged = await world.edge(duplicates.kept_id, duplicates.ghana)
    await undo_merge(world, merge.id)
    [edge_rows] = await load_rows(world, EDGES)
    assert merged not in {row["id"] for row in edge_rows}
    async with world.database.snapshot() as session:
        assert await breaks(session, world.scope) == []
