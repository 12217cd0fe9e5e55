"""Exports with retractions, doubts and names, in other formats, and while the graph changes."""

import json
import xml.etree.ElementTree as ET
from collections.abc import Callable
from datetime import timedelta
from typing import Any

import pytest
from sqlalchemy import func, select, text, update

from shared.database import ids
from shared.database.tables import Evidence, GraphEdge, GraphNode, Retraction, Source
from shared.graph.conclusions import citation_index
from shared.graph.entity_resolution import aliases
from shared.graph.retraction import doubts
from shared.graph.scope import GraphScope
from shared.graph.transfer import exporter, graphml, prov
from shared.graph.transfer.exporter import GraphContent
from shared.graph.transfer.file_reader import BadFileError
from tests.support.canonical_graph import canonical
from tests.support.graph.agent_graph import AgentGraph
from tests.support.graph.duplicates import Duplicates, merge_nodes
from tests.support.graph.graph_with_evidence import FETCHED, EvidenceGraph, prove
from tests.support.graph.retraction_graph import RetractionGraph
from tests.support.graph.transfer import exported, imported, reseal
from tests.support.graph.verification import breaks


@pytest.fixture
async def evidence_graph(agent_graph: AgentGraph) -> EvidenceGraph:
    return await prove(agent_graph)


async def test_unsupported_elements_are_imported_with_their_flag(
    evidence_graph: EvidenceGraph,
) -> None:
    await evidence_graph.retract("https://a.example/togo")
    await evidence_graph.retract("https://a.example/ghana")
    scope = await imported(evidence_graph, await exported(evidence_graph))
    is_unsupported = GraphNode.unsupported_since.is_not(None)
    async with evidence_graph.agent_graph.database.transaction() as session:
        names = select(GraphNode.name).where(is_unsupported, GraphNode.agent_id == scope.agent_id)
        assert list(await session.scalars(names)) == ["Togo"]
        edges = select(GraphEdge.type, GraphEdge.unsupported_since.is_not(None))
        rows = await session.execute(edges.where(GraphEdge.agent_id == scope.agent_id))
        assert sorted(map(tuple, rows)) == [("about", False), ("borders", True)]


async def test_an_export_during_a_retraction_contains_the_final_state(
    evidence_graph: EvidenceGraph,
) -> None:
    retraction_graph = RetractionGraph(evidence_graph.agent_graph)
    retraction_id = await retraction_graph.ask_retract("https://b.example/census")
    halfway = await imported(evidence_graph, await exported(evidence_graph))
    await retraction_graph.work_off()
    await retraction_graph.ask_restore(retraction_id)
    restored = await imported(evidence_graph, await exported(evidence_graph))
    async with evidence_graph.agent_graph.database.snapshot() as session:
        for scope, people in ((halfway, 33_000_000), (restored, 35_000_000)):
            assert await breaks(session, scope) == []
            ghana = ids.node_id(scope.agent_id, "Country", "Ghana")
            node = await session.get_one(GraphNode, ghana)
            assert node.properties["population"] == people


async def test_a_renamed_node_keeps_its_evidence(evidence_graph: EvidenceGraph) -> None:
    """Its id derives from the earlier spelling, and differs from the id of its present name."""
    from shared.graph.projection import NODES, reproject

    async with evidence_graph.agent_graph.database.transaction() as session:
        togo = evidence_graph.nodes["Togo"]
        await session.execute(update(GraphNode).where(GraphNode.id == togo).values(name="TOGO"))
        await reproject(session, evidence_graph.scope, NODES, togo)
    scope = await imported(evidence_graph, await exported(evidence_graph))
    async with evidence_graph.agent_graph.database.snapshot() as session:
        assert await breaks(session, scope) == []
        assert await canonical(session, scope) == await canonical(session, evidence_graph.scope)
        node = await session.get(GraphNode, ids.node_id(scope.agent_id, "Country", "TOGO"))
        assert node is None


