"""Which conclusions are in doubt, after retractions, merges and contradicted evidence, and what resolves a doubt."""

import asyncio
from collections.abc import Awaitable, Callable, Collection
from functools import partial
from typing import Final
from uuid import UUID

import pytest
from sqlalchemy import func, select, text, update

from shared.database import ids
from shared.database.engine import Database
from shared.database.statements import Batch
from shared.database.tables import Doubt, EntailmentVerdict, Evidence
from shared.database.transaction import Transaction
from shared.database.unit_of_work import UnitOfWork
from shared.enums import ANALYSIS_TYPE, Entailment, StepKind
from shared.graph import entity_resolution
from shared.graph.context import build_survey, recent
from shared.graph.projection import NODES, load_claims
from shared.graph.retraction import doubts
from shared.graph.retraction.propagation import resolve_doubts
from shared.graph.tools import analysis_generation
from shared.graph.verification.report import verify_conclusion
from shared.llm.toolset import prepare_state_calls
from tests.support.fences import EVERYONE
from tests.support.forecast_terms import ANALYSIS_TERMS
from tests.support.graph.agent_graph import AgentGraph
from tests.support.graph.answers import calls_of
from tests.support.graph.duplicates import merge_nodes, undo_merge
from tests.support.graph.evidence_rows import store_verdict
from tests.support.graph.retraction_graph import RetractionGraph
from tests.support.graph.verification import check_all
from tests.support.lock_probe import has_lock_waiter
from tests.support.marks import slow
from tests.support.waiting import wait_until

OLD, NEW, OTHER = (f"https://{name}.example/page" for name in ("old", "new", "other"))

ACCRA: Final = {"capital": "Accra"}

KUMASI: Final = {"capital": "Kumasi"}

LATER: Final = 20_000
"""A day after every retraction of these tests."""

MANY: Final = [2_500, *slow(16_500)]
"""More than a batch has; with four arguments each, the slow case exceeds the parameter limit of one statement."""

_INSERT_CONCLUSIONS: Final = text(
    "with made as (insert into graph_nodes (id, agent_id, type, name, properties)"
    " select gen_random_uuid(), :agent, :type, 'No. ' || number, '{}' from generate_series(1, :many) number"
    " returning id) insert into citations (conclusion_id, cited_id) select id, :cited from made"
)


async def test_a_later_retraction_doubts_only_conclusions_that_used_its_source(
    retraction_graph: RetractionGraph,
) -> None:
    ghana = await retraction_graph.node("Ghana", {OLD: ACCRA})
    await retraction_graph.retract(OLD)
    await retraction_graph.says(NEW, KUMASI, node_id=ghana, day=LATER)
    await retraction_graph.says(OTHER, {"population": 3}, node_id=ghana)
    analysis = await retraction_graph.analysis("Since", f"[node:{ghana}]")
    before = await retraction_graph.state()
    retraction_id = await retraction_graph.retract(OTHER)
    other = await retraction_graph.source_id(OTHER)
    assert (await retraction_graph.state()).doubted == {(analysis, ghana, other)}
    await retraction_graph.restore(retraction_id)
    assert await retraction_graph.state() == before


async def test_a_resolved_doubt_reopens_when_the_supporting_source_is_retracted(
    retraction_graph: RetractionGraph,
) -> None:
    """This includes conclusions made between the retraction and its propagation."""
    ghana = await retraction_graph.node("Ghana", {OLD: ACCRA})
    retraction_id = await retraction_graph.ask_retract(OLD)
    analysis = await retraction_graph.analysis("On it", f"[node:{ghana}]")
    await retraction_graph.work_off()
    old = await retraction_graph.source_id(OLD)
    assert (await retraction_graph.state()).doubted == {(analysis, ghana, old)}
    await retraction_graph.says(NEW, ACCRA, node_id=ghana)
    await retraction_graph.resolve_doubts()
    assert await retraction_graph.doubted() == set()
    await retraction_graph.retract(NEW)
    assert (analysis, ghana, old) in (await retraction_graph.state()).doubted
    await retraction_graph.restore(retraction_id)
    assert await retraction_graph.doubted() == set()


@pytest.mark.parametrize("many", MANY)
async def test_very_many_doubts_are_opened_and_resolved_at_once(
    retraction_graph: RetractionGraph, many: int
) -> None:
    ghana = await retraction_graph.node("Ghana", {OLD: ACCRA})
    params = {
        "agent": retraction_graph.agent_graph.scope.agent_id,
        "type": ANALYSIS_TYPE,
        "cited": ghana,
    }
    async with retraction_graph.agent_graph.database.transaction() as session:
        await session.execute(_INSERT_CONCLUSIONS, {**params, "many": many})
    await retraction_graph.retract(OLD)
    assert await _count_open_doubts(retraction_graph.agent_graph.database) == many
    await retraction_graph.says(NEW, ACCRA, node_id=ghana)
    await retraction_graph.resolve_doubts()
    assert await _count_open_doubts(retraction_graph.agent_graph.database) == 0
    titles = [notice.title for notice in await retraction_graph.notices()]
    assert [title.partition(":")[0] for title in titles] == ["In doubt", "No longer in doubt"]
    assert all(f" {many} " in title for title in titles)


