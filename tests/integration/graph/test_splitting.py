"""Splitting a node: evidence that is of another thing moves, with its edges; conclusions that rest on it are in doubt."""

from collections.abc import Collection
from datetime import timedelta
from typing import Any
from uuid import UUID, uuid4

import pytest
from sqlalchemy import select

from shared.database import ids
from shared.database.tables import Evidence, GraphEdge, GraphNode
from shared.graph import entity_resolution
from shared.graph.entity_resolution import MergeRefusedError, distinct
from shared.graph.entity_resolution.merge import Merge
from shared.graph.entity_resolution.redirects import current_ids
from shared.graph.retraction import doubts
from shared.graph.retraction.propagation import resolve_doubts
from shared.graph.verification.report import verify_conclusion
from tests.support.graph.agent_graph import AgentGraph
from tests.support.graph.duplicates import assert_sealed, load_rows, merge_nodes, undo_merge
from tests.support.graph.page_evidence import LEARNED, said
from tests.support.graph.verification import breaks

LATER = LEARNED + timedelta(days=30)


async def _split(
    graph: AgentGraph, node_id: UUID, evidence: Collection[UUID], **options: Any
) -> Merge:
    async with graph.database.transaction() as session:
        split = await entity_resolution.split_node(
            session,
            graph.scope,
            node_id=node_id,
            evidence_ids=evidence,
            qualifier=options.get("qualifier", "river"),
            reason="One is a river.",
            made_by=graph.scope.owner_id,
        )
    assert split is not None
    return split


async def _node(graph: AgentGraph, node_id: UUID) -> GraphNode:
    async with graph.database.transaction() as session:
        return await session.get_one(GraphNode, node_id)


async def _doubted(graph: AgentGraph, *conclusions: UUID) -> dict[UUID, list[str]]:
    async with graph.database.transaction() as session:
        listed = await doubts.list_doubts(session, conclusions)
    return {each: [f"{one.cause}: {one.reason}" for one in of_it] for each, of_it in listed.items()}


class Two:
    """A state and a river under one name: evidence of each, and edges to Ghana, Togo and Mali."""

    def __init__(self, graph: AgentGraph) -> None:
        self.graph = graph

    async def fill(self) -> "Two":
        graph = self.graph
        self.node = await graph.unproven("Niger")
        self.of_state = await said(
            graph,
            "https://a",
            "Niamey is its capital.",
            node=self.node,
            capital="Niamey",
            summary="A state.",
        )
        self.of_river = await said(
            graph,
            "https://b",
            "Bamako lies on it.",
            node=self.node,
            at=LATER,
            capital="Bamako",
            population=3,
        )
        others = [await graph.node(name) for name in ("Ghana", "Togo", "Mali")]
        self.ghana, self.togo, self.mali = others
        self.to_ghana, self.to_togo, self.to_mali = [await self._edge(other) for other in others]
        self.edge_river = await said(
            graph, "https://c", "The river is near Ghana.", edge=self.to_ghana, km=4
        )
        await said(graph, "https://d", "The state borders Togo.", edge=self.to_togo, km=1)
        self.togo_river = await said(
            graph, "https://e", "The river is near Togo.", edge=self.to_togo, at=LATER, km=2
        )
        await said(graph, "https://f", "The state borders Mali.", edge=self.to_mali)
        self.evidence = [self.of_river, self.edge_river, self.togo_river]
        return self

    async def _edge(self, other: UUID) -> UUID:
        agent_id = self.graph.scope.agent_id
        edge_id = ids.edge_id(agent_id, "borders", self.node, other)
        row = {"id": edge_id, "agent_id": agent_id, "type": "borders", "properties": {}}
        async with self.graph.database.transaction() as session:
            await session.insert(GraphEdge, **row, source_id=self.node, target_id=other)
        return edge_id


@pytest.fixture
async def two(agent_graph: AgentGraph) -> Two:
    return await Two(agent_graph).fill()


async def test_evidence_moves_and_each_node_has_what_follows_from_its_own(
    agent_graph: AgentGraph, two: Two
) -> None:
    before = await _node(agent_graph, two.node)
    assert before.properties["capital"] == "Bamako"
    split = await _split(agent_graph, two.node, two.evidence)
    state, river = await _node(agent_graph, two.node), await _node(agent_graph, split.merged_id)
    assert (state.name, state.properties) == ("Niger", {"summary": "A state.", "capital": "Niamey"})
    assert (river.name, river.properties) == (
        "Niger (river)",
        {"capital": "Bamako", "population": 3},
    )
    assert split.made_at == split.undone_at
    async with agent_graph.database.transaction() as session:
        edges = {
            (edge.source_id, edge.target_id): edge.properties
            for edge in await session.scalars(select(GraphEdge))
        }
        pairs = await distinct.distinct_nodes(session, agent_graph.scope, [two.node])
    assert edges == {
        (river.id, two.ghana): {"km": 4},
        (river.id, two.togo): {"km": 2},
        (two.node, two.togo): {"km": 1},
        (two.node, two.mali): {},
    }
    assert pairs == {two.node: {river.id}, river.id: {two.node}}, "they are no duplicates"


