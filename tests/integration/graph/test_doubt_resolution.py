"""Conclusions in doubt after a retraction, and doubts resolved once other pages support their elements."""

import asyncio
from collections.abc import AsyncIterator
from typing import Final

import pytest
from sqlalchemy import select

from shared.database.engine import Database
from shared.database.tables import Doubt
from shared.graph.retraction.propagation import resolve_doubts
from tests.support.graph.agent_graph import AgentGraph
from tests.support.graph.retraction_graph import RetractionGraph

OLD, NEW, OTHER = (f"https://{name}.example/page" for name in ("old", "new", "other"))
ACCRA: Final = {"capital": "Accra"}
LATER: Final = 20_000
"""A day after every retraction of these tests."""


@pytest.fixture
def retraction_graph(agent_graph: AgentGraph) -> RetractionGraph:
    return RetractionGraph(agent_graph)


@pytest.fixture
async def other_replica(database_url: str) -> AsyncIterator[Database]:
    """The database as used by another replica."""
    replica = Database(database_url, name="another")
    yield replica
    await replica.close()


async def _notice_titles(retraction_graph: RetractionGraph) -> list[str]:
    return sorted(notice.title for notice in await retraction_graph.notices())


async def test_renewed_support_resolves_doubts_and_notifies_the_owner_once(
    retraction_graph: RetractionGraph,
) -> None:
    ghana = await retraction_graph.node("Ghana", {OLD: ACCRA})
    analysis = await retraction_graph.analysis("On it", f"[node:{ghana}]")
    advice = await retraction_graph.advice("Wait", analysis)
    await retraction_graph.retract(OLD)
    await retraction_graph.resolve_doubts()
    assert await retraction_graph.doubted() == {analysis, advice}
    await retraction_graph.says(NEW, ACCRA, node_id=ghana, day=LATER)
    for _ in range(2):
        await retraction_graph.resolve_doubts()
    assert await retraction_graph.doubted() == set()
    assert await _notice_titles(retraction_graph) == [
        "In doubt: 1 analysis and 1 piece of advice of watcher",
        "No longer in doubt: 1 analysis and 1 piece of advice of watcher",
    ]
    resolved = next(
        notice for notice in await retraction_graph.notices() if "No longer" in notice.title
    )
    outdated = next(
        notice for notice in await retraction_graph.notices() if "No longer" not in notice.title
    )
    # What the earlier notice says is no longer so.
    assert outdated.resolved_at is not None
    assert outdated.read_at is not None
    assert resolved.resolved_at is None
    assert resolved.read_at is None
    for word in (f"[node:{analysis}]", f"[node:{advice}]"):
        assert word in resolved.summary


async def test_renewed_support_of_an_edge_resolves_doubts(
    retraction_graph: RetractionGraph,
) -> None:
    ghana = await retraction_graph.node("Ghana", {NEW: ACCRA})
    togo = await retraction_graph.node("Togo", {NEW: {}})
    border = await retraction_graph.edge(ghana, togo, OLD)
    analysis = await retraction_graph.analysis("On it", f"[edge:{border}]")
    await retraction_graph.retract(OLD)
    assert await retraction_graph.doubted() == {analysis}
    await retraction_graph.says(OTHER, {}, edge_id=border)
    await retraction_graph.resolve_doubts()
    assert await retraction_graph.doubted() == set()


async def test_a_contradicting_page_does_not_resolve_the_doubt(
    retraction_graph: RetractionGraph,
) -> None:
    """The analysis relied on Accra, which no other page supports."""
    ghana = await retraction_graph.node("Ghana", {OLD: ACCRA})
    analysis = await retraction_graph.analysis("On it", f"[node:{ghana}]")
    await retraction_graph.retract(OLD)
    await retraction_graph.says(NEW, {"capital": "Kumasi"}, node_id=ghana, day=LATER)
    await retraction_graph.resolve_doubts()
    assert await retraction_graph.doubted() == {analysis}
    assert (await retraction_graph.get_node(ghana)).properties == {"capital": "Kumasi"}
    # Another retraction causes a full evaluation; the doubt remains.
    await retraction_graph.says(OTHER, {"population": 3}, node_id=ghana)
    await retraction_graph.retract(OTHER)
    assert await retraction_graph.doubted() == {analysis}


async def test_a_value_superseded_before_the_retraction_opens_no_doubt(
    retraction_graph: RetractionGraph,
) -> None:
    ghana = await retraction_graph.node("Ghana", {OLD: ACCRA})
    await retraction_graph.analysis("On it", f"[node:{ghana}]")
    await retraction_graph.says(NEW, {"capital": "Kumasi"}, node_id=ghana, day=1)
    await retraction_graph.retract(OLD)
    assert await retraction_graph.doubted() == set()


async def test_an_evaluated_doubt_is_not_evaluated_again(retraction_graph: RetractionGraph) -> None:
    ghana = await retraction_graph.node("Ghana", {OLD: ACCRA})
    await retraction_graph.analysis("On it", f"[node:{ghana}]")
    await retraction_graph.retract(OLD)
    await retraction_graph.resolve_doubts()
    assert await _evaluation_times(retraction_graph) == [None]
    await retraction_graph.says(NEW, {"capital": "Kumasi"}, node_id=ghana, day=LATER)
    await retraction_graph.resolve_doubts()
    (first,) = await _evaluation_times(retraction_graph)
    await retraction_graph.resolve_doubts()
    assert first is not None
    assert await _evaluation_times(retraction_graph) == [first]


