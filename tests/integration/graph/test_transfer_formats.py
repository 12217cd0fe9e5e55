"""Other formats that a graph is written in, and the moment that an export is of."""

import json
import xml.etree.ElementTree as ET
from datetime import timedelta

import pytest
from sqlalchemy import func, select

from shared.database import ids
from shared.database.tables import Evidence, GraphEdge, GraphNode, Source
from shared.graph.transfer import exporter, graphml, prov
from shared.graph.transfer.exporter import GraphContent
from tests.support.graph.proven import FETCHED, Proven, prove
from tests.support.graph.transferring import exported, imported
from tests.support.graph.world import World

GRAPHML = f"{{{graphml.NAMESPACE}}}"


@pytest.fixture
async def proven(world: World) -> Proven:
    return await prove(world)


async def test_graphml_has_types_for_what_the_types_declare(proven: Proven) -> None:
    await proven.says(
        "https://a.example/ghana", "Ghana", "Ghana", {"summary": "Gold & <other> \x0b things"}
    )
    graph = ET.fromstring(await exported(proven, graphml.export_graphml))
    kinds = {key.get("id"): key.get("attr.type") for key in graph.iter(f"{GRAPHML}key")}
    assert (kinds["node.population"], kinds["node.capital"]) == ("long", "string")
    told = {
        node.get("id"): {each.get("key"): each.text for each in node}
        for node in graph.iter(f"{GRAPHML}node")
    }
    ghana = told[str(proven.nodes["Ghana"])]
    assert (ghana["node.name"], ghana["node.population"]) == ("Ghana", "35000000")
    assert (ghana["node.evidence"], ghana["node.properties"]) == ("4", "{}")
    (border,) = [
        edge
        for edge in graph.iter(f"{GRAPHML}edge")
        if edge.get("id") == str(proven.edges["border"])
    ]
    ends = {"source": str(proven.nodes["Ghana"]), "target": str(proven.nodes["Togo"])}
    assert {"source": border.get("source"), "target": border.get("target")} == ends
    assert set(kinds) >= {each.get("key") for each in border}


async def test_prov_leads_from_advice_to_the_page(proven: Proven) -> None:
    document = json.loads(await exported(proven, prov.export_prov))
    assert document["@context"]["wasQuotedFrom"] == {"@id": "prov:wasQuotedFrom", "@type": "@id"}
    by_id = {each["@id"]: each for each in document["@graph"]}
    assert len(by_id) == len(document["@graph"]) == 1 + 5 + 7 + 5 + 2

    def derived(each: str) -> list[str]:
        return [*by_id[each].get("wasDerivedFrom", []), *_listed(by_id[each].get("wasQuotedFrom"))]

    met, waiting = set[str](), [f"urn:uuid:{proven.nodes['Wait']}"]
    while waiting:
        each = waiting.pop()
        if each not in met:
            met.add(each)
            waiting += derived(each)
    pages = {by_id[each]["atLocation"] for each in met if "atLocation" in by_id[each]}
    assert pages == {"https://a.example/ghana", "https://b.example/census"}
    assert "vigil:advice" in by_id[f"urn:uuid:{proven.nodes['Wait']}"]["@type"]
    quotes = {by_id[each].get("value") for each in met}
    assert "Its capital is Accra." in quotes


def _listed(value: str | None) -> list[str]:
    return [] if value is None else [value]


async def test_an_export_is_of_one_moment_whoever_writes_meanwhile(proven: Proven) -> None:
    pieces: list[bytes] = []
    async with proven.world.database.snapshot() as session:
        async for piece in exporter.export_json_lines(GraphContent(session, proven.scope)):
            if len(pieces) == 1:
                later = FETCHED + timedelta(days=900)
                claims = {"population": 1}
                await proven.says(
                    "https://a.example/togo", "Togo has 9", "Togo", claims, valid_from=later
                )
            pieces.append(piece)
    scope = await imported(proven, b"".join(pieces))
    async with proven.world.database.snapshot() as session:
        togo = await session.get_one(GraphNode, ids.node_id(scope.agent_id, "Country", "Togo"))
        assert togo.properties["population"] == 9_000_000
        counts = [
            await session.scalar(
                select(func.count()).select_from(table).where(table.agent_id == scope.agent_id)
            )
            for table in (Source, GraphNode, GraphEdge, Evidence)
        ]
    assert counts == [5, 5, 2, 7]