async def test_seals_ids_and_redirects_are_right(agent_graph: AgentGraph, two: Two) -> None:
    split = await _split(agent_graph, two.node, two.evidence)
    node_rows, edge_rows, evidence_rows, _ = await load_rows(agent_graph)
    derived = {row["id"] for row in edge_rows if row["source_id"] == split.merged_id}
    async with agent_graph.database.transaction() as session:
        moved = await current_ids(
            session, agent_graph.scope, [two.to_ghana, two.to_togo, two.to_mali, two.node]
        )
    assert set(moved) == {two.to_ghana}, "only the edge that was left without evidence"
    assert moved[two.to_ghana] in derived
    assert all(row["seal"] for row in node_rows if row["id"] in (two.node, split.merged_id))
    assert len(evidence_rows) == len({row["id"] for row in evidence_rows})
    analysis = await agent_graph.analysis(f"[node:{split.merged_id}] [node:{two.node}]", "Both")
    async with agent_graph.database.snapshot() as session:
        assert await breaks(session, agent_graph.scope) == []
        report = await verify_conclusion(session, agent_graph.scope.owner_id, analysis)
    assert report is not None
    assert report.holds


async def test_conclusions_that_rest_on_what_moved_are_in_doubt_until_it_is_merged_back(
    agent_graph: AgentGraph, two: Two
) -> None:
    on_node = await agent_graph.analysis(f"[node:{two.node}]", "On the node")
    on_edge = await agent_graph.analysis(f"[edge:{two.to_ghana}]", "On the edge")
    on_shared = await agent_graph.analysis(f"[edge:{two.to_togo}]", "On the shared edge")
    elsewhere = await agent_graph.analysis(f"[edge:{two.to_mali}]", "Elsewhere")
    before = (on_node, on_edge, on_shared, elsewhere)
    split = await _split(agent_graph, two.node, two.evidence)
    after = await agent_graph.analysis(f"[node:{two.node}]", "On it after the split")
    why = ["split: One is a river."]
    expected = {on_node: why, on_edge: why, on_shared: why}
    assert await _doubted(agent_graph, *before, after) == expected
    await resolve_doubts(agent_graph.database)
    assert await _doubted(agent_graph, *before, after) == expected, "the doubts are founded"
    await merge_nodes(agent_graph, two.node, split.merged_id)
    assert await _doubted(agent_graph, *before, after) == {}


async def test_a_split_that_is_merged_back_has_its_evidence_again(
    agent_graph: AgentGraph, two: Two
) -> None:
    before = await load_rows(agent_graph)
    split = await _split(agent_graph, two.node, two.evidence)
    await merge_nodes(agent_graph, two.node, split.merged_id)
    after = await load_rows(agent_graph)
    assert {row["id"] for row in after[2] if row["node_id"] == two.node} == {
        row["id"] for row in before[2] if row["node_id"] == two.node
    }
    assert (await _node(agent_graph, two.node)).properties["capital"] == "Bamako"
    assert await agent_graph.node("Niger (river)") == two.node


async def test_splits_that_cannot_be_made_are_refused_and_change_nothing(
    agent_graph: AgentGraph, stranger: AgentGraph, two: Two
) -> None:
    analysis = await agent_graph.analysis(f"[node:{two.node}]", "A")
    await agent_graph.unproven("Niger (country)")
    before = await load_rows(agent_graph)
    missing = uuid4()
    for node_id, evidence, qualifier, message in (
        (two.node, [missing], "river", f"evidence {missing} is neither of 'Niger' nor"),
        (two.node, [two.edge_river], "river", "name evidence of 'Niger' itself"),
        (two.node, [two.of_state, two.of_river], "river", "that is all evidence of 'Niger'"),
        (two.node, [two.of_river], "country", r"there is a Country 'Niger \(country\)' already"),
        (two.node, [two.of_river], " ", "qualifier: 0 characters"),
        (analysis, [two.of_river], "river", "cannot be split"),
    ):
        with pytest.raises(MergeRefusedError, match=message):
            await _split(agent_graph, node_id, evidence, qualifier=qualifier)
    assert await load_rows(agent_graph) == before
    async with agent_graph.database.transaction() as session:
        foreign = await entity_resolution.split_node(
            session,
            stranger.scope,
            node_id=two.node,
            evidence_ids=[two.of_river],
            qualifier="river",
            reason="x",
            made_by=stranger.scope.owner_id,
        )
    assert foreign is None


async def test_new_seals_match_their_rows(agent_graph: AgentGraph) -> None:
    node = await agent_graph.node("Niger", capital="Niamey")
    river = await said(agent_graph, "https://b", "Bamako lies on it.", node=node, capital="Bamako")
    ghana = await agent_graph.node("Ghana")
    edge = await agent_graph.edge(node, ghana)
    near = await said(agent_graph, "https://c", "It is near.", edge=edge, km=4)
    await assert_sealed(agent_graph)
    await _split(agent_graph, node, [river, near])
    await assert_sealed(agent_graph)


async def test_a_merge_before_a_split_cannot_be_undone(agent_graph: AgentGraph, two: Two) -> None:
    """The split may have moved all that the merged node, or a value of it, would rest on."""
    twin = await agent_graph.unproven("River Niger")
    moved = await said(agent_graph, "https://g", "It is long.", node=twin, summary="A river.")
    merge = await merge_nodes(agent_graph, two.node, twin)
    async with agent_graph.database.transaction() as session:
        evidence = await session.scalars(
            select(Evidence.id).where(
                Evidence.node_id == two.node, Evidence.claims == {"summary": "A river."}
            )
        )
        [now] = evidence
    assert now != moved
    await _split(agent_graph, two.node, [now])
    with pytest.raises(MergeRefusedError, match=r"'Niger \(river\)' was split off later"):
        await undo_merge(agent_graph, merge.id)
    async with agent_graph.database.transaction() as session:
        assert await session.get(GraphNode, twin) is None
        faults = await breaks(session, agent_graph.scope)
    assert not [each for each in faults if "no page supports" in each.message]
