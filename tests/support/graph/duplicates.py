"""One country under two names, with helpers that merge its nodes and undo the merge."""

from datetime import timedelta
from typing import Any, Final, cast
from uuid import UUID

from sqlalchemy import Table, select

from shared.database import ids
from shared.database.tables import Evidence, GraphEdge, GraphName, GraphNode
from shared.graph import entity_resolution
from shared.graph.entity_resolution.merge import Merge
from shared.graph.provenance import integrity
from tests.support.graph.agent_graph import AgentGraph
from tests.support.graph.page_evidence import LEARNED, said

NODES: Final = cast("Table", GraphNode.__table__)
EDGES: Final = cast("Table", GraphEdge.__table__)
EVIDENCE: Final = cast("Table", Evidence.__table__)
NAMES: Final = cast("Table", GraphName.__table__)
LATER = LEARNED + timedelta(days=30)


async def merge_nodes(agent_graph: AgentGraph, kept_id: UUID, merged_id: UUID) -> Merge:
    async with agent_graph.database.transaction() as session:
        merge = await entity_resolution.merge_nodes(
            session,
            agent_graph.scope,
            kept_id=kept_id,
            merged_id=merged_id,
            reason="One country under two names.",
            made_by=agent_graph.scope.owner_id,
        )
    assert merge is not None
    return merge


async def undo_merge(agent_graph: AgentGraph, merge_id: UUID) -> Merge:
    async with agent_graph.database.transaction() as session:
        merge = await entity_resolution.undo_merge(session, agent_graph.scope, merge_id)
    assert merge is not None
    return merge


async def load_rows(agent_graph: AgentGraph, *tables: Table) -> list[list[dict[str, Any]]]:
    """All rows of the tables, by default of those that a merge changes."""
    async with agent_graph.database.transaction() as session:
        rows_by_table = []
        for table in tables or (NODES, EDGES, EVIDENCE, NAMES):
            rows = await session.execute(select(table).order_by(*table.primary_key))
            rows_by_table.append([dict(row) for row in rows.mappings()])
        return rows_by_table


async def assert_sealed(agent_graph: AgentGraph) -> None:
    """Every node, edge and evidence row has a valid seal, and ids derive from the content."""
    node_rows, edge_rows, evidence_rows, _ = await load_rows(agent_graph)
    for node in node_rows:
        evidence_ids = [row["id"] for row in evidence_rows if row["node_id"] == node["id"]]
        assert not evidence_ids or node["seal"] == integrity.node_seal(
            node_id=node["id"],
            agent_id=node["agent_id"],
            type_name=node["type"],
            name=node["name"],
            properties=node["properties"],
            evidence=evidence_ids,
        )
    for edge in edge_rows:
        ends = (edge["source_id"], edge["target_id"])
        assert edge["id"] == ids.edge_id(edge["agent_id"], edge["type"], *ends)
        evidence_ids = [row["id"] for row in evidence_rows if row["edge_id"] == edge["id"]]
        assert not evidence_ids or edge["seal"] == integrity.edge_seal(
            edge_id=edge["id"],
            agent_id=edge["agent_id"],
            type_name=edge["type"],
            source_id=ends[0],
            target_id=ends[1],
            properties=edge["properties"],
            evidence=evidence_ids,
        )
    for evidence in evidence_rows:
        element_id = evidence["node_id"] or evidence["edge_id"]
        content = integrity.evidence_content(
            evidence["claims"], evidence["valid_from"], evidence["valid_to"], evidence["speaker"]
        )
        span = (evidence["first_byte"], evidence["end_byte"])
        assert evidence["id"] == ids.evidence_id(element_id, evidence["source_id"], *span, content)
        columns = {
            key: evidence[key]
            for key in evidence
            if key not in ("id", "seal", "node_id", "edge_id", "step_id")
        }
        assert evidence["seal"] == integrity.evidence_seal(
            evidence_id=evidence["id"], element_id=element_id, **columns
        )


class Duplicates:
    """Ivory Coast under two names, each with evidence, and edges to and from both."""

    def __init__(self, agent_graph: AgentGraph) -> None:
        self.agent_graph = agent_graph

    async def fill(self) -> "Duplicates":
        agent_graph = self.agent_graph
        self.kept_id = await agent_graph.node("Ivory Coast", capital="Abidjan")
        self.merged_id = await agent_graph.node("Côte d’Ivoire", population=1)
        self.ghana = await agent_graph.node("Ghana")
        self.mali = await agent_graph.node("Mali")
        await said(
            agent_graph,
            "https://a",
            "Its capital is Abidjan.",
            node=self.kept_id,
            capital="Abidjan",
        )
        await said(
            agent_graph,
            "https://b",
            "Yamoussoukro has been the capital since.",
            node=self.merged_id,
            at=LATER,
            capital="Yamoussoukro",
        )
        await said(
            agent_graph, "https://c", "Both say so.", node=self.kept_id, summary="A republic."
        )
        await said(
            agent_graph, "https://c", "Both say so.", node=self.merged_id, summary="A republic."
        )
        self.to_ghana = await agent_graph.edge(self.merged_id, self.ghana)
        self.kept_to_mali = await agent_graph.edge(self.kept_id, self.mali)
        self.to_mali = await agent_graph.edge(self.merged_id, self.mali)
        await agent_graph.edge(self.mali, self.merged_id)
        self.between = await agent_graph.edge(self.merged_id, self.kept_id)
        await said(agent_graph, "https://d", "They border on Ghana.", edge=self.to_ghana, km=720)
        await said(agent_graph, "https://e", "They border on Mali.", edge=self.to_mali, km=599)
        await said(
            agent_graph, "https://f", "It borders on Mali.", edge=self.kept_to_mali, since=1960
        )
        await said(agent_graph, "https://g", "One and the other.", edge=self.between, km=1)
        return self