async def _count_open_doubts(database: Database) -> int:
    async with database.transaction() as session:
        statement = select(func.count()).select_from(Doubt).where(Doubt.resolved_at.is_(None))
        return (await session.scalars(statement)).one()


async def _close(element_id: UUID, source_id: UUID, session: Transaction) -> None:
    await doubts.close_doubts(session, [source_id])


async def _resolve(element_id: UUID, source_id: UUID, session: Transaction) -> None:
    await doubts.resolve_doubts(session, await load_claims(session, NODES, [element_id]))


@pytest.mark.parametrize("change", [_close, _resolve])
async def test_doubts_are_locked_in_id_order(
    retraction_graph: RetractionGraph, change: Callable[[UUID, UUID, Transaction], Awaitable[None]]
) -> None:
    database = retraction_graph.agent_graph.database
    ghana = await retraction_graph.node("Ghana", {OLD: ACCRA})
    analyses = [
        await retraction_graph.analysis(name, f"[node:{ghana}]") for name in ("One", "Other")
    ]
    source_id = await retraction_graph.source_id(OLD)
    low, high = await _insert_doubts_in_reverse(database, analyses, ghana, source_id)
    async with database.transaction() as session:
        await session.execute(select(Doubt.id).where(Doubt.id == low).with_for_update())
        task = asyncio.create_task(_run_in_transaction(database, partial(change, ghana, source_id)))
        await wait_until(
            partial(has_lock_waiter, database), what="the task to wait for the first doubt"
        )
        await session.execute(select(Doubt.id).where(Doubt.id == high).with_for_update(nowait=True))
    await task


async def _run_in_transaction(
    database: Database, change: Callable[[Transaction], Awaitable[None]]
) -> None:
    async with database.transaction() as session:
        await change(session)


async def _insert_doubts_in_reverse(
    database: Database, conclusions: Collection[UUID], element_id: UUID, source_id: UUID
) -> tuple[UUID, UUID]:
    """Insert two doubts, the higher id first, and return their ids, the lower first."""
    by_id = {
        ids.doubt_id(conclusion_id, element_id, source_id): conclusion_id
        for conclusion_id in conclusions
    }
    low, high = sorted(by_id)
    for doubt_id in (high, low):
        row = {"conclusion_id": by_id[doubt_id], "element_id": element_id, "source_id": source_id}
        async with database.transaction() as session:
            await session.insert(Doubt, id=doubt_id, **row)
    return low, high


async def _open_since(retraction_graph: RetractionGraph) -> list[object]:
    async with retraction_graph.agent_graph.database.transaction() as session:
        statement = select(Doubt.since).where(Doubt.resolved_at.is_(None)).order_by(Doubt.id)
        return list(await session.scalars(statement))


async def test_a_merge_while_doubts_are_evaluated_keeps_the_doubt(
    retraction_graph: RetractionGraph,
) -> None:
    agent_graph = retraction_graph.agent_graph
    kept_id = await retraction_graph.node("Ghana", {OTHER: {"population": 3}})
    merged_id = await retraction_graph.node("The Ghana", {OLD: ACCRA})
    analysis = await retraction_graph.analysis("On it", f"[node:{merged_id}]")
    await retraction_graph.retract(OLD)
    await retraction_graph.says(OTHER, {"population": 3}, node_id=merged_id)
    async with agent_graph.database.transaction() as session:
        await entity_resolution.merge_nodes(
            session,
            agent_graph.scope,
            kept_id=kept_id,
            merged_id=merged_id,
            reason="One.",
            made_by=agent_graph.scope.owner_id,
        )
        task = asyncio.create_task(retraction_graph.resolve_doubts())
        await wait_until(
            partial(has_lock_waiter, agent_graph.database), what="the task to wait for the merge"
        )
    await task
    assert await retraction_graph.doubted() == {analysis}
    assert len(await retraction_graph.notices()) == 1


