"""Merging two nodes and undoing it: names, evidence, citations, and edges between the two."""

import asyncio
import json
import xml.etree.ElementTree as ET
from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from typing import Any, Final
from uuid import UUID, uuid4

import pytest
from sqlalchemy import delete, select, update

from services.api.resources.graph import model as graph
from services.api.resources.graph.model import DrawingFilter
from services.api.resources.iterations import model as iterations
from services.api.resources.iterations import model as usage
from services.api.resources.sources import model as provenance
from services.observer.history import prepare_covering, prepare_history
from shared.database import ids
from shared.database.statements import Batch
from shared.database.tables import GraphEdge, GraphMerge, GraphMove, GraphNode, Iteration, Step
from shared.enums import ANALYSIS_TYPE, StepKind, StepStatus
from shared.graph import context, entity_resolution, types
from shared.graph.conclusions import citation_index, conclusions
from shared.graph.conclusions.citations import Citation, Kind
from shared.graph.entity_resolution import MergeRefusedError, aliases
from shared.graph.entity_resolution.merge import MergeJournal
from shared.graph.entity_resolution.redirects import current_ids
from shared.graph.projection import EDGES as EDGE_KIND
from shared.graph.provenance.evidence import EvidenceInput
from shared.graph.retrieval import hubs, query
from shared.graph.transfer.graphml import NAMESPACE, export_graphml
from shared.graph.transfer.prov import export_prov
from shared.graph.verification.report import verify_conclusion
from shared.schemas.base import PageRequest
from shared.schemas.provenance import ElementFault
from shared.tools import Json, ToolRefusalError
from shared.workflow import leases
from shared.workflow.agent_clock import AgentClock
from shared.workflow.iterations import IterationRow
from tests.support import claims
from tests.support.api.access import agent_access
from tests.support.forecast_terms import ANALYSIS_TERMS
from tests.support.graph.agent_graph import COUNTRY_SCHEMA, AgentGraph
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
from tests.support.graph.graph_with_evidence import EvidenceGraph
from tests.support.graph.page_evidence import said
from tests.support.graph.retraction_graph import RetractionGraph
from tests.support.graph.transfer import exported, imported
from tests.support.graph.verification import breaks


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
    assert await agent_graph.node("CÔTE D'IVOIRE") == duplicates.merged_id
    assert await agent_graph.node("Cote dIvoire") != duplicates.merged_id, "accents distinguish"


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
    ghana = await agent_graph.node("Ghana")
    foreign_node = await stranger.node("Togo")
    analysis = await agent_graph.analysis(f"[node:{ghana}]", "A")
    for kept_id, merged_id, message in (
        (ghana, ghana, "both ids refer to 'Ghana'"),
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


async def test_nodes_of_two_types_are_merged_and_what_does_not_fit_is_told_and_comes_back(
    agent_graph: AgentGraph,
) -> None:
    """Names of the other type lead to the kept node from then on."""
    properties: Json = dict(COUNTRY_SCHEMA["properties"])  # type: ignore[call-overload]  # a table
    schema = {**COUNTRY_SCHEMA, "properties": {**properties, "area": {"type": "string"}}}
    async with agent_graph.database.transaction() as session:
        await types.create_node_type(
            session,
            agent_graph.scope,
            agent_graph.validators,
            name="State",
            description="A state",
            properties_schema=schema,
            example_properties={"summary": "One."},
            created_by="test",
        )
    kept = await agent_graph.node("Ghana", capital="Accra")
    merged = await agent_graph.node("Republic of Ghana", "State")
    await said(agent_graph, "https://a", "Accra is its capital.", node=merged, area="large")
    await said(agent_graph, "https://b", "It has 33.", node=merged, population=33, area="small")
    rows = await load_rows(agent_graph)
    merge = await merge_nodes(agent_graph, kept, merged)
    assert set(MergeJournal.model_validate(merge.journal).left_out) == {"area"}
    async with agent_graph.database.transaction() as session:
        node = await session.get_one(GraphNode, kept)
    assert node.properties == {"summary": "A state.", "capital": "Accra", "population": 33}
    await assert_sealed(agent_graph)
    again = await agent_graph.add_node("Republic of Ghana", {"population": 32}, type_name="State")
    assert (again.id, again.created) == (kept, False)
    await undo_merge(agent_graph, merge.id)
    await assert_sealed(agent_graph)
    after = await load_rows(agent_graph)
    assert [row for row in after[0] if row["id"] == merged] == [
        row for row in rows[0] if row["id"] == merged
    ]
    assert {row["id"] for row in rows[2]} <= {row["id"] for row in after[2]}


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
        claim = await claims.claimed(session, step.id, "worker")
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


KEPT, MERGED = "Ivory Coast", "Côte d’Ivoire"
TO_KEPT, FROM_KEPT = (MERGED, KEPT), (KEPT, MERGED)
DIRECTIONS: Final = [[TO_KEPT], [FROM_KEPT], [TO_KEPT, FROM_KEPT]]

directions = pytest.mark.parametrize("ends", DIRECTIONS, ids=["to", "from", "both"])


@dataclass(frozen=True)
class Neighbours:
    """Two nodes with edges between them, each with a page of its own, and an analysis that cites the edges."""

    agent_graph: AgentGraph
    nodes: dict[str, UUID]
    urls: Sequence[str]
    edges: Sequence[UUID]
    analysis_id: UUID

    @property
    def kept_id(self) -> UUID:
        return self.nodes[KEPT]

    @property
    def merged_id(self) -> UUID:
        return self.nodes[MERGED]

    async def merge(self) -> UUID:
        return (await merge_nodes(self.agent_graph, self.kept_id, self.merged_id)).id

    async def current_edge(self) -> UUID:
        """The edge that all of them have become."""
        async with self.agent_graph.database.transaction() as session:
            current = await current_ids(session, self.agent_graph.scope, self.edges)
        [edge_id] = {current[old_id] for old_id in self.edges}
        return edge_id

    async def assert_proven(self) -> None:
        """Nothing is broken, and the analysis holds down to the pages of the edges."""
        database, scope = self.agent_graph.database, self.agent_graph.scope
        await assert_sealed(self.agent_graph)
        async with database.snapshot() as session:
            assert await breaks(session, scope) == []
            report = await verify_conclusion(session, scope.owner_id, self.analysis_id)
        assert report is not None
        assert report.holds
        assert {source.url for source in report.sources} >= set(self.urls)


async def make_neighbours(agent_graph: AgentGraph, ends: Sequence[tuple[str, str]]) -> Neighbours:
    node_ids = {name: await agent_graph.node(name) for name in (KEPT, MERGED)}
    urls, edge_ids = [], []
    for number, (source, target) in enumerate(ends, 1):
        url, quote = f"https://{number}.example", f"{source} borders on {target}: {number} km."
        await agent_graph.store_search_results({"results": [{"url": url, "content": quote}]})
        one, other = node_ids[source], node_ids[target]
        edge = await agent_graph.add_edge(one, other, {"km": number}, [EvidenceInput(url, quote)])
        urls.append(url)
        edge_ids.append(edge.id)
    cited = [f"[edge:{edge_id}]" for edge_id in edge_ids]
    analysis_id = await RetractionGraph(agent_graph).analysis("Neighbours", *cited)
    return Neighbours(agent_graph, node_ids, urls, edge_ids, analysis_id)


@directions
async def test_its_citations_hold(agent_graph: AgentGraph, ends: list[tuple[str, str]]) -> None:
    neighbours = await make_neighbours(agent_graph, ends)
    await neighbours.assert_proven()
    before = await load_rows(agent_graph)
    merge_id = await neighbours.merge()
    await neighbours.assert_proven()
    [edge] = (await load_rows(agent_graph, EDGES))[0]
    assert (edge["id"], edge["source_id"], edge["target_id"], edge["properties"]) == (
        await neighbours.current_edge(),
        neighbours.kept_id,
        neighbours.kept_id,
        {"km": 1},  # The pages have no date, so the value that was written first stays.
    )
    citations = [Citation(Kind.EDGE, edge_id) for edge_id in neighbours.edges]
    async with agent_graph.database.transaction() as session:
        labels = await citation_index.load_cited_labels(session, agent_graph.scope, citations)
    assert labels.keys() == set(citations)
    await undo_merge(agent_graph, merge_id)
    await neighbours.assert_proven()
    assert await load_rows(agent_graph) == before


@directions
async def test_its_citations_hold_in_an_imported_graph(
    agent_graph: AgentGraph, ends: list[tuple[str, str]]
) -> None:
    neighbours = await make_neighbours(agent_graph, ends)
    await neighbours.merge()
    graph_with_evidence = EvidenceGraph(agent_graph)
    scope = await imported(graph_with_evidence, await exported(graph_with_evidence))
    is_analysis = (GraphNode.agent_id == scope.agent_id, GraphNode.type == ANALYSIS_TYPE)
    async with agent_graph.database.snapshot() as session:
        analysis_id = (await session.scalars(select(GraphNode.id).where(*is_analysis))).one()
        is_own = GraphEdge.agent_id == scope.agent_id
        edge = (await session.scalars(select(GraphEdge).where(is_own))).one()
        assert edge.source_id == edge.target_id
    copy = replace(neighbours, agent_graph=replace(agent_graph, scope=scope))
    await replace(copy, analysis_id=analysis_id).assert_proven()


async def _faults(agent_graph: AgentGraph) -> list[ElementFault]:
    async with agent_graph.database.snapshot() as session:
        return await breaks(session, agent_graph.scope)


async def _doubted_in_report(neighbours: Neighbours) -> set[tuple[UUID, str]]:
    async with neighbours.agent_graph.database.snapshot() as session:
        scope = neighbours.agent_graph.scope
        report = await verify_conclusion(session, scope.owner_id, neighbours.analysis_id)
    assert report is not None
    return {(doubt.id, doubt.cause) for doubt in report.doubts}


@directions
async def test_a_retraction_of_its_pages_doubts_what_cites_it(
    agent_graph: AgentGraph, ends: list[tuple[str, str]]
) -> None:
    neighbours, pages = await make_neighbours(agent_graph, ends), RetractionGraph(agent_graph)
    before = await pages.state()
    merge_id = await neighbours.merge()
    merged = await pages.state()
    retractions = [await pages.retract(url) for url in neighbours.urls]
    retracted = await pages.state()
    current = await neighbours.current_edge()
    assert {doubt[:2] for doubt in retracted.doubted} == {(neighbours.analysis_id, current)}
    assert retracted.unsupported == {current}
    # The analysis is marked as in doubt: that is reported, and no break.
    assert await _faults(agent_graph) == []
    assert await _doubted_in_report(neighbours) == {(neighbours.analysis_id, "retracted")}
    for retraction in retractions:
        await pages.restore(retraction)
    assert await pages.state() == merged
    await neighbours.assert_proven()

    # Undone while they are retracted.
    retractions = [await pages.retract(url) for url in neighbours.urls]
    await undo_merge(agent_graph, merge_id)
    undone = await pages.state()
    assert {doubt[:2] for doubt in undone.doubted} == {
        (neighbours.analysis_id, edge_id) for edge_id in neighbours.edges
    }
    assert undone.unsupported == set(neighbours.edges)
    for retraction in retractions:
        await pages.restore(retraction)
    assert await pages.state() == before


async def test_a_citation_of_the_kept_edge_holds_after_the_undo(agent_graph: AgentGraph) -> None:
    neighbours = await make_neighbours(agent_graph, [TO_KEPT, FROM_KEPT])
    merge_id = await neighbours.merge()
    current = await neighbours.current_edge()
    await RetractionGraph(agent_graph).analysis("Once two", f"[edge:{current}]")
    await neighbours.assert_proven()
    await undo_merge(agent_graph, merge_id)
    await neighbours.assert_proven()
    async with agent_graph.database.transaction() as session:
        [redirect] = (await current_ids(session, agent_graph.scope, [current])).values()
    assert redirect in neighbours.edges


async def test_it_follows_the_kept_node_into_another(agent_graph: AgentGraph) -> None:
    neighbours = await make_neighbours(agent_graph, [TO_KEPT])
    other_id = await agent_graph.node("Gold Coast")
    await agent_graph.edge(neighbours.merged_id, other_id)
    before = await load_rows(agent_graph)
    first = await neighbours.merge()
    second = await merge_nodes(agent_graph, other_id, neighbours.kept_id)
    await neighbours.assert_proven()
    [edge] = (await load_rows(agent_graph, EDGES))[0]
    assert edge["id"] == await neighbours.current_edge()
    assert edge["source_id"] == edge["target_id"] == other_id
    await undo_merge(agent_graph, second.id)
    await neighbours.assert_proven()
    await undo_merge(agent_graph, first)
    assert await load_rows(agent_graph) == before


async def test_writers_add_none(agent_graph: AgentGraph) -> None:
    neighbours = await make_neighbours(agent_graph, [TO_KEPT])
    await neighbours.merge()
    for source_id in (neighbours.kept_id, neighbours.merged_id):
        with pytest.raises(ToolRefusalError, match="an edge joins two different nodes"):
            await agent_graph.edge(source_id, neighbours.kept_id)


async def _merged_among_others(agent_graph: AgentGraph) -> tuple[Neighbours, UUID, UUID]:
    """The merged nodes, Ghana, and the edge to it; all were written by one iteration."""
    by_iteration = replace(agent_graph, scope=replace(agent_graph.scope, iteration_id=uuid4()))
    neighbours = await make_neighbours(by_iteration, [TO_KEPT, FROM_KEPT])
    ghana = await by_iteration.node("Ghana")
    to_ghana = await by_iteration.edge(neighbours.kept_id, ghana)
    await neighbours.merge()
    return neighbours, ghana, to_ghana


async def test_prompts_and_tools_do_not_show_it(agent_graph: AgentGraph) -> None:
    neighbours, ghana, to_ghana = await _merged_among_others(agent_graph)
    scope, kept_id = agent_graph.scope, neighbours.kept_id
    history = await neighbours.current_edge()
    async with agent_graph.database.transaction() as session:
        texts = [
            await context.build_survey(session, scope, StepKind.CONVERSE),
            await describe_nodes(session, scope, [kept_id]),
        ]
        [busiest, _] = await hubs.find_hubs(scope, 2).execute(session)
        shown = [
            await query.incident_edges(session, scope, [kept_id], 9),
            await query.edges_between(session, scope, [kept_id, ghana], [kept_id, ghana], 9),
        ]
        answers = [
            await query.query_graph(session, scope, ids=[kept_id, ghana]),
            await query.query_graph(session, scope, ids=[kept_id], neighbours=2),
            await query.query_graph(session, scope, between=[kept_id, ghana]),
        ]
    for text in texts:
        assert str(to_ghana) in text
        assert str(history) not in text
        assert f"{KEPT} → {KEPT}" not in text
    assert (busiest.edges, [[edge.id for edge in links] for links in shown]) == (
        1,
        [[to_ghana]] * 2,
    )
    assert [[edge["id"] for edge in answer["edges"]] for answer in answers] == [[str(to_ghana)]] * 3


async def test_a_node_without_other_edges_is_not_connected(agent_graph: AgentGraph) -> None:
    neighbours = await make_neighbours(agent_graph, [TO_KEPT])
    await neighbours.merge()
    async with agent_graph.database.transaction() as session:
        assert await hubs.find_hubs(agent_graph.scope, 9).execute(session) == []


async def test_lists_counts_and_pictures_do_not_show_it(agent_graph: AgentGraph) -> None:
    neighbours, ghana, to_ghana = await _merged_among_others(agent_graph)
    scope, kept_id = agent_graph.scope, neighbours.kept_id
    iteration_id = neighbours.agent_graph.scope.iteration_id
    assert iteration_id is not None
    filters: list[dict[str, Any]] = [
        {},
        {"type_name": "borders"},
        {"source_id": kept_id},
        {"target_id": ghana},
        {"node_id": kept_id},
    ]
    async with agent_graph.database.transaction() as session:
        listed: list[Sequence[Any]] = [
            (await graph.list_edges(agent_access(session, scope), PageRequest(), **each)).items
            for each in filters
        ]
        access = agent_access(session, scope)
        into = (await graph.list_edges(access, PageRequest(), target_id=kept_id)).items
        node = await graph.get_node(agent_access(session, scope), kept_id)
        around = await graph.load_neighbourhood(
            agent_access(session, scope), kept_id, depth=2, limit=9
        )
        listed += [
            node.edges.items,
            around.edges,
            await graph.newest_edges(agent_access(session, scope)),
            [
                each
                for each in await iterations.written_in_iterations(session, [iteration_id])
                if each.kind == "edge"
            ],
        ]
        counts = await graph.count_by_type(agent_access(session, scope))
        sums = await usage.sum_iterations(session, [iteration_id])
        everything = DrawingFilter()
        pictures = [
            await graph.draw_newest(agent_access(session, scope), everything, 9),
            await graph.draw_best_connected(agent_access(session, scope), everything, 9),
            await graph.draw_search(agent_access(session, scope), KEPT, everything),
            await graph.draw_neighbourhood(agent_access(session, scope), kept_id, depth=1, limit=9),
        ]
    assert [[edge.id for edge in each] for each in listed] == [[to_ghana]] * len(listed)
    assert into == []
    assert (counts.edges["borders"], sums[iteration_id].gained.edges) == (1, 1)
    drawn = [(edge.source_id, edge.target_id) for picture in pictures for edge in picture.edges]
    assert set(drawn) == {(kept_id, ghana)}


async def test_it_is_found_by_its_id_and_exported_as_provenance(agent_graph: AgentGraph) -> None:
    neighbours, _, to_ghana = await _merged_among_others(agent_graph)
    scope, history = agent_graph.scope, await neighbours.current_edge()
    async with agent_graph.database.transaction() as session:
        edge = await graph.get_edge(agent_access(session, scope), history)
        evidence = await provenance.list_evidence(
            agent_access(session, scope), EDGE_KIND, history, PageRequest()
        )
    assert [each.id for each in edge.cited_by] == [neighbours.analysis_id]
    assert {each.url for each in evidence.items} == set(neighbours.urls)
    evidence_graph = EvidenceGraph(agent_graph)
    picture = ET.fromstring(await exported(evidence_graph, export_graphml))
    drawn = {each.get("id") for each in picture.iter(f"{{{NAMESPACE}}}edge")}
    assert drawn == {str(to_ghana)}
    document = json.loads(await exported(evidence_graph, export_prov))
    described = {each["@id"] for each in document["@graph"] if "vigil:edge" in each["@type"]}
    assert described == {f"urn:uuid:{to_ghana}", f"urn:uuid:{history}"}


async def test_an_analysis_of_it_covers_no_node(agent_graph: AgentGraph) -> None:
    """Otherwise a plan could not ask about the kept node."""
    neighbours, _, to_ghana = await _merged_among_others(agent_graph)
    pages = RetractionGraph(agent_graph)
    await pages.analysis("Once two", f"[edge:{await neighbours.current_edge()}]")
    await pages.analysis("Borders", f"[edge:{to_ghana}]")
    await agent_graph.iteration(1, queries=[])
    async with agent_graph.database.transaction() as session:
        iteration = (await session.scalars(select(Iteration))).one()
        scope = replace(agent_graph.scope, iteration_id=iteration.id)
        row = IterationRow(*(getattr(iteration, name) for name in IterationRow._fields))
        batch = Batch()
        read = prepare_history(batch, scope)
        clock = AgentClock(iteration.started_at)
        await batch.execute(session)
        batch = Batch()
        covering = prepare_covering(batch, scope, read(row, clock).analyses)
        await batch.execute(session)
        covered = {each.name: each.cited for each in covering.value}
    assert covered["Once two"] == frozenset()
    assert neighbours.kept_id in covered["Borders"]
