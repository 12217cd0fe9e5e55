"""Conclusions in doubt after a retraction, and doubts resolved once other pages support their elements."""

import asyncio
from collections.abc import AsyncIterator
from typing import Final

import pytest
from sqlalchemy import select

from shared.database.engine import Database
from shared.database.tables import Doubt
from shared.graph.retraction.propagation import resolve_doubts
from tests.support.graph.retraction_graph import Library
from tests.support.graph.world import World

OLD, NEW, OTHER = (f"https://{name}.example/page" for name in ("old", "new", "other"))
ACCRA: Final = {"capital": "Accra"}
LATER: Final = 20_000
"""A day after every retraction of these tests."""


@pytest.fixture
def library(world: World) -> Library:
    return Library(world)


@pytest.fixture
async def other_replica(database_url: str) -> AsyncIterator[Database]:
    """The database as used by another replica."""
    replica = Database(database_url, name="another")
    yield replica
    await replica.close()


async def _notice_titles(library: Library) -> list[str]:
    return sorted(notice.title for notice in await library.notices())


async def test_renewed_support_resolves_doubts_and_notifies_the_owner_once(
    library: Library,
) -> None:
    ghana = await library.node("Ghana", {OLD: ACCRA})
    analysis = await library.analysis("On it", f"[node:{ghana}]")
    advice = await library.advice("Wait", analysis)
    await library.retract(OLD)
    await library.resolve_doubts()
    assert await library.doubted() == {analysis, advice}
    await library.says(NEW, ACCRA, node_id=ghana, day=LATER)
    for _ in range(2):
        await library.resolve_doubts()
    assert await library.doubted() == set()
    assert await _notice_titles(library) == [
        "1 analysis and 1 advice of watcher in doubt",
        "1 analysis and 1 advice of watcher no longer in doubt",
    ]
    resolved = next(notice for notice in await library.notices() if "no longer" in notice.title)
    for word in (f"[node:{analysis}]", f"[node:{advice}]"):
        assert word in resolved.summary


async def test_renewed_support_of_an_edge_resolves_doubts(library: Library) -> None:
    ghana = await library.node("Ghana", {NEW: ACCRA})
    togo = await library.node("Togo", {NEW: {}})
    border = await library.edge(ghana, togo, OLD)
    analysis = await library.analysis("On it", f"[edge:{border}]")
    await library.retract(OLD)
    assert await library.doubted() == {analysis}
    await library.says(OTHER, {}, edge_id=border)
    await library.resolve_doubts()
    assert await library.doubted() == set()


async def test_a_contradicting_page_does_not_resolve_the_doubt(library: Library) -> None:
    """The analysis relied on Accra, which no other page supports."""
    ghana = await library.node("Ghana", {OLD: ACCRA})
    analysis = await library.analysis("On it", f"[node:{ghana}]")
    await library.retract(OLD)
    await library.says(NEW, {"capital": "Kumasi"}, node_id=ghana, day=LATER)
    await library.resolve_doubts()
    assert await library.doubted() == {analysis}
    assert (await library.get_node(ghana)).properties == {"capital": "Kumasi"}
    # Another retraction causes a full evaluation; the doubt remains.
    await library.says(OTHER, {"population": 3}, node_id=ghana)
    await library.retract(OTHER)
    assert await library.doubted() == {analysis}


async def test_a_value_superseded_before_the_retraction_opens_no_doubt(library: Library) -> None:
    ghana = await library.node("Ghana", {OLD: ACCRA})
    await library.analysis("On it", f"[node:{ghana}]")
    await library.says(NEW, {"capital": "Kumasi"}, node_id=ghana, day=1)
    await library.retract(OLD)
    assert await library.doubted() == set()


async def test_an_evaluated_doubt_is_not_evaluated_again(library: Library) -> None:
    ghana = await library.node("Ghana", {OLD: ACCRA})
    await library.analysis("On it", f"[node:{ghana}]")
    await library.retract(OLD)
    await library.resolve_doubts()
    assert await _evaluation_times(library) == [None]
    await library.says(NEW, {"capital": "Kumasi"}, node_id=ghana, day=LATER)
    await library.resolve_doubts()
    (first,) = await _evaluation_times(library)
    await library.resolve_doubts()
    assert first is not None
    assert await _evaluation_times(library) == [first]