async def test_a_merge_moves_doubts_and_its_undo_moves_them_back(
    retraction_graph: RetractionGraph,
) -> None:
    kept_id = await retraction_graph.node("Ghana", {OTHER: {"population": 3}})
    merged_id = await retraction_graph.node("The Ghana", {OLD: ACCRA})
    togo = await retraction_graph.node("Togo", {OTHER: {}})
    edge = await retraction_graph.edge(merged_id, togo, OLD)
    await retraction_graph.analysis("On the node", f"[node:{merged_id}]")
    await retraction_graph.analysis("On the edge", f"[edge:{edge}]")
    await retraction_graph.retract(OLD)
    before, since = await retraction_graph.state(), await _open_since(retraction_graph)
    merge = await merge_nodes(retraction_graph.agent_graph, kept_id, merged_id)
    await retraction_graph.resolve_doubts()
    after = await retraction_graph.state()
    assert {(conclusion, source) for conclusion, _, source in after.doubted} == {
        (conclusion, source) for conclusion, _, source in before.doubted
    }
    assert not {element for _, element, _ in after.doubted} & {merged_id, edge}
    assert sorted(map(str, await _open_since(retraction_graph))) == sorted(map(str, since))
    await undo_merge(retraction_graph.agent_graph, merge.id)
    await retraction_graph.resolve_doubts()
    assert await retraction_graph.state() == before
    assert await _open_since(retraction_graph) == since
    assert len(await retraction_graph.notices()) == 1


async def test_evidence_for_the_kept_node_resolves_doubts_of_the_merged_node(
    retraction_graph: RetractionGraph,
) -> None:
    kept_id = await retraction_graph.node("Ghana", {OTHER: {"population": 3}})
    merged_id = await retraction_graph.node("The Ghana", {OLD: ACCRA})
    analysis = await retraction_graph.analysis("On it", f"[node:{merged_id}]")
    await retraction_graph.retract(OLD)
    merge = await merge_nodes(retraction_graph.agent_graph, kept_id, merged_id)
    await retraction_graph.says(NEW, ACCRA, node_id=kept_id)
    await retraction_graph.resolve_doubts()
    assert await retraction_graph.doubted() == set()
    assert len(await retraction_graph.notices()) == 2
    # The new evidence stays with the kept node.
    await undo_merge(retraction_graph.agent_graph, merge.id)
    await retraction_graph.resolve_doubts()
    assert {
        (conclusion, element) for conclusion, element, _ in (await retraction_graph.state()).doubted
    } == {(analysis, merged_id)}


async def test_undoing_a_merge_reopens_the_doubts_that_it_resolved(
    retraction_graph: RetractionGraph,
) -> None:
    kept_id = await retraction_graph.node("Ghana", {OLD: ACCRA})
    merged_id = await retraction_graph.node("The Ghana", {NEW: ACCRA})
    analysis = await retraction_graph.analysis("On it", f"[node:{kept_id}]")
    await retraction_graph.retract(OLD)
    before = await retraction_graph.state()
    merge = await merge_nodes(retraction_graph.agent_graph, kept_id, merged_id)
    assert await retraction_graph.doubted() == {analysis}
    await retraction_graph.resolve_doubts()
    assert await retraction_graph.doubted() == set()
    await undo_merge(retraction_graph.agent_graph, merge.id)
    assert await retraction_graph.state() == before
    await retraction_graph.resolve_doubts()
    assert await retraction_graph.state() == before


async def test_undoing_a_merge_doubts_what_only_the_merge_supported(
    retraction_graph: RetractionGraph,
) -> None:
    kept_id = await retraction_graph.node("Ghana", {OLD: ACCRA})
    merged_id = await retraction_graph.node("The Ghana", {NEW: ACCRA})
    merge = await merge_nodes(retraction_graph.agent_graph, kept_id, merged_id)
    await retraction_graph.retract(OLD)
    analysis = await retraction_graph.analysis("After the retraction", f"[node:{kept_id}]")
    assert await retraction_graph.doubted() == set()
    await undo_merge(retraction_graph.agent_graph, merge.id)
    assert await retraction_graph.doubted() == {analysis}
    await merge_nodes(retraction_graph.agent_graph, kept_id, merged_id)
    await retraction_graph.resolve_doubts()
    assert await retraction_graph.doubted() == set()


async def test_doubts_of_edges_that_became_one_return_to_the_cited_one(
    retraction_graph: RetractionGraph,
) -> None:
    kept_id = await retraction_graph.node("Ghana", {OTHER: {"population": 3}})
    merged_id = await retraction_graph.node("The Ghana", {NEW: {"population": 3}})
    edges = [
        await retraction_graph.edge(merged_id, kept_id, OLD),
        await retraction_graph.edge(kept_id, merged_id, OLD),
    ]
    early = [
        await retraction_graph.analysis(f"On the {which}", f"[edge:{edge}]")
        for which, edge in zip(("one", "other"), edges, strict=True)
    ]
    merge = await merge_nodes(retraction_graph.agent_graph, kept_id, merged_id)
    await retraction_graph.ask_retract(OLD)
    late = [
        await retraction_graph.analysis(f"On the {which} again", f"[edge:{edge}]")
        for which, edge in zip(("one", "other"), edges, strict=True)
    ]
    await retraction_graph.work_off()
    merged = await retraction_graph.state()
    assert len({element for _, element, _ in merged.doubted}) == 1
    assert await retraction_graph.doubted() == {*early, *late}
    await undo_merge(retraction_graph.agent_graph, merge.id)
    undone = await retraction_graph.state()
    assert {(conclusion, element) for conclusion, element, _ in undone.doubted} == {
        *zip(early, edges, strict=True),
        *zip(late, edges, strict=True),
    }
    await retraction_graph.resolve_doubts()
    assert await retraction_graph.state() == undone