async def _evaluation_times(retraction_graph: RetractionGraph) -> list[object]:
    async with retraction_graph.agent_graph.database.transaction() as session:
        return list((await session.scalars(select(Doubt.evaluated_at))).all())


async def test_the_owner_is_notified_when_the_last_of_two_doubts_is_resolved(
    retraction_graph: RetractionGraph,
) -> None:
    ghana, togo = [
        await retraction_graph.node(name, {OLD: {"name": name}}) for name in ("Ghana", "Togo")
    ]
    analysis = await retraction_graph.analysis("On both", f"[node:{ghana}]", f"[node:{togo}]")
    await retraction_graph.retract(OLD)
    await retraction_graph.says(NEW, {"name": "Ghana"}, node_id=ghana)
    await retraction_graph.resolve_doubts()
    assert await retraction_graph.doubted() == {analysis}
    assert len(await retraction_graph.notices()) == 1
    await retraction_graph.says(NEW, {"name": "Togo"}, node_id=togo)
    await retraction_graph.resolve_doubts()
    assert await retraction_graph.doubted() == set()
    assert len(await retraction_graph.notices()) == 2


async def test_a_conclusion_made_after_the_retraction_is_not_doubted(
    retraction_graph: RetractionGraph,
) -> None:
    ghana = await retraction_graph.node("Ghana", {OLD: ACCRA})
    earlier = await retraction_graph.analysis("Earlier", f"[node:{ghana}]")
    await retraction_graph.retract(OLD)
    await retraction_graph.says(NEW, {"capital": "Kumasi"}, node_id=ghana, day=LATER)
    await retraction_graph.analysis("Since", f"[node:{ghana}]")
    await retraction_graph.resolve_doubts()
    assert await retraction_graph.doubted() == {earlier}


async def test_restoring_after_the_doubts_are_resolved_changes_no_state(
    retraction_graph: RetractionGraph,
) -> None:
    ghana = await retraction_graph.node("Ghana", {OLD: ACCRA})
    await retraction_graph.analysis("On it", f"[node:{ghana}]")
    retraction_id = await retraction_graph.retract(OLD)
    await retraction_graph.says(NEW, ACCRA, node_id=ghana, day=LATER)
    await retraction_graph.resolve_doubts()
    between = await retraction_graph.state()
    await retraction_graph.restore(retraction_id)
    assert (await retraction_graph.state()).doubted == between.doubted == frozenset()
    assert (await retraction_graph.state()).seals == between.seals
    assert len(await retraction_graph.notices()) == 2


async def test_retracting_the_supporting_page_reopens_the_doubt(
    retraction_graph: RetractionGraph,
) -> None:
    ghana = await retraction_graph.node("Ghana", {OLD: ACCRA})
    analysis = await retraction_graph.analysis("On it", f"[node:{ghana}]")
    await retraction_graph.retract(OLD)
    await retraction_graph.says(NEW, ACCRA, node_id=ghana)
    await retraction_graph.resolve_doubts()
    retraction_id = await retraction_graph.retract(NEW)
    await retraction_graph.resolve_doubts()
    assert await retraction_graph.doubted() == {analysis}
    await retraction_graph.restore(retraction_id)
    assert await retraction_graph.doubted() == set()
    assert await _notice_titles(retraction_graph) == [
        *["In doubt: 1 analysis of watcher"] * 2,
        "No longer in doubt: 1 analysis of watcher",
    ]


async def test_a_pending_retraction_is_propagated_before_doubts_are_resolved(
    retraction_graph: RetractionGraph,
) -> None:
    """The owner has not been notified of the doubt yet."""
    ghana = await retraction_graph.node("Ghana", {OLD: ACCRA})
    analysis = await retraction_graph.analysis("On it", f"[node:{ghana}]")
    retraction_id = await retraction_graph.retract(OLD)
    await retraction_graph.ask_restore(retraction_id)
    await retraction_graph.says(NEW, ACCRA, node_id=ghana)
    await retraction_graph.resolve_doubts()
    assert await retraction_graph.doubted() == {analysis}
    await retraction_graph.work_off()
    assert await retraction_graph.doubted() == set()
    assert len(await retraction_graph.notices()) == 1


async def test_only_one_of_two_replicas_sends_the_notice(
    retraction_graph: RetractionGraph, other_replica: Database
) -> None:
    nodes = [await retraction_graph.node(f"Node {number}", {OLD: ACCRA}) for number in range(6)]
    await retraction_graph.analysis("On them", *(f"[node:{node}]" for node in nodes))
    await retraction_graph.retract(OLD)
    for node in nodes:
        await retraction_graph.says(NEW, ACCRA, node_id=node)
    await asyncio.gather(
        retraction_graph.resolve_doubts(at_once=2), resolve_doubts(other_replica, at_once=2)
    )
    assert await retraction_graph.doubted() == set()
    assert len(await retraction_graph.notices()) == 2
