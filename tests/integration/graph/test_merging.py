"""Two nodes made one: names, evidence, edges and citations, to the last byte."""

import asyncio
from dataclasses import replace

import pytest
from sqlalchemy import select, update

from shared.database.tables import Step
from shared.enums import StepStatus
from shared.graph import context, entity_resolution
from shared.graph.conclusions import citation_index, conclusions
from shared.graph.conclusions.citations import Citation, Kind
from shared.graph.entity_resolution import MergeRefusedError, aliases
from shared.graph.entity_resolution.merge import EDGES, NODES
from shared.graph.entity_resolution.redirects import current_ids
from shared.graph.retrieval import query
from shared.tools import ToolRefusalError
from shared.workflow import leases
from tests.support.committing import SURE
from tests.support.graph.doubled import (
    Doubled,
    assert_sealed,
    merge_nodes,
    rows_of,
    undo_merge,
)
from tests.support.graph.world import World


async def test_the_one_that_is_kept_has_what_both_had(world: World, doubled: Doubled) -> None:
    made = await merge_nodes(world, doubled.kept, doubled.gone)
    node_rows, edge_rows, evidence_rows, name_rows = await rows_of(world)
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
    await assert_sealed(world)


async def test_its_names_lead_to_the_one_that_is_kept(world: World, doubled: Doubled) -> None:
    made = await merge_nodes(world, doubled.kept, doubled.gone)
    assert await world.node("CÔTE D'IVOIRE") == doubled.kept
    await undo_merge(world, made.id)
    assert await world.node("Cote d Ivoire") != doubled.gone
    assert await world.node("Cote dIvoire") == doubled.gone


async def test_what_is_cited_under_a_gone_id_is_found(world: World, doubled: Doubled) -> None:
    made = await merge_nodes(world, doubled.kept, doubled.gone)
    [edge_to_ghana] = [
        row["id"] for row in (await rows_of(world, EDGES))[0] if row["target_id"] == doubled.ghana
    ]
    wanted = [Citation(Kind.NODE, doubled.gone), Citation(Kind.EDGE, doubled.to_ghana)]
    async with world.database.transaction() as session:
        moved = await current_ids(
            session, world.scope, [doubled.gone, doubled.to_ghana, doubled.ghana]
        )
        assert moved == {doubled.gone: doubled.kept, doubled.to_ghana: edge_to_ghana}
        named = await citation_index.load_cited_labels(session, world.scope, wanted)
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
        assert await context.resolve_references(session, world.scope, [str(doubled.gone)]) == (
            [doubled.kept],
            [],
        )
        found = await query.query_graph(session, world.scope, ids=[doubled.gone])
        assert [each["id"] for each in found["nodes"]] == [str(doubled.kept)]
        assert "Ivory Coast" in await context.describe_nodes(session, world.scope, [doubled.gone])
    assert await world.edge(doubled.gone, doubled.ghana) == edge_to_ghana
    await undo_merge(world, made.id)
    async with world.database.transaction() as session:
        named = await citation_index.load_cited_labels(session, world.scope, wanted)
        assert [named[each].name for each in wanted] == ["Côte d’Ivoire", "Côte d’Ivoire → Ghana"]
        assert (await session.scalar(select(NODES.c.id).where(NODES.c.id == analysis))) == analysis


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
        (ghana, ghana, "both ids refer to 'Ghana'"),
        (ghana, volta, "'Ghana' is a Country and 'Volta' a River"),
        (ghana, analysis, "cannot be merged"),
        (analysis, ghana, "cannot be merged"),
    ):
        with pytest.raises(MergeRefusedError, match=why):
            await merge_nodes(world, kept, gone)
    async with world.database.transaction() as session:
        for kept, gone in ((ghana, theirs), (theirs, ghana)):
            made = await entity_resolution.merge_nodes(
                session,
                world.scope,
                kept_id=kept,
                merged_id=gone,
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
            made = await merge_nodes(world, doubled.kept, doubled.gone)
            await undo_merge(world, made.id)

    await asyncio.gather(merge_and_undo(), *(write(number) for number in range(6)))
    await merge_nodes(world, doubled.kept, doubled.gone)
    await assert_sealed(world)
    async with world.database.transaction() as session:
        told = await aliases.list_names(session, world.scope, doubled.kept)
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
        made = await merge_nodes(world, kept, gone)
        await undo_merge(world, made.id)
        await aliases.resolve_and_reserve(
            session, made_by.scope, [aliases.NameRequest("Country", "Togo")]
        )
        await session.rollback()
