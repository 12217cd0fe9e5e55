"""Other export formats, and the consistency of an export."""

import json
import xml.etree.ElementTree as ET
from datetime import timedelta

import pytest
from sqlalchemy import func, select

from shared.database import ids
from shared.database.tables import Evidence, GraphEdge, GraphNode, Source
from shared.graph.transfer import exporter, graphml, prov
from shared.graph.transfer.exporter import GraphContent
from tests.support.graph.agent_graph import AgentGraph
from tests.support.graph.graph_with_evidence import FETCHED, EvidenceGraph, prove
from tests.support.graph.transfer import exported, imported

GRAPHML = f"{{{graphml.NAMESPACE}}}"


@pytest.fixture
async def evidence_graph(agent_graph: AgentGraph) -> EvidenceGraph:
    return await prove(agent_graph)


async def test_graphml_has_the_property_types_of_the_schemas(evidence_graph: EvidenceGraph) -> None:
    await evidence_graph.says(
        "https://a.example/ghana", "Ghana", "Ghana", {"summary": "Gold & <other> \x0b things"}
    )
    graph = ET.fromstring(await exported(evidence_graph, graphml.export_graphml))
    kinds = {key.get("id"): key.get("attr.type") for key in graph.iter(f"{GRAPHML}key")}
    assert (kinds["node.population"], kinds["node.capital"]) == ("long", "string")
    nodes = {
        node.get("id"): {field.get("key"): field.text for field in node}
        for node in graph.iter(f"{GRAPHML}node")
    }
    ghana = nodes[str(evidence_graph.nodes["Ghana"])]
    assert (ghana["node.name"], ghana["node.population"]) == ("Ghana", "35000000")
    assert (ghana["node.evidence"], ghana["node.properties"]) == ("4", "{}")
    (border,) = [
        edge
        for edge in graph.iter(f"{GRAPHML}edge")
        if edge.get("id") == str(evidence_graph.edges["border"])
    ]
    ends = {
        "source": str(evidence_graph.nodes["Ghana"]),
        "target": str(evidence_graph.nodes["Togo"]),
    }
    assert {"source": border.get("source"), "target": border.get("target")} == ends
    assert set(kinds) >= {field.get("key") for field in border}


async def test_prov_leads_from_advice_to_the_page(evidence_graph: EvidenceGraph) -> None:
    document = json.loads(await exported(evidence_graph, prov.export_prov))
    assert document["@context"]["wasQuotedFrom"] == {"@id": "prov:wasQuotedFrom", "@type": "@id"}
    by_id = {entity["@id"]: entity for entity in document["@graph"]}
    assert len(by_id) == len(document["@graph"]) == 1 + 5 + 7 + 5 + 2

    def derived(entity_id: str) -> list[str]:
        return [
            *by_id[entity_id].get("wasDerivedFrom", []),
            *_listed(by_id[entity_id].get("wasQuotedFrom")),
        ]

    visited, pending = set[str](), [f"urn:uuid:{evidence_graph.nodes['Wait']}"]
    while pending:
        entity_id = pending.pop()
        if entity_id not in visited:
            visited.add(entity_id)
            pending += derived(entity_id)
    pages = {
        by_id[entity_id]["atLocation"] for entity_id in visited if "atLocation" in by_id[entity_id]
    }
    assert pages == {"https://a.example/ghana", "https://b.example/census"}
    assert "vigil:advice" in by_id[f"urn:uuid:{evidence_graph.nodes['Wait']}"]["@type"]
    quotes = {by_id[entity_id].get("value") for entity_id in visited}
    assert "Its capital is Accra." in quotes


def _listed(value: str | None) -> list[str]:
    return [] if value is None else [value]


async def test_an_export_is_consistent_despite_concurrent_writes(
    evidence_graph: EvidenceGraph,
) -> None:
    pieces: list[bytes] = []
    async with evidence_graph.agent_graph.database.snapshot() as session:
        async for piece in exporter.export_json_lines(GraphContent(session, evidence_graph.scope)):
            if len(pieces) == 1:
                later = FETCHED + timedelta(days=900)
                claims = {"population": 1}
                await evidence_graph.says(
                    "https://a.example/togo", "Togo has 9", "Togo", claims, valid_from=later
                )
            pieces.append(piece)
    scope = await imported(evidence_graph, b"".join(pieces))
    async with evidence_graph.agent_graph.database.snapshot() as session:
        togo = await session.get_one(GraphNode, ids.node_id(scope.agent_id, "Country", "Togo"))
        assert togo.properties["population"] == 9_000_000
        counts = [
            await session.scalar(
                select(func.count()).select_from(table).where(table.agent_id == scope.agent_id)
            )
            for table in (Source, GraphNode, GraphEdge, Evidence)
        ]
    assert counts == [5, 5, 2, 7]
