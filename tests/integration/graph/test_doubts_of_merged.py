"""Doubts of merged nodes: a merge moves them, and its undo moves them back."""

import asyncio
from functools import partial
from typing import Final

import pytest
from sqlalchemy import select

from shared.database.tables import Doubt
from shared.graph import entity_resolution
from tests.support.graph.agent_graph import AgentGraph
from tests.support.graph.duplicates import merge_nodes, undo_merge
from tests.support.graph.retraction_graph import RetractionGraph
from tests.support.lock_probe import has_lock_waiter
from tests.support.waiting import wait_until

OLD, NEW, OTHER = (f"https://{name}.example/page" for name in ("old", "new", "other"))
ACCRA: Final = {"capital": "Accra"}


@pytest.fixture
def retraction_graph(agent_graph: AgentGraph) -> RetractionGraph:
    return RetractionGraph(agent_graph)


async def _open_since(retraction_graph: RetractionGraph) -> list[object]:
    async with retraction_graph.agent_graph.database.transaction() as session:
        statement = select(Doubt.since).where(Doubt.resolved_at.is_(None)).order_by(Doubt.id)
        return list(await session.scalars(statement))


async def test_a_merge_while_doubts_are_evaluated_keeps_the_doubt(
    retraction_graph: RetractionGraph,
) -> None:
    agent_graph = retraction_graph.agent_graph
    kept_id = await retraction_graph.node("Ghana", {OTHER: {"population": 3}})
    merged_id = await retraction_graph.node("The Ghana", {OLD: ACCRA})
    analysis = await retraction_graph.analysis("On it", f"[node:{merged_id}]")
    await retraction_graph.retract(OLD)
    await retraction_graph.says(OTHER, {"population": 3}, node_id=merged_id)
    async with agent_graph.database.transaction() as session:
        await entity_resolution.merge_nodes(
            session,
            agent_graph.scope,
            kept_id=kept_id,
            merged_id=merged_id,
            reason="One.",
            made_by=agent_graph.scope.owner_id,
        )
        task = asyncio.create_task(retraction_graph.resolve_doubts())
        await wait_until(
            partial(has_lock_waiter, agent_graph.database), what="the task to wait for the merge"
        )
    await task
    assert await retraction_graph.doubted() == {analysis}
    assert len(await retraction_graph.notices()) == 1


async def test_a_merge_moves_doubts_and_its_undo_moves_them_back(
    retraction_graph: RetractionGraph,
) -> None:
    kept_id = await retraction_graph.node("Ghana", {OTHER: {"population": 3}})
    merged_id = await retraction_graph.node("The Ghana", {OLD: ACCRA})
    togo = await retraction_graph.node("Togo", {OTHER: {}})
    edge = await retraction_graph.edge(merged_id, togo, OLD)
    await retraction_graph.analysis("On the node", f"[node:{merged_id}]")
    await retraction_graph.analysis("On the edge", f"[edge:{edge}]")
    await retraction_graph.retract(OLD)
    before, since = await retraction_graph.state(), await _open_since(retraction_graph)
    merge = await merge_nodes(retraction_graph.agent_graph, kept_id, merged_id)
    await retraction_graph.resolve_doubts()
    after = await retraction_graph.state()
    assert {(conclusion, source) for conclusion, _, source in after.doubted} == {
        (conclusion, source) for conclusion, _, source in before.doubted
    }
    assert not {element for _, element, _ in after.doubted} & {merged_id, edge}
    assert sorted(map(str, await _open_since(retraction_graph))) == sorted(map(str, since))
    await undo_merge(retraction_graph.agent_graph, merge.id)
    await retraction_graph.resolve_doubts()
    assert await retraction_graph.state() == before
    assert await _open_since(retraction_graph) == since
    assert len(await retraction_graph.notices()) == 1


async def test_evidence_for_the_kept_node_resolves_doubts_of_the_merged_node(
    retraction_graph: RetractionGraph,
) -> None:
    kept_id = await retraction_graph.node("Ghana", {OTHER: {"population": 3}})
    merged_id = await retraction_graph.node("The Ghana", {OLD: ACCRA})
    analysis = await retraction_graph.analysis("On it", f"[node:{merged_id}]")
    await retraction_graph.retract(OLD)
    merge = await merge_nodes(retraction_graph.agent_graph, kept_id, merged_id)
    await retraction_graph.says(NEW, ACCRA, node_id=kept_id)
    await retraction_graph.resolve_doubts()
    assert await retraction_graph.doubted() == set()
    assert len(await retraction_graph.notices()) == 2
    # The new evidence stays with the kept node.
    await undo_merge(retraction_graph.agent_graph, merge.id)
    await retraction_graph.resolve_doubts()
    assert {
        (conclusion, element) for conclusion, element, _ in (await retraction_graph.state()).doubted
    } == {(analysis, merged_id)}


async def test_undoing_a_merge_reopens_the_doubts_that_it_resolved(
    retraction_graph: RetractionGraph,
) -> None:
    kept_id = await retraction_graph.node("Ghana", {OLD: ACCRA})
    merged_id = await retraction_graph.node("The Ghana", {NEW: ACCRA})
    analysis = await retraction_graph.analysis("On it", f"[node:{kept_id}]")
    await retraction_graph.retract(OLD)
    before = await retraction_graph.state()
    merge = await merge_nodes(retraction_graph.agent_graph, kept_id, merged_id)
    assert await retraction_graph.doubted() == {analysis}
    await retraction_graph.resolve_doubts()
    assert await retraction_graph.doubted() == set()
    await undo_merge(retraction_graph.agent_graph, merge.id)
    assert await retraction_graph.state() == before
    await retraction_graph.resolve_doubts()
    assert await retraction_graph.state() == before


async def test_doubts_of_edges_that_became_one_return_to_the_cited_one(
    retraction_graph: RetractionGraph,
) -> None:
    kept_id = await retraction_graph.node("Ghana", {OTHER: {"population": 3}})
    merged_id = await retraction_graph.node("The Ghana", {NEW: {"population": 3}})
    edges = [
        await retraction_graph.edge(merged_id, kept_id, OLD),
        await retraction_graph.edge(kept_id, merged_id, OLD),
    ]
    early = [
        await retraction_graph.analysis(f"On the {which}", f"[edge:{edge}]")
        for which, edge in zip(("one", "other"), edges, strict=True)
    ]
    merge = await merge_nodes(retraction_graph.agent_graph, kept_id, merged_id)
    await retraction_graph.ask_retract(OLD)
    late = [
        await retraction_graph.analysis(f"On the {which} again", f"[edge:{edge}]")
        for which, edge in zip(("one", "other"), edges, strict=True)
    ]
    await retraction_graph.work_off()
    merged = await retraction_graph.state()
    assert len({element for _, element, _ in merged.doubted}) == 1
    assert await retraction_graph.doubted() == {*early, *late}
    await undo_merge(retraction_graph.agent_graph, merge.id)
    undone = await retraction_graph.state()
    assert {(conclusion, element) for conclusion, element, _ in undone.doubted} == {
        *zip(early, edges, strict=True),
        *zip(late, edges, strict=True),
    }
    await retraction_graph.resolve_doubts()
    assert await retraction_graph.state() == undone
