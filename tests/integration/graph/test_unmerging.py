"""Undoing a merge restores the previous state, and evidence added since stays with the kept node."""

from datetime import UTC, datetime
from uuid import UUID

import pytest
from sqlalchemy import delete, update

from shared.database import ids
from shared.database.tables import GraphMerge, GraphMove
from shared.graph.entity_resolution import MergeRefusedError
from shared.graph.entity_resolution.merge import MergeJournal
from shared.graph.entity_resolution.redirects import current_ids
from tests.support.graph.agent_graph import AgentGraph
from tests.support.graph.duplicates import (
    EDGES,
    Duplicates,
    assert_sealed,
    load_rows,
    merge_nodes,
    undo_merge,
)
from tests.support.graph.page_evidence import said
from tests.support.graph.verification import breaks


async def test_an_immediate_undo_restores_the_previous_state(
    agent_graph: AgentGraph, duplicates: Duplicates
) -> None:
    before = await load_rows(agent_graph)
    merge = await merge_nodes(agent_graph, duplicates.kept_id, duplicates.merged_id)
    undone_merge = await undo_merge(agent_graph, merge.id)
    assert undone_merge.undone_at is not None
    assert await load_rows(agent_graph) == before
    repeated = await undo_merge(agent_graph, merge.id)
    assert repeated.undone_at == undone_merge.undone_at
    second = await merge_nodes(agent_graph, duplicates.kept_id, duplicates.merged_id)
    await undo_merge(agent_graph, second.id)
    assert await load_rows(agent_graph) == before


async def test_edges_that_became_one_are_separate_again(
    agent_graph: AgentGraph, duplicates: Duplicates
) -> None:
    """Both claim the same property, and quote one sentence alike."""
    back = await agent_graph.edge(duplicates.kept_id, duplicates.merged_id)
    await said(agent_graph, "https://g", "One and the other.", edge=back, km=1)
    await said(agent_graph, "https://h", "The other and the one.", edge=back, km=2, since=1960)
    before = await load_rows(agent_graph)
    merge = await merge_nodes(agent_graph, duplicates.kept_id, duplicates.merged_id)
    await assert_sealed(agent_graph)
    await undo_merge(agent_graph, merge.id)
    assert await load_rows(agent_graph) == before


async def test_a_merge_of_an_earlier_version_can_be_undone(
    agent_graph: AgentGraph, duplicates: Duplicates
) -> None:
    """It removed the edge between the two nodes."""
    before = await load_rows(agent_graph)
    merge = await merge_nodes(agent_graph, duplicates.kept_id, duplicates.merged_id)
    between = ids.edge_id(
        agent_graph.scope.agent_id, "borders", duplicates.kept_id, duplicates.kept_id
    )
    journal = MergeJournal.model_validate(merge.journal)
    [edge] = [each for each in journal.edges if each.to == between]
    edge.to = edge.touched_at = None
    for evidence in edge.evidence:
        evidence.to = UUID(evidence.row["id"])
    async with agent_graph.database.transaction() as session:
        await session.execute(delete(EDGES).where(EDGES.c.id == between))
        await session.execute(delete(GraphMove).where(GraphMove.kept_id == between))
        await session.execute(update(GraphMerge).values(journal=journal.model_dump(mode="json")))
    await undo_merge(agent_graph, merge.id)
    assert await load_rows(agent_graph) == before


async def test_undoing_a_merge_redirects_its_edges_back(
    agent_graph: AgentGraph, duplicates: Duplicates
) -> None:
    merge = await merge_nodes(agent_graph, duplicates.kept_id, duplicates.merged_id)
    merged = ids.edge_id(
        agent_graph.scope.agent_id, "borders", duplicates.kept_id, duplicates.ghana
    )
    await undo_merge(agent_graph, merge.id)
    async with agent_graph.database.transaction() as session:
        assert await current_ids(session, agent_graph.scope, [merged]) == {
            merged: duplicates.to_ghana
        }
    assert await agent_graph.edge(duplicates.kept_id, duplicates.ghana) == merged
    async with agent_graph.database.transaction() as session:
        assert await current_ids(session, agent_graph.scope, [merged]) == {}
    await merge_nodes(agent_graph, duplicates.kept_id, duplicates.merged_id)
    async with agent_graph.database.transaction() as session:
        assert await current_ids(session, agent_graph.scope, [duplicates.to_ghana]) == {
            duplicates.to_ghana: merged
        }
    await assert_sealed(agent_graph)