async def _notice_titles(retraction_graph: RetractionGraph) -> list[str]:
    return sorted(notice.title for notice in await retraction_graph.notices())


async def test_renewed_support_resolves_doubts_and_notifies_the_owner_once(
    retraction_graph: RetractionGraph,
) -> None:
    ghana = await retraction_graph.node("Ghana", {OLD: ACCRA})
    analysis = await retraction_graph.analysis("On it", f"[node:{ghana}]")
    advice = await retraction_graph.advice("Wait", analysis)
    await retraction_graph.retract(OLD)
    await retraction_graph.resolve_doubts()
    assert await retraction_graph.doubted() == {analysis, advice}
    await retraction_graph.says(NEW, ACCRA, node_id=ghana, day=LATER)
    for _ in range(2):
        await retraction_graph.resolve_doubts()
    assert await retraction_graph.doubted() == set()
    assert await _notice_titles(retraction_graph) == [
        "In doubt: 1 analysis and 1 piece of advice of watcher",
        "No longer in doubt: 1 analysis and 1 piece of advice of watcher",
    ]
    resolved = next(
        notice for notice in await retraction_graph.notices() if "No longer" in notice.title
    )
    outdated = next(
        notice for notice in await retraction_graph.notices() if "No longer" not in notice.title
    )
    # What the earlier notice says is no longer so.
    assert outdated.resolved_at is not None
    assert outdated.read_at is not None
    assert resolved.resolved_at is None
    assert resolved.read_at is None
    for word in (f"[node:{analysis}]", f"[node:{advice}]"):
        assert word in resolved.summary


async def test_renewed_support_of_an_edge_resolves_doubts(
    retraction_graph: RetractionGraph,
) -> None:
    ghana = await retraction_graph.node("Ghana", {NEW: ACCRA})
    togo = await retraction_graph.node("Togo", {NEW: {}})
    border = await retraction_graph.edge(ghana, togo, OLD)
    analysis = await retraction_graph.analysis("On it", f"[edge:{border}]")
    await retraction_graph.retract(OLD)
    assert await retraction_graph.doubted() == {analysis}
    await retraction_graph.says(OTHER, {}, edge_id=border)
    await retraction_graph.resolve_doubts()
    assert await retraction_graph.doubted() == set()


async def test_a_contradicting_page_does_not_resolve_the_doubt(
    retraction_graph: RetractionGraph,
) -> None:
    """The analysis relied on Accra, which no other page supports."""
    ghana = await retraction_graph.node("Ghana", {OLD: ACCRA})
    analysis = await retraction_graph.analysis("On it", f"[node:{ghana}]")
    await retraction_graph.retract(OLD)
    await retraction_graph.says(NEW, {"capital": "Kumasi"}, node_id=ghana, day=LATER)
    await retraction_graph.resolve_doubts()
    assert await retraction_graph.doubted() == {analysis}
    assert (await retraction_graph.get_node(ghana)).properties == {"capital": "Kumasi"}
    # Another retraction causes a full evaluation; the doubt remains.
    await retraction_graph.says(OTHER, {"population": 3}, node_id=ghana)
    await retraction_graph.retract(OTHER)
    assert await retraction_graph.doubted() == {analysis}


async def test_a_value_superseded_before_the_retraction_opens_no_doubt(
    retraction_graph: RetractionGraph,
) -> None:
    ghana = await retraction_graph.node("Ghana", {OLD: ACCRA})
    await retraction_graph.analysis("On it", f"[node:{ghana}]")
    await retraction_graph.says(NEW, {"capital": "Kumasi"}, node_id=ghana, day=1)
    await retraction_graph.retract(OLD)
    assert await retraction_graph.doubted() == set()


async def test_an_evaluated_doubt_is_not_evaluated_again(retraction_graph: RetractionGraph) -> None:
    ghana = await retraction_graph.node("Ghana", {OLD: ACCRA})
    await retraction_graph.analysis("On it", f"[node:{ghana}]")
    await retraction_graph.retract(OLD)
    await retraction_graph.resolve_doubts()
    assert await _evaluation_times(retraction_graph) == [None]
    await retraction_graph.says(NEW, {"capital": "Kumasi"}, node_id=ghana, day=LATER)
    await retraction_graph.resolve_doubts()
    (first,) = await _evaluation_times(retraction_graph)
    await retraction_graph.resolve_doubts()
    assert first is not None
    assert await _evaluation_times(retraction_graph) == [first]


