"""Merging two nodes: names, evidence, edges and citations."""

import asyncio
from dataclasses import replace

import pytest
from sqlalchemy import select, update

from shared.database.tables import Step
from shared.enums import StepStatus
from shared.graph import entity_resolution
from shared.graph.conclusions import citation_index, conclusions
from shared.graph.conclusions.citations import Citation, Kind
from shared.graph.entity_resolution import MergeRefusedError, aliases
from shared.graph.entity_resolution.redirects import current_ids
from shared.graph.retrieval import query
from shared.tools import ToolRefusalError
from shared.workflow import leases
from tests.support import claims
from tests.support.claims import Claimed
from tests.support.forecast_terms import ANALYSIS_TERMS
from tests.support.graph.agent_graph import AgentGraph
from tests.support.graph.concurrent_writes import resolve_and_reserve
from tests.support.graph.descriptions import describe_nodes, resolve_references
from tests.support.graph.duplicates import (
    EDGES,
    NODES,
    Duplicates,
    assert_sealed,
    load_rows,
    merge_nodes,
    undo_merge,
)


async def test_the_kept_node_has_the_content_of_both(
    agent_graph: AgentGraph, duplicates: Duplicates
) -> None:
    merge = await merge_nodes(agent_graph, duplicates.kept_id, duplicates.merged_id)
    node_rows, edge_rows, evidence_rows, name_rows = await load_rows(agent_graph)
    by_id = {row["id"]: row for row in node_rows}
    assert duplicates.merged_id not in by_id
    assert by_id[duplicates.kept_id]["properties"] == {
        "summary": "A republic.",
        "capital": "Yamoussoukro",
        "population": 1,
    }
    edges = {(row["source_id"], row["target_id"]): row["properties"] for row in edge_rows}
    assert edges == {
        (duplicates.kept_id, duplicates.ghana): {"km": 720},
        (duplicates.kept_id, duplicates.mali): {"km": 599, "since": 1960},
        (duplicates.mali, duplicates.kept_id): {},
        (duplicates.kept_id, duplicates.kept_id): {"km": 1},
    }
    kept_evidence = [row for row in evidence_rows if row["node_id"] == duplicates.kept_id]
    assert len(kept_evidence) == 2 + 3, (
        "the evidence of both nodes, with identical evidence stored once"
    )
    assert {row["node_id"] for row in name_rows if "ivo" in row["key"]} == {duplicates.kept_id}
    assert merge.undone_at is None
    await assert_sealed(agent_graph)


async def test_names_of_the_merged_node_resolve_to_the_kept_node(
    agent_graph: AgentGraph, duplicates: Duplicates
) -> None:
    merge = await merge_nodes(agent_graph, duplicates.kept_id, duplicates.merged_id)
    assert await agent_graph.node("CÔTE D'IVOIRE") == duplicates.kept_id
    await undo_merge(agent_graph, merge.id)
    assert await agent_graph.node("Cote d Ivoire") != duplicates.merged_id
    assert await agent_graph.node("Cote dIvoire") == duplicates.merged_id


async def test_citations_of_merged_ids_are_resolved(
    agent_graph: AgentGraph, duplicates: Duplicates
) -> None:
    merge = await merge_nodes(agent_graph, duplicates.kept_id, duplicates.merged_id)
    [edge_to_ghana] = [
        row["id"]
        for row in (await load_rows(agent_graph, EDGES))[0]
        if row["target_id"] == duplicates.ghana
    ]
    citations = [
        Citation(Kind.NODE, duplicates.merged_id),
        Citation(Kind.EDGE, duplicates.to_ghana),
        Citation(Kind.EDGE, duplicates.between),
    ]
    async with agent_graph.database.transaction() as session:
        redirects = await current_ids(
            session,
            agent_graph.scope,
            [duplicates.merged_id, duplicates.to_ghana, duplicates.ghana],
        )
        assert redirects == {
            duplicates.merged_id: duplicates.kept_id,
            duplicates.to_ghana: edge_to_ghana,
        }
        labels = await citation_index.load_cited_labels(session, agent_graph.scope, citations)
        assert [labels[citation].name for citation in citations] == [
            "Ivory Coast",
            "Ivory Coast → Ghana",
            "Ivory Coast → Ivory Coast",
        ]
        analysis = await conclusions.add_analysis(
            session,
            agent_graph.scope,
            name="Neighbours",
            kind="observation",
            summary="They are neighbours.",
            content=f"It borders on Ghana {citations[0]} {citations[1]}.",
            **ANALYSIS_TERMS,
        )
        assert await resolve_references(
            session, agent_graph.scope, [str(duplicates.merged_id)]
        ) == (
            [duplicates.kept_id],
            [],
        )
        answer = await query.query_graph(session, agent_graph.scope, ids=[duplicates.merged_id])
        assert [node["id"] for node in answer["nodes"]] == [str(duplicates.kept_id)]
        assert "Ivory Coast" in await describe_nodes(
            session, agent_graph.scope, [duplicates.merged_id]
        )
    assert await agent_graph.edge(duplicates.merged_id, duplicates.ghana) == edge_to_ghana
    await undo_merge(agent_graph, merge.id)
    async with agent_graph.database.transaction() as session:
        labels = await citation_index.load_cited_labels(session, agent_graph.scope, citations)
        assert [labels[citation].name for citation in citations] == [
            "Côte d’Ivoire",
            "Côte d’Ivoire → Ghana",
            "Côte d’Ivoire → Ivory Coast",
        ]
        assert (await session.scalar(select(NODES.c.id).where(NODES.c.id == analysis))) == analysis


