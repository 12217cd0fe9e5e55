"""Conclusions that are in doubt because of a retraction, and believed again once other pages bear out what they rest on."""

import asyncio
from collections.abc import AsyncIterator
from typing import Final

import pytest
from sqlalchemy import select

from shared.database.engine import Database
from shared.database.tables import Doubt
from shared.graph.retraction.propagation import resolve_doubts
from tests.support.graph.library import Library
from tests.support.graph.world import World

OLD, NEW, OTHER = (f"https://{name}.example/page" for name in ("old", "new", "other"))
ACCRA: Final = {"capital": "Accra"}
LATER: Final = 20_000
"""A day on which every retraction of these tests is long made."""


@pytest.fixture
def library(world: World) -> Library:
    return Library(world)


@pytest.fixture
async def another(database_url: str) -> AsyncIterator[Database]:
    """As of another replica."""
    opened = Database(database_url, name="another")
    yield opened
    await opened.close()


async def _told(library: Library) -> list[str]:
    return sorted(notice.title for notice in await library.notices())


async def test_borne_out_again_it_is_in_doubt_no_more_and_told_once(library: Library) -> None:
    ghana = await library.node("Ghana", {OLD: ACCRA})
    analysis = await library.analysis("On it", f"[node:{ghana}]")
    advice = await library.advice("Wait", analysis)
    await library.retract(OLD)
    await library.lift()
    assert await library.doubted() == {analysis, advice}
    await library.says(NEW, ACCRA, node_id=ghana, day=LATER)
    for _ in range(2):
        await library.lift()
    assert await library.doubted() == set()
    assert await _told(library) == [
        "1 analysis and 1 advice of watcher in doubt",
        "1 analysis and 1 advice of watcher no longer in doubt",
    ]
    lifted = next(each for each in await library.notices() if "no longer" in each.title)
    for word in (f"[node:{analysis}]", f"[node:{advice}]"):
        assert word in lifted.summary


async def test_an_edge_too(library: Library) -> None:
    ghana = await library.node("Ghana", {NEW: ACCRA})
    togo = await library.node("Togo", {NEW: {}})
    border = await library.edge(ghana, togo, OLD)
    analysis = await library.analysis("On it", f"[edge:{border}]")
    await library.retract(OLD)
    assert await library.doubted() == {analysis}
    await library.says(OTHER, {}, edge_id=border)
    await library.lift()
    assert await library.doubted() == set()


async def test_what_is_said_otherwise_since_leaves_the_doubt(library: Library) -> None:
    """It was concluded from Accra, which nobody has borne out."""
    ghana = await library.node("Ghana", {OLD: ACCRA})
    analysis = await library.analysis("On it", f"[node:{ghana}]")
    await library.retract(OLD)
    await library.says(NEW, {"capital": "Kumasi"}, node_id=ghana, day=LATER)
    await library.lift()
    assert await library.doubted() == {analysis}
    assert (await library.found(ghana)).properties == {"capital": "Kumasi"}
    # Another retraction has it weighed in full: it stays so.
    await library.says(OTHER, {"population": 3}, node_id=ghana)
    await library.retract(OTHER)
    assert await library.doubted() == {analysis}


async def test_what_gave_way_before_the_retraction_raises_none(library: Library) -> None:
    ghana = await library.node("Ghana", {OLD: ACCRA})
    await library.analysis("On it", f"[node:{ghana}]")
    await library.says(NEW, {"capital": "Kumasi"}, node_id=ghana, day=1)
    await library.retract(OLD)
    assert await library.doubted() == set()


async def test_what_is_weighed_is_not_looked_at_again(library: Library) -> None:
    ghana = await library.node("Ghana", {OLD: ACCRA})
    await library.analysis("On it", f"[node:{ghana}]")
    await library.retract(OLD)
    await library.lift()
    assert await _weighed(library) == [None]
    await library.says(NEW, {"capital": "Kumasi"}, node_id=ghana, day=LATER)
    await library.lift()
    (first,) = await _weighed(library)
    await library.lift()
    assert first is not None
    assert await _weighed(library) == [first]