async def _evaluation_times(retraction_graph: RetractionGraph) -> list[object]:
    async with retraction_graph.agent_graph.database.transaction() as session:
        return list((await session.scalars(select(Doubt.evaluated_at))).all())


async def test_the_owner_is_notified_when_the_last_of_two_doubts_is_resolved(
    retraction_graph: RetractionGraph,
) -> None:
    ghana, togo = [
        await retraction_graph.node(name, {OLD: {"name": name}}) for name in ("Ghana", "Togo")
    ]
    analysis = await retraction_graph.analysis("On both", f"[node:{ghana}]", f"[node:{togo}]")
    await retraction_graph.retract(OLD)
    await retraction_graph.says(NEW, {"name": "Ghana"}, node_id=ghana)
    await retraction_graph.resolve_doubts()
    assert await retraction_graph.doubted() == {analysis}
    assert len(await retraction_graph.notices()) == 1
    await retraction_graph.says(NEW, {"name": "Togo"}, node_id=togo)
    await retraction_graph.resolve_doubts()
    assert await retraction_graph.doubted() == set()
    assert len(await retraction_graph.notices()) == 2


async def test_a_conclusion_made_after_the_retraction_is_not_doubted(
    retraction_graph: RetractionGraph,
) -> None:
    ghana = await retraction_graph.node("Ghana", {OLD: ACCRA})
    earlier = await retraction_graph.analysis("Earlier", f"[node:{ghana}]")
    await retraction_graph.retract(OLD)
    await retraction_graph.says(NEW, {"capital": "Kumasi"}, node_id=ghana, day=LATER)
    await retraction_graph.analysis("Since", f"[node:{ghana}]")
    await retraction_graph.resolve_doubts()
    assert await retraction_graph.doubted() == {earlier}


async def test_restoring_after_the_doubts_are_resolved_changes_no_state(
    retraction_graph: RetractionGraph,
) -> None:
    ghana = await retraction_graph.node("Ghana", {OLD: ACCRA})
    await retraction_graph.analysis("On it", f"[node:{ghana}]")
    retraction_id = await retraction_graph.retract(OLD)
    await retraction_graph.says(NEW, ACCRA, node_id=ghana, day=LATER)
    await retraction_graph.resolve_doubts()
    between = await retraction_graph.state()
    await retraction_graph.restore(retraction_id)
    assert (await retraction_graph.state()).doubted == between.doubted == frozenset()
    assert (await retraction_graph.state()).seals == between.seals
    assert len(await retraction_graph.notices()) == 2


async def test_retracting_the_supporting_page_reopens_the_doubt(
    retraction_graph: RetractionGraph,
) -> None:
    ghana = await retraction_graph.node("Ghana", {OLD: ACCRA})
    analysis = await retraction_graph.analysis("On it", f"[node:{ghana}]")
    await retraction_graph.retract(OLD)
    await retraction_graph.says(NEW, ACCRA, node_id=ghana)
    await retraction_graph.resolve_doubts()
    retraction_id = await retraction_graph.retract(NEW)
    await retraction_graph.resolve_doubts()
    assert await retraction_graph.doubted() == {analysis}
    await retraction_graph.restore(retraction_id)
    assert await retraction_graph.doubted() == set()
    assert await _notice_titles(retraction_graph) == [
        *["In doubt: 1 analysis of watcher"] * 2,
        "No longer in doubt: 1 analysis of watcher",
    ]


async def test_a_pending_retraction_is_propagated_before_doubts_are_resolved(
    retraction_graph: RetractionGraph,
) -> None:
    """The owner has not been notified of the doubt yet."""
    ghana = await retraction_graph.node("Ghana", {OLD: ACCRA})
    analysis = await retraction_graph.analysis("On it", f"[node:{ghana}]")
    retraction_id = await retraction_graph.retract(OLD)
    await retraction_graph.ask_restore(retraction_id)
    await retraction_graph.says(NEW, ACCRA, node_id=ghana)
    await retraction_graph.resolve_doubts()
    assert await retraction_graph.doubted() == {analysis}
    await retraction_graph.work_off()
    assert await retraction_graph.doubted() == set()
    assert len(await retraction_graph.notices()) == 1


async def test_only_one_of_two_replicas_sends_the_notice(
    retraction_graph: RetractionGraph, other_replica: Database
) -> None:
    nodes = [await retraction_graph.node(f"Node {number}", {OLD: ACCRA}) for number in range(6)]
    await retraction_graph.analysis("On them", *(f"[node:{node}]" for node in nodes))
    await retraction_graph.retract(OLD)
    for node in nodes:
        await retraction_graph.says(NEW, ACCRA, node_id=node)
    await asyncio.gather(
        retraction_graph.resolve_doubts(at_once=2), resolve_doubts(other_replica, at_once=2)
    )
    assert await retraction_graph.doubted() == set()
    assert len(await retraction_graph.notices()) == 2


