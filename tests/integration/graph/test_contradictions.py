"""Which conclusions contradicted evidence puts in doubt, and when they no longer are."""

import asyncio
from typing import Final
from uuid import UUID

import pytest
from sqlalchemy import select, text, update

from shared.database.statements import Batch
from shared.database.tables import EntailmentVerdict, Evidence
from shared.database.unit_of_work import UnitOfWork
from shared.enums import Entailment
from shared.graph.retraction import doubts
from shared.graph.tools import analysis_generation
from shared.graph.verification.verifier import verify_conclusion
from shared.llm.toolset import prepare_state_calls
from tests.support.fences import EVERYONE
from tests.support.forecast_terms import ANALYSIS_TERMS
from tests.support.graph.agent_graph import AgentGraph
from tests.support.graph.answers import calls_of
from tests.support.graph.duplicates import merge_nodes, undo_merge
from tests.support.graph.evidence_rows import store_verdict
from tests.support.graph.retraction_graph import RetractionGraph

PAGE, OTHER = "https://page.example/1", "https://other.example/2"
ACCRA: Final = {"capital": "Accra"}
KUMASI: Final = {"capital": "Kumasi"}
LATER: Final = 400
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
    await graph.propagate_contradictions()
    assert await graph.doubted() == {analysis}
    mali = await graph.node("Mali", {OTHER: ACCRA})
    await graph.analysis("On Mali", f"[node:{mali}]")
    await graph.propagate_contradictions()
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
    await graph.says(OTHER, value, node_id=ghana, day=LATER)
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


@pytest.mark.parametrize("verdict", [Entailment.SUPPORTED, Entailment.NOT_STATED])
async def test_other_verdicts_leave_no_doubt(graph: RetractionGraph, verdict: Entailment) -> None:
    ghana = await graph.node("Ghana", {PAGE: ACCRA})
    await graph.analysis("On Ghana", f"[node:{ghana}]")
    async with graph.agent_graph.database.transaction() as session:
        evidence_id = (await session.scalars(select(Evidence.id))).one()
    await store_verdict(graph.agent_graph, evidence_id, verdict, "It reads so.")
    await graph.propagate_contradictions()
    assert await graph.doubted() == set()


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
    await graph.propagate_contradictions()
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
    await graph.propagate_contradictions()
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
    await graph.propagate_contradictions()
    assert await graph.doubted() == {on_ghana, on_twin}
    agent_graph = graph.agent_graph
    await undo_merge(agent_graph, merge.id)
    await graph.propagate_contradictions()
    await graph.resolve_doubts()
    assert on_ghana in await graph.doubted()
    async with agent_graph.database.snapshot() as session:
        verification = await verify_conclusion(session, agent_graph.scope.owner_id, on_ghana)
    assert verification is not None
    assert [link.verdict is not None for link in verification.evidence] == [True]


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
    await graph.propagate_contradictions()
    assert await graph.doubted() == {UUID(result["nodeId"])}


async def test_verification_says_what_was_read_and_finds_what_was_changed(
    graph: RetractionGraph,
) -> None:
    ghana = await graph.node("Ghana", {PAGE: ACCRA, OTHER: ACCRA})
    analysis = await graph.analysis("On Ghana", f"[node:{ghana}]")
    await graph.contradict(ghana, PAGE, "It says otherwise.")
    scope = graph.agent_graph.scope
    database = graph.agent_graph.database
    async with database.snapshot() as session:
        verification = await verify_conclusion(session, scope.owner_id, analysis)
    assert verification is not None
    checked = verification.checked
    assert (checked.evidence, checked.evidence_found_contradicted) == (2, 1)
    assert checked.evidence_found_supported == checked.evidence_found_not_stated == 0
    verdicts = [link.verdict for link in verification.evidence if link.verdict]
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
