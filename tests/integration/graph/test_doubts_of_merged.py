"""Doubts of merged nodes: a merge moves them, and its undo moves them back."""

import asyncio
from functools import partial
from typing import Final

import pytest
from sqlalchemy import select

from shared.database.tables import Doubt
from shared.graph import entity_resolution
from tests.support.graph.duplicates import merge_nodes, undo_merge
from tests.support.graph.retraction_graph import Library
from tests.support.graph.world import World
from tests.support.lock_probe import has_lock_waiter
from tests.support.waiting import wait_until

OLD, NEW, OTHER = (f"https://{name}.example/page" for name in ("old", "new", "other"))
ACCRA: Final = {"capital": "Accra"}


@pytest.fixture
def library(world: World) -> Library:
    return Library(world)


async def _open_since(library: Library) -> list[object]:
    async with library.world.database.transaction() as session:
        statement = select(Doubt.since).where(Doubt.resolved_at.is_(None)).order_by(Doubt.id)
        return list(await session.scalars(statement))


async def test_a_merge_while_doubts_are_evaluated_keeps_the_doubt(
    library: Library,
) -> None:
    world = library.world
    kept_id = await library.node("Ghana", {OTHER: {"population": 3}})
    merged_id = await library.node("The Ghana", {OLD: ACCRA})
    analysis = await library.analysis("On it", f"[node:{merged_id}]")
    await library.retract(OLD)
    await library.says(OTHER, {"population": 3}, node_id=merged_id)
    async with world.database.transaction() as session:
        await entity_resolution.merge_nodes(
            session,
            world.scope,
            kept_id=kept_id,
            merged_id=merged_id,
            reason="One.",
            made_by=world.scope.owner_id,
        )
        task = asyncio.create_task(library.resolve_doubts())
        await wait_until(
            partial(has_lock_waiter, world.database), what="the task to wait for the merge"
        )
    await task
    assert await library.doubted() == {analysis}
    assert len(await library.notices()) == 1


async def test_a_merge_moves_doubts_and_its_undo_moves_them_back(library: Library) -> None:
    kept_id = await library.node("Ghana", {OTHER: {"population": 3}})
    merged_id = await library.node("The Ghana", {OLD: ACCRA})
    togo = await library.node("Togo", {OTHER: {}})
    edge = await library.edge(merged_id, togo, OLD)
    await library.analysis("On the node", f"[node:{merged_id}]")
    await library.analysis("On the edge", f"[edge:{edge}]")
    await library.retract(OLD)
    before, since = await library.state(), await _open_since(library)
    merge = await merge_nodes(library.world, kept_id, merged_id)
    await library.resolve_doubts()
    after = await library.state()
    assert {(conclusion, source) for conclusion, _, source in after.doubted} == {
        (conclusion, source) for conclusion, _, source in before.doubted
    }
    assert not {element for _, element, _ in after.doubted} & {merged_id, edge}
    assert sorted(map(str, await _open_since(library))) == sorted(map(str, since))
    await undo_merge(library.world, merge.id)
    await library.resolve_doubts()
    assert await library.state() == before
    assert await _open_since(library) == since
    assert len(await library.notices()) == 1


async def test_evidence_for_the_kept_node_resolves_doubts_of_the_merged_node(
    library: Library,
) -> None:
    kept_id = await library.node("Ghana", {OTHER: {"population": 3}})
    merged_id = await library.node("The Ghana", {OLD: ACCRA})
    analysis = await library.analysis("On it", f"[node:{merged_id}]")
    await library.retract(OLD)
    merge = await merge_nodes(library.world, kept_id, merged_id)
    await library.says(NEW, ACCRA, node_id=kept_id)
    await library.resolve_doubts()
    assert await library.doubted() == set()
    assert len(await library.notices()) == 2
    # The new evidence stays with the kept node.
    await undo_merge(library.world, merge.id)
    await library.resolve_doubts()
    assert {
        (conclusion, element) for conclusion, element, _ in (await library.state()).doubted
    } == {(analysis, merged_id)}


async def test_undoing_a_merge_reopens_the_doubts_that_it_resolved(library: Library) -> None:
    kept_id = await library.node("Ghana", {OLD: ACCRA})
    merged_id = await library.node("The Ghana", {NEW: ACCRA})
    analysis = await library.analysis("On it", f"[node:{kept_id}]")
    await library.retract(OLD)
    before = await library.state()
    merge = await merge_nodes(library.world, kept_id, merged_id)
    assert await library.doubted() == {analysis}
    await library.resolve_doubts()
    assert await library.doubted() == set()
    await undo_merge(library.world, merge.id)
    assert await library.state() == before
    await library.resolve_doubts()
    assert await library.state() == before