PAGE, OTHER = "https://page.example/1", "https://other.example/2"
A_YEAR_LATER: Final = 400
MERGE_SECONDS: Final = 1.0
"""More than a merge takes."""


@pytest.fixture
def graph(agent_graph: AgentGraph) -> RetractionGraph:
    return RetractionGraph(agent_graph)


async def test_conclusions_on_contradicted_evidence_are_doubted(graph: RetractionGraph) -> None:
    ghana, togo = await graph.node("Ghana", {PAGE: ACCRA}), await graph.node("Togo", {})
    border = await graph.edge(ghana, togo, PAGE)
    analysis = await graph.analysis("On Ghana", f"[node:{ghana}]")
    advice = await graph.advice("Wait", analysis)
    on_border = await graph.analysis("On the border", f"[edge:{border}]")
    await graph.contradict(ghana, PAGE, "It says that Kumasi is.")
    page = await graph.source_id(PAGE)
    assert (await graph.state()).doubted == {(analysis, ghana, page), (advice, ghana, page)}
    [notice] = await graph.notices()
    assert "1 analysis and 1 piece of advice" in notice.title
    async with graph.agent_graph.database.transaction() as session:
        found = await doubts.list_doubts(session, [analysis])
    [doubt] = found[analysis]
    assert (doubt.cause, doubt.url, doubt.reason) == (
        "contradicted",
        PAGE,
        "It says that Kumasi is.",
    )

    await graph.contradict(border, PAGE)
    assert on_border in await graph.doubted()
    assert len(await graph.notices()) == 2


async def test_a_later_conclusion_on_contradicted_evidence_is_doubted_too(
    graph: RetractionGraph,
) -> None:
    ghana = await graph.node("Ghana", {PAGE: ACCRA})
    await graph.contradict(ghana, PAGE)
    assert await graph.doubted() == set()
    analysis = await graph.analysis("On Ghana", f"[node:{ghana}]")
    await graph.propagate_refusals()
    assert await graph.doubted() == {analysis}
    mali = await graph.node("Mali", {OTHER: ACCRA})
    await graph.analysis("On Mali", f"[node:{mali}]")
    await graph.propagate_refusals()
    assert await graph.doubted() == {analysis}


async def test_what_another_page_confirms_is_not_doubted(graph: RetractionGraph) -> None:
    ghana = await graph.node("Ghana", {PAGE: ACCRA, OTHER: ACCRA})
    analysis = await graph.analysis("On Ghana", f"[node:{ghana}]")
    await graph.contradict(ghana, PAGE)
    assert await graph.doubted() == set()
    await graph.retract(OTHER)
    assert (analysis, ghana, await graph.source_id(PAGE)) in (await graph.state()).doubted


@pytest.mark.parametrize("value", [ACCRA, KUMASI])
async def test_a_newer_value_of_another_page_lifts_the_doubt(
    graph: RetractionGraph, value: dict[str, str]
) -> None:
    ghana = await graph.node("Ghana", {PAGE: ACCRA})
    analysis = await graph.analysis("On Ghana", f"[node:{ghana}]")
    await graph.contradict(ghana, PAGE)
    assert await graph.doubted() == {analysis}
    await graph.says(OTHER, value, node_id=ghana, day=A_YEAR_LATER)
    await graph.resolve_doubts()
    assert await graph.doubted() == set()


async def test_a_retraction_that_is_undone_leaves_the_doubt(graph: RetractionGraph) -> None:
    ghana = await graph.node("Ghana", {PAGE: ACCRA})
    analysis = await graph.analysis("On Ghana", f"[node:{ghana}]")
    await graph.contradict(ghana, PAGE)
    retraction_id = await graph.retract(PAGE)
    assert await graph.doubted() == {analysis}
    await graph.restore(retraction_id)
    assert await graph.doubted() == {analysis}


@pytest.mark.parametrize("verdict", list(Entailment))
async def test_what_is_not_supported_leaves_a_doubt(
    graph: RetractionGraph, verdict: Entailment
) -> None:
    ghana = await graph.node("Ghana", {PAGE: ACCRA})
    analysis = await graph.analysis("On Ghana", f"[node:{ghana}]")
    async with graph.agent_graph.database.transaction() as session:
        evidence_id = (await session.scalars(select(Evidence.id))).one()
    await store_verdict(graph.agent_graph, evidence_id, verdict, "It reads so.")
    await graph.propagate_refusals()
    async with graph.agent_graph.database.transaction() as session:
        found = await doubts.list_doubts(session, [analysis])
    is_supported = verdict is Entailment.SUPPORTED
    expected = [] if is_supported else [(verdict.value, "It reads so.")]
    assert [(each.cause, each.reason) for each in found.get(analysis, [])] == expected
    assert (await graph.get_node(ghana)).properties == (ACCRA if is_supported else {})


