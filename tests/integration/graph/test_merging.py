"""Two nodes made one and two again: names, evidence, edges and citations, to the last byte."""

import asyncio
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any
from uuid import UUID

import pytest
from sqlalchemy import Table, select, update

from shared.graph import cited, conclusions, context, merging, names, query
from shared.graph.citations import Citation, Kind
from shared.graph.merging import MergeRefusedError
from shared.graph.merging.rows import EDGES, EVIDENCE, NAMES, NODES
from shared.graph.moves import current_ids
from shared.graph.proof import seals
from shared.store import ids, leases
from shared.store.tables import GraphMerge, Step
from shared.store.words import StepStatus
from shared.tools import ToolRefusalError
from tests.committing import SURE
from tests.integration.graph.said import LEARNED, said
from tests.integration.graph.world import World

LATER = LEARNED + timedelta(days=30)


async def _merge(world: World, kept: UUID, gone: UUID) -> GraphMerge:
    async with world.database.transaction() as session:
        made = await merging.merge(
            session,
            world.scope,
            kept_id=kept,
            gone_id=gone,
            reason="One country under two names.",
            made_by=world.scope.owner_id,
        )
    assert made is not None
    return made


async def _undo(world: World, merge_id: UUID) -> GraphMerge:
    async with world.database.transaction() as session:
        undone = await merging.undo(session, world.scope, merge_id)
    assert undone is not None
    return undone


async def _rows(world: World, *tables: Table) -> list[list[dict[str, Any]]]:
    """All rows of the graph, as they stand."""
    async with world.database.transaction() as session:
        found = []
        for table in tables or (NODES, EDGES, EVIDENCE, NAMES):
            rows = await session.execute(select(table).order_by(*table.primary_key))
            found.append([dict(row) for row in rows.mappings()])
        return found


