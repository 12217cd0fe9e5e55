"""Doubts of nodes that are merged: they go with what they are of, and come back with it."""

import asyncio
from functools import partial
from typing import Final

import pytest
from sqlalchemy import select

from shared.database.tables import Doubt
from shared.graph import entity_resolution
from tests.support.graph.doubled import merge_nodes, undo_merge
from tests.support.graph.library import Library
from tests.support.graph.world import World
from tests.support.locked import is_waited_for
from tests.support.waiting import until

OLD, NEW, OTHER = (f"https://{name}.example/page" for name in ("old", "new", "other"))
ACCRA: Final = {"capital": "Accra"}


@pytest.fixture
def library(world: World) -> Library:
    return Library(world)


async def _since(library: Library) -> list[object]:
    async with library.world.database.transaction() as session:
        opened = select(Doubt.since).where(Doubt.resolved_at.is_(None)).order_by(Doubt.id)
        return list(await session.scalars(opened))


async def test_what_is_merged_while_its_doubts_are_weighed_stays_in_doubt(
    library: Library,
) -> None:
    world = library.world
    kept = await library.node("Ghana", {OTHER: {"population": 3}})
    gone = await library.node("The Ghana", {OLD: ACCRA})
    analysis = await library.analysis("On it", f"[node:{gone}]")
    await library.retract(OLD)
    await library.says(OTHER, {"population": 3}, node_id=gone)
    async with world.database.transaction() as session:
        await entity_resolution.merge_nodes(
            session,
            world.scope,
            kept_id=kept,
            merged_id=gone,
            reason="One.",
            made_by=world.scope.owner_id,
        )
        lifting = asyncio.create_task(library.lift())
        await until(partial(is_waited_for, world.database), what="the turn to be waited for")
    await lifting
    assert await library.doubted() == {analysis}
    assert len(await library.notices()) == 1


async def test_a_merge_takes_doubts_along_and_undone_gives_them_back(library: Library) -> None:
    kept = await library.node("Ghana", {OTHER: {"population": 3}})
    gone = await library.node("The Ghana", {OLD: ACCRA})
    togo = await library.node("Togo", {OTHER: {}})
    edge = await library.edge(gone, togo, OLD)
    await library.analysis("On the node", f"[node:{gone}]")
    await library.analysis("On the edge", f"[edge:{edge}]")
    await library.retract(OLD)
    before, since = await library.state(), await _since(library)
    made = await merge_nodes(library.world, kept, gone)
    await library.lift()
    after = await library.state()
    assert {(of, source) for of, _, source in after.doubted} == {
        (of, source) for of, _, source in before.doubted
    }
    assert not {thing for _, thing, _ in after.doubted} & {gone, edge}
    assert sorted(map(str, await _since(library))) == sorted(map(str, since))
    await undo_merge(library.world, made.id)
    await library.lift()
    assert await library.state() == before
    assert await _since(library) == since
    assert len(await library.notices()) == 1


async def test_what_bears_out_the_one_that_is_kept_lifts_the_doubts_that_came_with_the_other(
    library: Library,
) -> None:
    kept = await library.node("Ghana", {OTHER: {"population": 3}})
    gone = await library.node("The Ghana", {OLD: ACCRA})
    analysis = await library.analysis("On it", f"[node:{gone}]")
    await library.retract(OLD)
    made = await merge_nodes(library.world, kept, gone)
    await library.says(NEW, ACCRA, node_id=kept)
    await library.lift()
    assert await library.doubted() == set()
    assert len(await library.notices()) == 2
    # What bore it out stays with the other.
    await undo_merge(library.world, made.id)
    await library.lift()
    assert {(of, thing) for of, thing, _ in (await library.state()).doubted} == {(analysis, gone)}


async def test_what_a_merge_bore_out_is_in_doubt_again_when_it_is_undone(library: Library) -> None:
    kept = await library.node("Ghana", {OLD: ACCRA})
    gone = await library.node("The Ghana", {NEW: ACCRA})
    analysis = await library.analysis("On it", f"[node:{kept}]")
    await library.retract(OLD)
    before = await library.state()
    made = await merge_nodes(library.world, kept, gone)
    assert await library.doubted() == {analysis}
    await library.lift()
    assert await library.doubted() == set()
    await undo_merge(library.world, made.id)
    assert await library.state() == before
    await library.lift()
    assert await library.state() == before