async def test_the_adviser_is_told_which_earlier_analyses_are_in_doubt(
    graph: RetractionGraph,
) -> None:
    ghana = await graph.node("Ghana", {PAGE: ACCRA})
    await graph.analysis("On Ghana", f"[node:{ghana}]")
    await graph.retract(PAGE)
    # It rests on another page.
    togo = await graph.node("Togo", {OTHER: {"population": 3}})
    await graph.analysis("On Togo", f"[node:{togo}]")
    async with graph.agent_graph.database.transaction() as session:
        survey = await build_survey(session, graph.agent_graph.scope, StepKind.ADVISE)
    [of_ghana] = [line for line in survey.splitlines() if "On Ghana" in line]
    [of_togo] = [line for line in survey.splitlines() if "On Togo" in line]
    assert (of_ghana.endswith("(in doubt)"), "doubt" in of_togo) == (True, False)


async def test_a_merge_keeps_verdicts_and_doubts(graph: RetractionGraph) -> None:
    ghana = await graph.node("Ghana", {PAGE: ACCRA})
    twin = await graph.node("Republic of Ghana", {OTHER: {"population": 3}})
    analysis = await graph.analysis("On Ghana", f"[node:{ghana}]")
    await graph.contradict(ghana, PAGE)
    agent_graph = graph.agent_graph
    merge = await merge_nodes(agent_graph, twin, ghana)
    async with agent_graph.database.transaction() as session:
        [evidence_id] = await session.scalars(select(EntailmentVerdict.evidence_id))
        assert (await session.get_one(Evidence, evidence_id)).node_id == twin
    assert await graph.doubted() == {analysis}
    later = await graph.analysis("On the twin", f"[node:{twin}]")
    await graph.propagate_refusals()
    assert await graph.doubted() == {analysis, later}
    await undo_merge(agent_graph, merge.id)
    async with agent_graph.database.transaction() as session:
        [evidence_id] = await session.scalars(select(EntailmentVerdict.evidence_id))
        assert (await session.get_one(Evidence, evidence_id)).node_id == ghana
    assert analysis in await graph.doubted()


async def test_a_later_conclusion_that_cites_the_id_before_a_merge_is_doubted_too(
    graph: RetractionGraph,
) -> None:
    ghana = await graph.node("Ghana", {PAGE: ACCRA})
    twin = await graph.node("Republic of Ghana", {OTHER: {"population": 3}})
    await graph.contradict(ghana, PAGE)
    await merge_nodes(graph.agent_graph, twin, ghana)
    later = await graph.analysis("On Ghana", f"[node:{ghana}]")
    await graph.propagate_refusals()
    assert await graph.doubted() == {later}


async def test_a_doubt_says_what_was_found_about_what_its_conclusion_rests_on(
    graph: RetractionGraph,
) -> None:
    ghana, togo = await graph.node("Ghana", {PAGE: ACCRA}), await graph.node("Togo", {PAGE: ACCRA})
    on_togo = await graph.analysis("On Togo", f"[node:{togo}]")
    await graph.contradict(ghana, PAGE, "It says that Kumasi is.")
    await graph.contradict(togo, PAGE, "It says that Lomé is.")
    async with graph.agent_graph.database.transaction() as session:
        found = await doubts.list_doubts(session, [on_togo])
    assert [doubt.reason for doubt in found[on_togo]] == ["It says that Lomé is."]


async def test_a_conclusion_from_before_citations_were_stored_is_doubted_too(
    graph: RetractionGraph,
) -> None:
    ghana = await graph.node("Ghana", {PAGE: ACCRA})
    analysis = await graph.analysis("On Ghana", f"[node:{ghana}]")
    async with graph.agent_graph.database.transaction() as session:
        await session.execute(text("delete from citations"))
    await graph.contradict(ghana, PAGE)
    assert await graph.doubted() == {analysis}


async def test_a_contradiction_that_moves_to_the_same_evidence_doubts_what_rests_on_that(
    graph: RetractionGraph,
) -> None:
    ghana = await graph.node("Ghana", {PAGE: ACCRA})
    twin = await graph.node("Republic of Ghana", {PAGE: ACCRA})
    on_ghana = await graph.analysis("On Ghana", f"[node:{ghana}]")
    on_twin = await graph.analysis("On the twin", f"[node:{twin}]")
    await graph.contradict(ghana, PAGE)
    assert await graph.doubted() == {on_ghana}
    merge = await merge_nodes(graph.agent_graph, twin, ghana)
    await graph.propagate_refusals()
    assert await graph.doubted() == {on_ghana, on_twin}
    agent_graph = graph.agent_graph
    await undo_merge(agent_graph, merge.id)
    await graph.propagate_refusals()
    await graph.resolve_doubts()
    assert on_ghana in await graph.doubted()
    async with agent_graph.database.snapshot() as session:
        verification = await verify_conclusion(session, agent_graph.scope.owner_id, on_ghana)
    assert verification is not None
    assert [[*link.verdicts] for link in verification.evidence] == [["", "capital"]]