async def _weighed(library: Library) -> list[object]:
    async with library.world.database.transaction() as session:
        return list((await session.scalars(select(Doubt.evaluated_at))).all())


async def test_of_two_doubts_the_last_one_lifted_is_told(library: Library) -> None:
    ghana, togo = [await library.node(name, {OLD: {"name": name}}) for name in ("Ghana", "Togo")]
    analysis = await library.analysis("On both", f"[node:{ghana}]", f"[node:{togo}]")
    await library.retract(OLD)
    await library.says(NEW, {"name": "Ghana"}, node_id=ghana)
    await library.lift()
    assert await library.doubted() == {analysis}
    assert len(await library.notices()) == 1
    await library.says(NEW, {"name": "Togo"}, node_id=togo)
    await library.lift()
    assert await library.doubted() == set()
    assert len(await library.notices()) == 2


async def test_what_is_concluded_since_is_not_drawn_into_doubt(library: Library) -> None:
    ghana = await library.node("Ghana", {OLD: ACCRA})
    earlier = await library.analysis("Earlier", f"[node:{ghana}]")
    await library.retract(OLD)
    await library.says(NEW, {"capital": "Kumasi"}, node_id=ghana, day=LATER)
    await library.analysis("Since", f"[node:{ghana}]")
    await library.lift()
    assert await library.doubted() == {earlier}


async def test_undone_after_that_all_is_as_it_was(library: Library) -> None:
    ghana = await library.node("Ghana", {OLD: ACCRA})
    await library.analysis("On it", f"[node:{ghana}]")
    made = await library.retract(OLD)
    await library.says(NEW, ACCRA, node_id=ghana, day=LATER)
    await library.lift()
    between = await library.state()
    await library.restore(made)
    assert (await library.state()).doubted == between.doubted == frozenset()
    assert (await library.state()).seals == between.seals
    assert len(await library.notices()) == 2


async def test_what_bore_it_out_retracted_too_it_is_in_doubt_again(library: Library) -> None:
    ghana = await library.node("Ghana", {OLD: ACCRA})
    analysis = await library.analysis("On it", f"[node:{ghana}]")
    await library.retract(OLD)
    await library.says(NEW, ACCRA, node_id=ghana)
    await library.lift()
    made = await library.retract(NEW)
    await library.lift()
    assert await library.doubted() == {analysis}
    await library.restore(made)
    assert await library.doubted() == set()
    assert await _told(library) == [
        *["1 analysis of watcher in doubt"] * 2,
        "1 analysis of watcher no longer in doubt",
    ]


async def test_a_retraction_that_is_still_gone_through_comes_first(library: Library) -> None:
    """Its owner has not been told of the doubt yet."""
    ghana = await library.node("Ghana", {OLD: ACCRA})
    analysis = await library.analysis("On it", f"[node:{ghana}]")
    made = await library.retract(OLD)
    await library.ask_restore(made)
    await library.says(NEW, ACCRA, node_id=ghana)
    await library.lift()
    assert await library.doubted() == {analysis}
    await library.work_off()
    assert await library.doubted() == set()
    assert len(await library.notices()) == 1


async def test_of_two_replicas_one_tells(library: Library, another: Database) -> None:
    nodes = [await library.node(f"Node {number}", {OLD: ACCRA}) for number in range(6)]
    await library.analysis("On them", *(f"[node:{node}]" for node in nodes))
    await library.retract(OLD)
    for node in nodes:
        await library.says(NEW, ACCRA, node_id=node)
    await asyncio.gather(library.lift(at_once=2), resolve_doubts(another, at_once=2))
    assert await library.doubted() == set()
    assert len(await library.notices()) == 2
