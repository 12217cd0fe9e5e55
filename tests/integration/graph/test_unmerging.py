"""A merge undone: all is as it was, and what came since stays where it was said."""

from datetime import UTC, datetime

import pytest
from sqlalchemy import update

from shared.database import ids
from shared.graph.entity_resolution import MergeRefusedError
from shared.graph.entity_resolution.merge import EDGES
from shared.graph.entity_resolution.redirects import current_ids
from tests.support.graph.doubled import Doubled, assert_sealed, merge_nodes, rows_of, undo_merge
from tests.support.graph.said import said
from tests.support.graph.verifying import breaks
from tests.support.graph.world import World


async def test_undone_at_once_all_is_as_it_was(world: World, doubled: Doubled) -> None:
    before = await rows_of(world)
    made = await merge_nodes(world, doubled.kept, doubled.gone)
    undone = await undo_merge(world, made.id)
    assert undone.undone_at is not None
    assert await rows_of(world) == before
    again = await undo_merge(world, made.id)
    assert again.undone_at == undone.undone_at
    second = await merge_nodes(world, doubled.kept, doubled.gone)
    await undo_merge(world, second.id)
    assert await rows_of(world) == before


async def test_what_cites_an_edge_of_the_merge_is_led_back_with_it(
    world: World, doubled: Doubled
) -> None:
    made = await merge_nodes(world, doubled.kept, doubled.gone)
    merged = ids.edge_id(world.scope.agent_id, "borders", doubled.kept, doubled.ghana)
    await undo_merge(world, made.id)
    async with world.database.transaction() as session:
        assert await current_ids(session, world.scope, [merged]) == {merged: doubled.to_ghana}
    assert await world.edge(doubled.kept, doubled.ghana) == merged
    async with world.database.transaction() as session:
        assert await current_ids(session, world.scope, [merged]) == {}
    await merge_nodes(world, doubled.kept, doubled.gone)
    async with world.database.transaction() as session:
        assert await current_ids(session, world.scope, [doubled.to_ghana]) == {
            doubled.to_ghana: merged
        }
    await assert_sealed(world)


async def test_what_was_learned_since_stays_with_the_one_that_was_kept(
    world: World, doubled: Doubled
) -> None:
    made = await merge_nodes(world, doubled.kept, doubled.gone)
    merged = ids.edge_id(world.scope.agent_id, "borders", doubled.kept, doubled.ghana)
    await said(world, "https://x", "There are 32 million.", node=doubled.kept, population=32)
    await said(world, "https://y", "It was drawn in 1893.", edge=merged, since=1893)
    togo = await world.node("Togo")
    new = await world.edge(doubled.kept, togo)
    await undo_merge(world, made.id)
    node_rows, edge_rows, _, _ = await rows_of(world)
    by_id = {row["id"]: row["properties"] for row in [*node_rows, *edge_rows]}
    assert by_id[doubled.kept] == {"summary": "A republic.", "capital": "Abidjan", "population": 32}
    assert by_id[doubled.gone]["population"] == 1
    assert by_id[merged] == {"since": 1893}
    assert by_id[doubled.to_ghana] == {"km": 720}
    assert new in by_id
    await assert_sealed(world)


async def test_merges_that_build_on_each_other_are_undone_in_reverse(
    world: World, doubled: Doubled
) -> None:
    before = await rows_of(world)
    first = await merge_nodes(world, doubled.kept, doubled.gone)
    second = await merge_nodes(world, doubled.ghana, doubled.kept)
    async with world.database.transaction() as session:
        moved = await current_ids(session, world.scope, [doubled.gone])
    assert moved == {doubled.gone: doubled.ghana}
    with pytest.raises(
        MergeRefusedError, match=f"merge {second.id} of 'Ivory Coast' was made later"
    ):
        await undo_merge(world, first.id)
    await undo_merge(world, second.id)
    await undo_merge(world, first.id)
    assert await rows_of(world) == before


async def test_merges_that_do_not_may_be_undone_in_any_order(
    world: World, doubled: Doubled
) -> None:
    one, other = await world.node("Chad"), await world.node("Tchad")
    before = await rows_of(world)
    first = await merge_nodes(world, doubled.kept, doubled.gone)
    second = await merge_nodes(world, one, other)
    await undo_merge(world, first.id)
    await undo_merge(world, second.id)
    assert await rows_of(world) == before


async def test_a_page_that_is_retracted_meanwhile_stays_retracted(
    world: World, doubled: Doubled
) -> None:
    made = await merge_nodes(world, doubled.kept, doubled.gone)
    from shared.database.tables import Source

    async with world.database.transaction() as session:
        at_b = update(Source).where(Source.url == "https://b")
        await session.execute(at_b.values(retracted_at=datetime.now(UTC)))
    await undo_merge(world, made.id)
    node_rows, _, _, _ = await rows_of(world)
    gone = next(row for row in node_rows if row["id"] == doubled.gone)
    assert "capital" not in gone["properties"]
    await assert_sealed(world)


async def test_what_was_said_again_of_the_one_that_was_kept_stays_sealed(
    world: World, doubled: Doubled
) -> None:
    """It says what it said before, and rests on more."""
    made = await merge_nodes(world, doubled.kept, doubled.gone)
    await said(world, "https://x", "A republic it is.", node=doubled.kept, summary="A republic.")
    await said(world, "https://y", "Both are old.", edge=doubled.both_to_mali, since=1960)
    await undo_merge(world, made.id)
    await assert_sealed(world)


async def test_an_edge_of_the_merge_goes_though_the_same_quote_was_given_for_it_again(
    world: World, doubled: Doubled
) -> None:
    """Nothing of it would be left but what no page speaks of."""
    made = await merge_nodes(world, doubled.kept, doubled.gone)
    merged = await world.edge(doubled.kept, doubled.ghana)
    await undo_merge(world, made.id)
    [edge_rows] = await rows_of(world, EDGES)
    assert merged not in {row["id"] for row in edge_rows}
    async with world.database.snapshot() as session:
        assert await breaks(session, world.scope) == []