async def test_a_merge_waits_for_a_conclusion_that_is_being_written(graph: RetractionGraph) -> None:
    ghana = await graph.node("Ghana", {PAGE: ACCRA})
    twin = await graph.node("Republic of Ghana", {OTHER: {"population": 3}})
    await graph.contradict(ghana, PAGE)
    agent_graph = graph.agent_graph
    arguments = {
        "name": "On Ghana",
        "type": "pattern",
        "summary": "So it is.",
        "content": f"It is so [node:{ghana}].",
        **ANALYSIS_TERMS,
    }
    tools = analysis_generation(agent_graph.scope)
    calls = calls_of(tools, [("addAgentAnalysisNode", arguments)])
    unit, batch = UnitOfWork(agent_graph.database, EVERYONE), Batch()
    run_calls = prepare_state_calls(batch, agent_graph.scope.agent_id, calls)
    async with unit.transaction(batch) as transaction:
        [result] = await run_calls(transaction)
        merging = asyncio.create_task(merge_nodes(graph.agent_graph, twin, ghana))
        await asyncio.wait([merging], timeout=MERGE_SECONDS)
    await unit.commit()
    await merging
    await graph.propagate_refusals()
    assert await graph.doubted() == {UUID(result["nodeId"])}


async def test_verification_says_what_was_read_and_finds_what_was_changed(
    graph: RetractionGraph,
) -> None:
    ghana = await graph.node("Ghana", {PAGE: ACCRA, OTHER: ACCRA})
    analysis = await graph.analysis("On Ghana", f"[node:{ghana}]")
    await graph.contradict(ghana, OTHER, "It says otherwise.")
    scope = graph.agent_graph.scope
    database = graph.agent_graph.database
    async with database.snapshot() as session:
        verification = await verify_conclusion(session, scope.owner_id, analysis)
    assert verification is not None
    of_graph, _ = await check_all(database, scope, 500)
    assert (of_graph.evidence, of_graph.evidence_found_contradicted) == (2, 1)
    assert of_graph.evidence_found_supported == of_graph.evidence_found_not_stated == 0
    # It was read after the conclusion, whose count stays what it was.
    checked = verification.checked
    assert (checked.evidence, checked.evidence_found_contradicted) == (1, 0)
    [row] = verification.conclusions[0].proof
    assert row.change == "Read since: contradicted (It says otherwise.)"
    verdicts = [link.verdicts["capital"] for link in verification.evidence if link.verdicts]
    assert [(each.verdict, each.reason) for each in verdicts] == [
        ("contradicted", "It says otherwise.")
    ]

    async with database.transaction() as session:
        await session.execute(text("set local application_name = 'psql'"))
        await session.execute(update(EntailmentVerdict).values(verdict=Entailment.SUPPORTED))
    async with database.snapshot() as session:
        changed = await verify_conclusion(session, scope.owner_id, analysis)
    assert changed is not None
    assert not changed.holds
    found = [
        fault for link in changed.evidence for fault in link.breaks if "verdict" in fault.message
    ]
    assert len(found) == 1


async def test_contexts_leave_out_what_only_a_contradicted_quote_supports(
    graph: RetractionGraph,
) -> None:
    ghana = await graph.node("Ghana", {PAGE: ACCRA, OTHER: {"population": 3}})
    border = await graph.edge(ghana, await graph.node("Togo", {OTHER: {"population": 4}}), PAGE)
    await graph.contradict(ghana, PAGE)
    assert await _shown_properties(graph, ghana) == {"population": 3}
    await graph.contradict(border, PAGE)
    edges = recent.edges_by_ids(graph.agent_graph.scope, [border])
    assert await graph.agent_graph.database.run(edges) == []
    await graph.contradict(ghana, OTHER)
    assert await _shown_properties(graph, ghana) is None
    await graph.says(OLD, {"population": 3}, node_id=ghana, day=A_YEAR_LATER)
    assert await _shown_properties(graph, ghana) == {"population": 3}
    async with graph.agent_graph.database.transaction() as session:
        of_ghana = select(Evidence.claims).where(Evidence.node_id == ghana)
        assert ACCRA in (await session.scalars(of_ghana)).all(), "it is not lost"


async def _shown_properties(graph: RetractionGraph, node_id: UUID) -> dict[str, object] | None:
    nodes = recent.nodes_by_ids(graph.agent_graph.scope, [node_id])
    shown = (await graph.agent_graph.database.run(nodes)).get(node_id)
    return None if shown is None else shown.properties