async def test_evidence_added_after_the_merge_stays_with_the_kept_node(
    agent_graph: AgentGraph, duplicates: Duplicates
) -> None:
    merge = await merge_nodes(agent_graph, duplicates.kept_id, duplicates.merged_id)
    merged = ids.edge_id(
        agent_graph.scope.agent_id, "borders", duplicates.kept_id, duplicates.ghana
    )
    await said(
        agent_graph, "https://x", "There are 32 million.", node=duplicates.kept_id, population=32
    )
    await said(agent_graph, "https://y", "It was drawn in 1893.", edge=merged, since=1893)
    togo = await agent_graph.node("Togo")
    new = await agent_graph.edge(duplicates.kept_id, togo)
    await undo_merge(agent_graph, merge.id)
    node_rows, edge_rows, _, _ = await load_rows(agent_graph)
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
    await assert_sealed(agent_graph)


async def test_merges_that_build_on_each_other_are_undone_in_reverse(
    agent_graph: AgentGraph, duplicates: Duplicates
) -> None:
    before = await load_rows(agent_graph)
    first = await merge_nodes(agent_graph, duplicates.kept_id, duplicates.merged_id)
    second = await merge_nodes(agent_graph, duplicates.ghana, duplicates.kept_id)
    async with agent_graph.database.transaction() as session:
        redirects = await current_ids(session, agent_graph.scope, [duplicates.merged_id])
    assert redirects == {duplicates.merged_id: duplicates.ghana}
    with pytest.raises(
        MergeRefusedError, match=f"merge {second.id} of 'Ivory Coast' was made later"
    ):
        await undo_merge(agent_graph, first.id)
    await undo_merge(agent_graph, second.id)
    await undo_merge(agent_graph, first.id)
    assert await load_rows(agent_graph) == before


async def test_independent_merges_may_be_undone_in_any_order(
    agent_graph: AgentGraph, duplicates: Duplicates
) -> None:
    one, other = await agent_graph.node("Chad"), await agent_graph.node("Tchad")
    before = await load_rows(agent_graph)
    first = await merge_nodes(agent_graph, duplicates.kept_id, duplicates.merged_id)
    second = await merge_nodes(agent_graph, one, other)
    await undo_merge(agent_graph, first.id)
    await undo_merge(agent_graph, second.id)
    assert await load_rows(agent_graph) == before


async def test_a_page_that_is_retracted_meanwhile_stays_retracted(
    agent_graph: AgentGraph, duplicates: Duplicates
) -> None:
    merge = await merge_nodes(agent_graph, duplicates.kept_id, duplicates.merged_id)
    from shared.database.tables import Source

    async with agent_graph.database.transaction() as session:
        at_b = update(Source).where(Source.url == "https://b")
        await session.execute(at_b.values(retracted_at=datetime.now(UTC)))
    await undo_merge(agent_graph, merge.id)
    node_rows, _, _, _ = await load_rows(agent_graph)
    merged_node = next(row for row in node_rows if row["id"] == duplicates.merged_id)
    assert "capital" not in merged_node["properties"]
    await assert_sealed(agent_graph)


async def test_repeated_claims_about_the_kept_node_leave_its_seal_valid(
    agent_graph: AgentGraph, duplicates: Duplicates
) -> None:
    """Its properties are the same, with more evidence."""
    merge = await merge_nodes(agent_graph, duplicates.kept_id, duplicates.merged_id)
    await said(
        agent_graph,
        "https://x",
        "A republic it is.",
        node=duplicates.kept_id,
        summary="A republic.",
    )
    await said(agent_graph, "https://y", "Both are old.", edge=duplicates.kept_to_mali, since=1960)
    await undo_merge(agent_graph, merge.id)
    await assert_sealed(agent_graph)


async def test_an_edge_of_the_merge_is_removed_even_if_its_quote_was_repeated(
    agent_graph: AgentGraph, duplicates: Duplicates
) -> None:
    """Otherwise an edge without evidence would remain."""
    merge = await merge_nodes(agent_graph, duplicates.kept_id, duplicates.merged_id)
    merged = await agent_graph.edge(duplicates.kept_id, duplicates.ghana)
    await undo_merge(agent_graph, merge.id)
    [edge_rows] = await load_rows(agent_graph, EDGES)
    assert merged not in {row["id"] for row in edge_rows}
    async with agent_graph.database.snapshot() as session:
        assert await breaks(session, agent_graph.scope) == []