async def _sealed(world: World) -> None:
    """Every node, edge and evidence is sealed as it stands, and its id follows from what it is."""
    node_rows, edge_rows, evidence_rows, _ = await _rows(world)
    for node in node_rows:
        of = [each["id"] for each in evidence_rows if each["node_id"] == node["id"]]
        assert not of or node["seal"] == seals.of_node(
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
        assert not of or edge["seal"] == seals.of_edge(
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
        says = seals.canonical([each["claims"], each["valid_from"], each["valid_to"]])
        span = (each["first_byte"], each["end_byte"])
        assert each["id"] == ids.evidence_id(thing, each["source_id"], *span, says)
        told = {
            key: each[key]
            for key in each
            if key not in ("id", "seal", "node_id", "edge_id", "step_id")
        }
        assert each["seal"] == seals.of_evidence(evidence_id=each["id"], thing_id=thing, **told)


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


@pytest.fixture
async def doubled(world: World) -> Doubled:
    return await Doubled(world).fill()


async def test_the_one_that_is_kept_has_what_both_had(world: World, doubled: Doubled) -> None:
    made = await _merge(world, doubled.kept, doubled.gone)
    node_rows, edge_rows, evidence_rows, name_rows = await _rows(world)
    by_id = {row["id"]: row for row in node_rows}
    assert doubled.gone not in by_id
    assert by_id[doubled.kept]["properties"] == {
        "summary": "A republic.",
        "capital": "Yamoussoukro",
        "population": 1,
    }
    edges = {(row["source_id"], row["target_id"]): row["properties"] for row in edge_rows}
    assert edges == {
        (doubled.kept, doubled.ghana): {"km": 720},
        (doubled.kept, doubled.mali): {"km": 599, "since": 1960},
        (doubled.mali, doubled.kept): {},
    }
    of_kept = [row for row in evidence_rows if row["node_id"] == doubled.kept]
    assert len(of_kept) == 2 + 3, (
        "what each was written on; what both pages said alike is there once"
    )
    assert {row["node_id"] for row in name_rows if "ivo" in row["key"]} == {doubled.kept}
    assert made.undone_at is None
    await _sealed(world)


async def test_undone_at_once_all_is_as_it_was(world: World, doubled: Doubled) -> None:
    before = await _rows(world)
    made = await _merge(world, doubled.kept, doubled.gone)
    undone = await _undo(world, made.id)
    assert undone.undone_at is not None
    assert await _rows(world) == before
    again = await _undo(world, made.id)
    assert again.undone_at == undone.undone_at
    second = await _merge(world, doubled.kept, doubled.gone)
    await _undo(world, second.id)
    assert await _rows(world) == before


async def test_its_names_lead_to_the_one_that_is_kept(world: World, doubled: Doubled) -> None:
    made = await _merge(world, doubled.kept, doubled.gone)
    assert await world.node("CÔTE D'IVOIRE") == doubled.kept
    await _undo(world, made.id)
    assert await world.node("Cote d Ivoire") != doubled.gone
    assert await world.node("Cote dIvoire") == doubled.gone


async def test_what_is_cited_under_a_gone_id_is_found(world: World, doubled: Doubled) -> None:
    made = await _merge(world, doubled.kept, doubled.gone)
    [edge_to_ghana] = [
        row["id"] for row in (await _rows(world, EDGES))[0] if row["target_id"] == doubled.ghana
    ]
    wanted = [Citation(Kind.NODE, doubled.gone), Citation(Kind.EDGE, doubled.to_ghana)]
    async with world.database.transaction() as session:
        moved = await current_ids(
            session, world.scope, [doubled.gone, doubled.to_ghana, doubled.ghana]
        )
        assert moved == {doubled.gone: doubled.kept, doubled.to_ghana: edge_to_ghana}
        named = await cited.named(session, world.scope, wanted)
        assert [named[each].name for each in wanted] == ["Ivory Coast", "Ivory Coast → Ghana"]
        analysis = await conclusions.add_analysis(
            session,
            world.scope,
            name="Neighbours",
            kind="observation",
            summary="They are neighbours.",
            content=f"It borders on Ghana {wanted[0]} {wanted[1]}.",
            **SURE,
        )
        assert await context.resolve(session, world.scope, [str(doubled.gone)]) == (
            [doubled.kept],
            [],
        )
        found = await query.query(session, world.scope, ids=[doubled.gone])
        assert [each["id"] for each in found["nodes"]] == [str(doubled.kept)]
        assert "Ivory Coast" in await context.describe_nodes(session, world.scope, [doubled.gone])
    assert await world.edge(doubled.gone, doubled.ghana) == edge_to_ghana
    await _undo(world, made.id)
    async with world.database.transaction() as session:
        named = await cited.named(session, world.scope, wanted)
        assert [named[each].name for each in wanted] == ["Côte d’Ivoire", "Côte d’Ivoire → Ghana"]
        assert (await session.scalar(select(NODES.c.id).where(NODES.c.id == analysis))) == analysis


async def test_what_cites_an_edge_of_the_merge_is_led_back_with_it(
    world: World, doubled: Doubled
) -> None:
    made = await _merge(world, doubled.kept, doubled.gone)
    merged = ids.edge_id(world.scope.agent_id, "borders", doubled.kept, doubled.ghana)
    await _undo(world, made.id)
    async with world.database.transaction() as session:
        assert await current_ids(session, world.scope, [merged]) == {merged: doubled.to_ghana}
    assert await world.edge(doubled.kept, doubled.ghana) == merged
    async with world.database.transaction() as session:
        assert await current_ids(session, world.scope, [merged]) == {}
    await _merge(world, doubled.kept, doubled.gone)
    async with world.database.transaction() as session:
        assert await current_ids(session, world.scope, [doubled.to_ghana]) == {
            doubled.to_ghana: merged
        }
    await _sealed(world)


async def test_what_was_learned_since_stays_with_the_one_that_was_kept(
    world: World, doubled: Doubled
) -> None:
    made = await _merge(world, doubled.kept, doubled.gone)
    merged = ids.edge_id(world.scope.agent_id, "borders", doubled.kept, doubled.ghana)
    await said(world, "https://x", "There are 32 million.", node=doubled.kept, population=32)
    await said(world, "https://y", "It was drawn in 1893.", edge=merged, since=1893)
    togo = await world.node("Togo")
    new = await world.edge(doubled.kept, togo)
    await _undo(world, made.id)
    node_rows, edge_rows, _, _ = await _rows(world)
    by_id = {row["id"]: row["properties"] for row in [*node_rows, *edge_rows]}
    assert by_id[doubled.kept] == {"summary": "A republic.", "capital": "Abidjan", "population": 32}
    assert by_id[doubled.gone]["population"] == 1
    assert by_id[merged] == {"since": 1893}
    assert by_id[doubled.to_ghana] == {"km": 720}
    assert new in by_id
    await _sealed(world)


async def test_merges_that_build_on_each_other_are_undone_in_reverse(
    world: World, doubled: Doubled
) -> None:
    before = await _rows(world)
    first = await _merge(world, doubled.kept, doubled.gone)
    second = await _merge(world, doubled.ghana, doubled.kept)
    async with world.database.transaction() as session:
        moved = await current_ids(session, world.scope, [doubled.gone])
    assert moved == {doubled.gone: doubled.ghana}
    with pytest.raises(MergeRefusedError, match=f"merge {second.id}, by which 'Ivory Coast' went"):
        await _undo(world, first.id)
    await _undo(world, second.id)
    await _undo(world, first.id)
    assert await _rows(world) == before


async def test_merges_that_do_not_may_be_undone_in_any_order(
    world: World, doubled: Doubled
) -> None:
    one, other = await world.node("Chad"), await world.node("Tchad")
    before = await _rows(world)
    first = await _merge(world, doubled.kept, doubled.gone)
    second = await _merge(world, one, other)
    await _undo(world, first.id)
    await _undo(world, second.id)
    assert await _rows(world) == before


async def test_a_page_that_is_retracted_meanwhile_stays_retracted(
    world: World, doubled: Doubled
) -> None:
    made = await _merge(world, doubled.kept, doubled.gone)
    from shared.store.tables import Source

    async with world.database.transaction() as session:
        at_b = update(Source).where(Source.url == "https://b")
        await session.execute(at_b.values(retracted_at=datetime.now(UTC)))
    await _undo(world, made.id)
    node_rows, _, _, _ = await _rows(world)
    gone = next(row for row in node_rows if row["id"] == doubled.gone)
    assert "capital" not in gone["properties"]
    await _sealed(world)


async def test_what_cannot_be_one_is_refused(world: World, stranger: World) -> None:
    await world.node_type("River")
    ghana, volta = await world.node("Ghana"), await world.node("Volta", "River")
    theirs = await stranger.node("Togo")
    async with world.database.transaction() as session:
        analysis = await conclusions.add_analysis(
            session,
            world.scope,
            name="A",
            kind="observation",
            summary="s",
            content=f"[node:{ghana}]",
            **SURE,
        )
    for kept, gone, why in (
        (ghana, ghana, "'Ghana' is one node already"),
        (ghana, volta, "'Ghana' is a Country and 'Volta' a River"),
        (ghana, analysis, "never merged"),
        (analysis, ghana, "never merged"),
    ):
        with pytest.raises(MergeRefusedError, match=why):
            await _merge(world, kept, gone)
    async with world.database.transaction() as session:
        for kept, gone in ((ghana, theirs), (theirs, ghana)):
            made = await merging.merge(
                session,
                world.scope,
                kept_id=kept,
                gone_id=gone,
                reason="x",
                made_by=world.scope.owner_id,
            )
            assert made is None


async def test_a_merge_beside_writers_loses_nothing_and_holds_up_nobody(
    world: World, doubled: Doubled
) -> None:
    async def write(number: int) -> None:
        for turn in range(4):
            spelled = ("Ivory Coast", "Côte d'Ivoire")[(number + turn) % 2]
            node_id = await world.node(spelled, population=number)
            try:
                await world.edge(node_id, doubled.ghana)
                await world.edge(doubled.mali, node_id)
            except ToolRefusalError:  # undone between the two: what it had is a node again
                pytest.fail("an id that nodes.add gave leads nowhere")

    async def merge_and_undo() -> None:
        for _ in range(4):
            made = await _merge(world, doubled.kept, doubled.gone)
            await _undo(world, made.id)

    await asyncio.gather(merge_and_undo(), *(write(number) for number in range(6)))
    await _merge(world, doubled.kept, doubled.gone)
    await _sealed(world)
    async with world.database.transaction() as session:
        told = await names.of_node(session, world.scope, doubled.kept)
    assert told == ["Ivory Coast", "Côte d’Ivoire"]


async def test_what_a_running_step_has_made_is_merged_while_it_writes_on(world: World) -> None:
    """The step's own transaction holds its row, and would wait for the merge where that waited for it."""
    await world.iteration(1, queries=["Who is who?"])
    async with world.database.transaction() as session:
        await session.execute(update(Step).values(status=StepStatus.PENDING))
        step = (await session.scalars(select(Step))).one()
        claimed = await leases.claim(session, step.id, "worker")
    assert isinstance(claimed, leases.Claimed)
    made_by = replace(world, scope=replace(world.scope, step_id=step.id))
    kept, gone = await made_by.node("Ivory Coast"), await made_by.node("Côte d’Ivoire")
    ghana = await made_by.node("Ghana")
    await made_by.edge(gone, ghana)
    async with (
        asyncio.timeout(20),
        leases.leased_transaction(world.database, claimed.lease) as session,
    ):
        made = await _merge(world, kept, gone)
        await _undo(world, made.id)
        await names.settle(session, made_by.scope, [names.Called("Country", "Togo")])
        await session.rollback()