async def _evaluation_times(library: Library) -> list[object]:
    async with library.world.database.transaction() as session:
        return list((await session.scalars(select(Doubt.evaluated_at))).all())


async def test_the_owner_is_notified_when_the_last_of_two_doubts_is_resolved(
    library: Library,
) -> None:
    ghana, togo = [await library.node(name, {OLD: {"name": name}}) for name in ("Ghana", "Togo")]
    analysis = await library.analysis("On both", f"[node:{ghana}]", f"[node:{togo}]")
    await library.retract(OLD)
    await library.says(NEW, {"name": "Ghana"}, node_id=ghana)
    await library.resolve_doubts()
    assert await library.doubted() == {analysis}
    assert len(await library.notices()) == 1
    await library.says(NEW, {"name": "Togo"}, node_id=togo)
    await library.resolve_doubts()
    assert await library.doubted() == set()
    assert len(await library.notices()) == 2


async def test_a_conclusion_made_after_the_retraction_is_not_doubted(library: Library) -> None:
    ghana = await library.node("Ghana", {OLD: ACCRA})
    earlier = await library.analysis("Earlier", f"[node:{ghana}]")
    await library.retract(OLD)
    await library.says(NEW, {"capital": "Kumasi"}, node_id=ghana, day=LATER)
    await library.analysis("Since", f"[node:{ghana}]")
    await library.resolve_doubts()
    assert await library.doubted() == {earlier}


async def test_restoring_after_the_doubts_are_resolved_changes_no_state(library: Library) -> None:
    ghana = await library.node("Ghana", {OLD: ACCRA})
    await library.analysis("On it", f"[node:{ghana}]")
    retraction_id = await library.retract(OLD)
    await library.says(NEW, ACCRA, node_id=ghana, day=LATER)
    await library.resolve_doubts()
    between = await library.state()
    await library.restore(retraction_id)
    assert (await library.state()).doubted == between.doubted == frozenset()
    assert (await library.state()).seals == between.seals
    assert len(await library.notices()) == 2


async def test_retracting_the_supporting_page_reopens_the_doubt(library: Library) -> None:
    ghana = await library.node("Ghana", {OLD: ACCRA})
    analysis = await library.analysis("On it", f"[node:{ghana}]")
    await library.retract(OLD)
    await library.says(NEW, ACCRA, node_id=ghana)
    await library.resolve_doubts()
    retraction_id = await library.retract(NEW)
    await library.resolve_doubts()
    assert await library.doubted() == {analysis}
    await library.restore(retraction_id)
    assert await library.doubted() == set()
    assert await _notice_titles(library) == [
        *["1 analysis of watcher in doubt"] * 2,
        "1 analysis of watcher no longer in doubt",
    ]


async def test_a_pending_retraction_is_propagated_before_doubts_are_resolved(
    library: Library,
) -> None:
    """The owner has not been notified of the doubt yet."""
    ghana = await library.node("Ghana", {OLD: ACCRA})
    analysis = await library.analysis("On it", f"[node:{ghana}]")
    retraction_id = await library.retract(OLD)
    await library.ask_restore(retraction_id)
    await library.says(NEW, ACCRA, node_id=ghana)
    await library.resolve_doubts()
    assert await library.doubted() == {analysis}
    await library.work_off()
    assert await library.doubted() == set()
    assert len(await library.notices()) == 1


async def test_only_one_of_two_replicas_sends_the_notice(
    library: Library, other_replica: Database
) -> None:
    nodes = [await library.node(f"Node {number}", {OLD: ACCRA}) for number in range(6)]
    await library.analysis("On them", *(f"[node:{node}]" for node in nodes))
    await library.retract(OLD)
    for node in nodes:
        await library.says(NEW, ACCRA, node_id=node)
    await asyncio.gather(
        library.resolve_doubts(at_once=2), resolve_doubts(other_replica, at_once=2)
    )
    assert await library.doubted() == set()
    assert len(await library.notices()) == 2