async def test_an_imported_retraction_keeps_its_doubts_and_can_be_restored(
    evidence_graph: EvidenceGraph,
) -> None:
    before = await doubted_names(evidence_graph.agent_graph, evidence_graph.scope)
    await RetractionGraph(evidence_graph.agent_graph).retract("https://b.example/census")
    expected = await doubted_names(evidence_graph.agent_graph, evidence_graph.scope)
    assert expected > before
    scope = await imported(evidence_graph, await exported(evidence_graph))
    imported_library = RetractionGraph(
        AgentGraph(
            evidence_graph.agent_graph.database, scope, evidence_graph.agent_graph.validators
        )
    )
    assert await doubted_names(imported_library.agent_graph, scope) == expected
    async with imported_library.agent_graph.database.transaction() as session:
        ghana = ids.node_id(scope.agent_id, "Country", "Ghana")
        assert [
            conclusion.name
            for conclusion in await citation_index.list_citing_conclusions(session, scope, ghana)
        ] == ["Growth"]
        is_own = Retraction.agent_id == scope.agent_id
        retraction = (await session.scalars(select(Retraction).where(is_own))).one()
        assert (retraction.url, retraction.reason) == ("https://b.example/census", "made up")
    await imported_library.restore(retraction.id)
    assert await doubted_names(imported_library.agent_graph, scope) == before
    node = await imported_library.get_node(ghana)
    assert node.properties["population"] == 35_000_000


async def doubted_names(agent_graph: AgentGraph, scope: GraphScope) -> set[str]:
    """The names of the conclusions in doubt."""
    async with agent_graph.database.transaction() as session:
        is_own = GraphNode.agent_id == scope.agent_id
        return set(
            await session.scalars(select(GraphNode.name).where(is_own, text(doubts.IS_DOUBTED_SQL)))
        )


async def test_the_names_of_a_node_are_imported(
    agent_graph: AgentGraph, duplicates: Duplicates
) -> None:
    """Otherwise the first page about the merged node would create a duplicate."""
    await merge_nodes(agent_graph, duplicates.kept_id, duplicates.merged_id)
    scope = await imported(EvidenceGraph(agent_graph), await exported(EvidenceGraph(agent_graph)))
    copy = AgentGraph(agent_graph.database, scope, agent_graph.validators)
    kept_id = ids.node_id(scope.agent_id, "Country", "Ivory Coast")
    async with agent_graph.database.transaction() as session:
        names = await aliases.list_names(session, scope, kept_id)
    assert names == ["Ivory Coast", "Côte d’Ivoire"]
    assert await copy.node("Côte d'Ivoire") == await copy.node("IVORY COAST") == kept_id


def with_nodes(file: bytes, change: Callable[[dict[str, Any]], None]) -> bytes:
    """Apply `change` to each node, and reseal the file."""
    rows = [json.loads(line) for line in file.splitlines()]
    for row in rows:
        if "node" in row:
            change(row["node"])
    lines = [json.dumps(row, separators=(",", ":"), ensure_ascii=False) for row in rows]
    return reseal([f"{line}\n".encode() for line in lines])


async def test_an_older_export_is_imported_without_names_and_doubts(
    evidence_graph: EvidenceGraph,
) -> None:
    def remove_names_and_doubts(node: dict[str, Any]) -> None:
        del node["names"], node["doubts"]

    scope = await imported(
        evidence_graph, with_nodes(await exported(evidence_graph), remove_names_and_doubts)
    )
    async with evidence_graph.agent_graph.database.snapshot() as session:
        assert await breaks(session, scope) == []
        assert await canonical(session, scope) == await canonical(session, evidence_graph.scope)


async def test_a_name_shared_by_two_nodes_is_refused(evidence_graph: EvidenceGraph) -> None:
    file = with_nodes(
        await exported(evidence_graph), lambda node: node["names"].update(same="Same")
    )
    with pytest.raises(BadFileError, match="its rows are inconsistent"):
        await imported(evidence_graph, file)


GRAPHML = f"{{{graphml.NAMESPACE}}}"


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
