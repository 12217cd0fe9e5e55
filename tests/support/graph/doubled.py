"""One country under two names, and making them one and two again, for tests of merging."""

from datetime import timedelta
from typing import Any
from uuid import UUID

from sqlalchemy import Table, select

from shared.database import ids
from shared.database.tables import GraphMerge
from shared.graph import entity_resolution
from shared.graph.entity_resolution.merge import EDGES, EVIDENCE, NAMES, NODES
from shared.graph.provenance import integrity
from tests.support.graph.said import LEARNED, said
from tests.support.graph.world import World

LATER = LEARNED + timedelta(days=30)


async def merge_nodes(world: World, kept: UUID, gone: UUID) -> GraphMerge:
    async with world.database.transaction() as session:
        made = await entity_resolution.merge_nodes(
            session,
            world.scope,
            kept_id=kept,
            merged_id=gone,
            reason="One country under two names.",
            made_by=world.scope.owner_id,
        )
    assert made is not None
    return made


async def undo_merge(world: World, merge_id: UUID) -> GraphMerge:
    async with world.database.transaction() as session:
        undone = await entity_resolution.undo_merge(session, world.scope, merge_id)
    assert undone is not None
    return undone


async def rows_of(world: World, *tables: Table) -> list[list[dict[str, Any]]]:
    """All rows of the graph, as they stand."""
    async with world.database.transaction() as session:
        found = []
        for table in tables or (NODES, EDGES, EVIDENCE, NAMES):
            rows = await session.execute(select(table).order_by(*table.primary_key))
            found.append([dict(row) for row in rows.mappings()])
        return found


async def assert_sealed(world: World) -> None:
    """Every node, edge and evidence is sealed as it stands, and its id follows from what it is."""
    node_rows, edge_rows, evidence_rows, _ = await rows_of(world)
    for node in node_rows:
        of = [each["id"] for each in evidence_rows if each["node_id"] == node["id"]]
        assert not of or node["seal"] == integrity.node_seal(
            node_id=node["id"],
            agent_id=node["agent_id"],
            type_name=node["type"],
            name=node["name"],
            properties=node["properties"],
            evidence=of,
        )
    for edge in edge_rows:
        ends = (edge["source_id"], edge["target_id"])
        assert edge["id"] == ids.edge_id(edge["agent_id"], edge["type"], *ends)
        of = [each["id"] for each in evidence_rows if each["edge_id"] == edge["id"]]
        assert not of or edge["seal"] == integrity.edge_seal(
            edge_id=edge["id"],
            agent_id=edge["agent_id"],
            type_name=edge["type"],
            source_id=ends[0],
            target_id=ends[1],
            properties=edge["properties"],
            evidence=of,
        )
    for each in evidence_rows:
        thing = each["node_id"] or each["edge_id"]
        says = integrity.canonical_json([each["claims"], each["valid_from"], each["valid_to"]])
        span = (each["first_byte"], each["end_byte"])
        assert each["id"] == ids.evidence_id(thing, each["source_id"], *span, says)
        told = {
            key: each[key]
            for key in each
            if key not in ("id", "seal", "node_id", "edge_id", "step_id")
        }
        assert each["seal"] == integrity.evidence_seal(
            evidence_id=each["id"], element_id=thing, **told
        )


class Doubled:
    """Ivory Coast under two names, each with evidence, and edges to and from both."""

    def __init__(self, world: World) -> None:
        self.world = world

    async def fill(self) -> "Doubled":
        world = self.world
        self.kept = await world.node("Ivory Coast", capital="Abidjan")
        self.gone = await world.node("Côte d’Ivoire", population=1)
        self.ghana = await world.node("Ghana")
        self.mali = await world.node("Mali")
        await said(world, "https://a", "Its capital is Abidjan.", node=self.kept, capital="Abidjan")
        await said(
            world,
            "https://b",
            "Yamoussoukro has been the capital since.",
            node=self.gone,
            at=LATER,
            capital="Yamoussoukro",
        )
        await said(world, "https://c", "Both say so.", node=self.kept, summary="A republic.")
        await said(world, "https://c", "Both say so.", node=self.gone, summary="A republic.")
        self.to_ghana = await world.edge(self.gone, self.ghana)
        self.both_to_mali = await world.edge(self.kept, self.mali)
        self.to_mali = await world.edge(self.gone, self.mali)
        self.from_mali = await world.edge(self.mali, self.gone)
        self.between = await world.edge(self.gone, self.kept)
        await said(world, "https://d", "They border on Ghana.", edge=self.to_ghana, km=720)
        await said(world, "https://e", "They border on Mali.", edge=self.to_mali, km=599)
        await said(world, "https://f", "It borders on Mali.", edge=self.both_to_mali, since=1960)
        await said(world, "https://g", "One and the other.", edge=self.between, km=1)
        return self