async def test_invalid_merges_are_refused(agent_graph: AgentGraph, stranger: AgentGraph) -> None:
    await agent_graph.node_type("River")
    ghana, volta = await agent_graph.node("Ghana"), await agent_graph.node("Volta", "River")
    foreign_node = await stranger.node("Togo")
    analysis = await agent_graph.analysis(f"[node:{ghana}]", "A")
    for kept_id, merged_id, message in (
        (ghana, ghana, "both ids refer to 'Ghana'"),
        (ghana, volta, "'Ghana' is a Country and 'Volta' a River"),
        (ghana, analysis, "cannot be merged"),
        (analysis, ghana, "cannot be merged"),
    ):
        with pytest.raises(MergeRefusedError, match=message):
            await merge_nodes(agent_graph, kept_id, merged_id)
    async with agent_graph.database.transaction() as session:
        for kept_id, merged_id in ((ghana, foreign_node), (foreign_node, ghana)):
            merge = await entity_resolution.merge_nodes(
                session,
                agent_graph.scope,
                kept_id=kept_id,
                merged_id=merged_id,
                reason="x",
                made_by=agent_graph.scope.owner_id,
            )
            assert merge is None


async def test_a_merge_during_concurrent_writes_loses_nothing(
    agent_graph: AgentGraph, duplicates: Duplicates
) -> None:
    async def write(number: int) -> None:
        for turn in range(4):
            name = ("Ivory Coast", "Côte d'Ivoire")[(number + turn) % 2]
            node_id = await agent_graph.node(name, population=number)
            try:
                await agent_graph.edge(node_id, duplicates.ghana)
                await agent_graph.edge(duplicates.mali, node_id)
            except ToolRefusalError:  # the merge may be undone between the two writes
                pytest.fail("an id returned by add_node does not resolve")

    async def merge_and_undo() -> None:
        for _ in range(4):
            merge = await merge_nodes(agent_graph, duplicates.kept_id, duplicates.merged_id)
            await undo_merge(agent_graph, merge.id)

    await asyncio.gather(merge_and_undo(), *(write(number) for number in range(6)))
    await merge_nodes(agent_graph, duplicates.kept_id, duplicates.merged_id)
    await assert_sealed(agent_graph)
    async with agent_graph.database.transaction() as session:
        names = await aliases.list_names(session, agent_graph.scope, duplicates.kept_id)
    assert names == ["Ivory Coast", "Côte d’Ivoire"]


async def test_nodes_of_a_running_step_are_merged_while_it_writes(agent_graph: AgentGraph) -> None:
    """The step's transaction locks its row; a merge that waited for the row would deadlock."""
    await agent_graph.iteration(1, queries=["Who is who?"])
    async with agent_graph.database.transaction() as session:
        await session.execute(update(Step).values(status=StepStatus.PENDING))
        step = (await session.scalars(select(Step))).one()
        claim = await claims.claim(session, step.id, "worker")
    assert isinstance(claim, Claimed)
    step_agent_graph = replace(agent_graph, scope=replace(agent_graph.scope, step_id=step.id))
    kept_id, merged_id = (
        await step_agent_graph.node("Ivory Coast"),
        await step_agent_graph.node("Côte d’Ivoire"),
    )
    ghana = await step_agent_graph.node("Ghana")
    await step_agent_graph.edge(merged_id, ghana)
    async with (
        asyncio.timeout(20),
        leases.leased_transaction(agent_graph.database, claim.lease) as session,
    ):
        merge = await merge_nodes(agent_graph, kept_id, merged_id)
        await undo_merge(agent_graph, merge.id)
        await resolve_and_reserve(
            session, step_agent_graph.scope, [aliases.NameRequest("Country", "Togo")]
        )
        await session.rollback()
