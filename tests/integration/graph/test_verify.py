"""Verifying a conclusion down to its pages, and a graph as a whole."""

from typing import Any
from uuid import UUID

import pytest
from sqlalchemy import update

from shared.database.tables import GraphNode, Source
from shared.enums import ANALYSIS_TYPE
from shared.graph.verification.verifier import check_page, verify_conclusion
from shared.schemas.provenance import CheckedCounts, ElementFault, VerificationResponse
from tests.support.canonical_graph import graph_fingerprint
from tests.support.graph.agent_graph import AgentGraph
from tests.support.graph.graph_with_evidence import FETCHED, EvidenceGraph, prove
from tests.support.graph.retraction_graph import RetractionGraph


@pytest.fixture
async def evidence_graph(agent_graph: AgentGraph) -> EvidenceGraph:
    return await prove(agent_graph)


async def verify(evidence_graph: EvidenceGraph, name: str) -> VerificationResponse:
    async with evidence_graph.agent_graph.database.snapshot() as session:
        report = await verify_conclusion(
            session, evidence_graph.scope.owner_id, evidence_graph.nodes[name]
        )
    assert report is not None
    return report


async def check_all(
    evidence_graph: EvidenceGraph, rows: int = 500
) -> tuple[CheckedCounts, list[ElementFault]]:
    """Check the whole graph, page by page."""
    counts: dict[str, int] = {}
    breaks: list[ElementFault] = []
    cursor: str | None = None
    while True:
        async with evidence_graph.agent_graph.database.snapshot() as session:
            page = await check_page(session, evidence_graph.scope, cursor=cursor, rows=rows)
        breaks += page.breaks
        for name, count in page.checked.model_dump().items():
            counts[name] = counts.get(name, 0) + count
        cursor = page.next
        if cursor is None:
            return CheckedCounts(**counts), breaks


async def update_row(evidence_graph: EvidenceGraph, table: Any, key: Any, **values: Any) -> None:
    async with evidence_graph.agent_graph.database.transaction() as session:
        await session.execute(update(table).where(table.id == key).values(**values))


async def test_advice_is_verified_down_to_its_pages(evidence_graph: EvidenceGraph) -> None:
    report = await verify(evidence_graph, "Wait")
    assert report.holds
    assert [conclusion.name for conclusion in report.conclusions] == ["Wait", "Growth", "Borders"]
    assert {element.name for element in report.elements} == {
        "Ghana",
        "Togo",
        "Ghana → Togo",
        "Growth → Ghana",
    }
    assert {source.url for source in report.sources} == set(list(evidence_graph.sources)[:3])
    by_quote = {evidence.quote: evidence for evidence in report.evidence}
    assert by_quote["Its capital is Lomé."].active_properties == ["capital", "summary"]
    superseded = by_quote["Ghana — “the Gold Coast” once — has 33 million"]
    assert superseded.active_properties == ["summary"]
    assert by_quote["Ghana now counts 35 million people"].active_properties == ["population"]
    assert not any(link.breaks for link in (*report.elements, *report.evidence, *report.sources))


@pytest.mark.parametrize("rows", [1, 2, 500])
async def test_the_full_check_covers_everything_with_any_page_size(
    evidence_graph: EvidenceGraph, rows: int
) -> None:
    assert await check_all(evidence_graph, rows) == (
        CheckedCounts(
            sources=5,
            evidence=7,
            nodes=5,
            edges=2,
            claims_unchecked=9,
            values_supported=4,
            entries=22,
            rows=31,
        ),
        [],
    )


async def test_conclusions_on_a_broken_source_do_not_hold(evidence_graph: EvidenceGraph) -> None:
    togo = "https://a.example/togo"
    await update_row(
        evidence_graph, Source, evidence_graph.sources[togo], text="Togo has 8 million people."
    )
    report = await verify(evidence_graph, "Wait")
    assert not report.holds
    conclusion_names = {
        conclusion.name for conclusion in report.conclusions if not conclusion.holds
    }
    assert conclusion_names == {"Wait", "Growth", "Borders"}
    element_names = {element.name for element in report.elements if not element.holds}
    assert element_names == {"Togo", "Ghana → Togo", "Growth → Ghana"}
    (source,) = [source for source in report.sources if source.breaks]
    assert (source.url, [fault.broken for fault in source.breaks]) == (togo, ["text"])
    faults_by_quote = {
        evidence.quote: {fault.broken for fault in evidence.breaks} for evidence in report.evidence
    }
    assert faults_by_quote["Togo has 8 million people"] == {"quote"}
    assert not faults_by_quote["It borders Togo"]
    _, breaks = await check_all(evidence_graph)
    assert {(fault.link, fault.broken) for fault in breaks} >= {
        ("source", "text"),
        ("evidence", "quote"),
        ("evidence", "span"),
    }


async def test_a_doubt_is_no_break(evidence_graph: EvidenceGraph) -> None:
    retraction_graph = RetractionGraph(evidence_graph.agent_graph)
    urls = ("https://a.example/ghana", "https://b.example/census")
    retractions = [await retraction_graph.retract(url) for url in urls]
    report = await verify(evidence_graph, "Growth")
    assert report.holds
    assert not any(conclusion.breaks for conclusion in report.conclusions)
    assert {(doubt.name, doubt.url, doubt.cause) for doubt in report.doubts} == {
        ("Growth", url, "retracted") for url in urls
    }
    elements = {element for doubt in report.doubts for element in doubt.elements}
    assert evidence_graph.nodes["Ghana"] in elements
    assert elements <= {link.id for link in report.elements}
    assert (await check_all(evidence_graph))[1] == []
    for retraction in retractions:
        await retraction_graph.restore(retraction)
    assert (await verify(evidence_graph, "Growth")).doubts == []
    assert (await check_all(evidence_graph))[1] == []


async def test_conclusions_on_retracted_pages_alone_that_are_not_marked_are_reported(
    evidence_graph: EvidenceGraph,
) -> None:
    for url in ("https://a.example/ghana", "https://b.example/census"):
        await evidence_graph.retract(url)
    report = await verify(evidence_graph, "Growth")
    assert not report.holds
    (growth, *_) = report.conclusions
    assert [fault.broken for fault in growth.breaks] == ["retracted", "retracted"]
    _, breaks = await check_all(evidence_graph)
    assert {(fault.name, fault.broken) for fault in breaks} == {
        ("Growth", "retracted"),
        ("Borders", "retracted"),
    }
    for url in ("https://a.example/ghana", "https://b.example/census"):
        await evidence_graph.retract(url, undo=True)
    assert (await check_all(evidence_graph))[1] == []


async def test_one_retracted_page_among_others_causes_no_fault(
    evidence_graph: EvidenceGraph,
) -> None:
    await evidence_graph.retract("https://b.example/census")
    assert (await check_all(evidence_graph))[1] == []
    assert (await verify(evidence_graph, "Wait")).holds


async def test_a_node_without_evidence_is_unproven(evidence_graph: EvidenceGraph) -> None:
    await evidence_graph.agent_graph.unproven("Benin")
    _, breaks = await check_all(evidence_graph)
    assert {(fault.name, fault.broken) for fault in breaks} == {("Benin", "unproven")}
    messages = {fault.message for fault in breaks}
    assert {"no page supports it", "no page supports its summary"} < messages


async def test_citations_must_be_valid(evidence_graph: EvidenceGraph) -> None:
    properties = {"summary": "So.", "content": "See [node:what].", "type": "pattern"}
    await update_row(
        evidence_graph, GraphNode, evidence_graph.nodes["Growth"], properties=properties
    )
    _, breaks = await check_all(evidence_graph)
    about_growth = [fault.message for fault in breaks if fault.broken == "citation"]
    assert about_growth == ["it cites '[node:what]', which is malformed", "it cites nothing"]
    content = f"As [edge:{evidence_graph.edges['border']}] [node:{evidence_graph.nodes['Togo']}]."
    properties = {"summary": "So.", "content": content, "action": "HOLD"}
    await update_row(evidence_graph, GraphNode, evidence_graph.nodes["Wait"], properties=properties)
    report = await verify(evidence_graph, "Wait")
    (advice, *_) = report.conclusions
    assert [fault.broken for fault in advice.breaks] == ["seal", "citation", "citation"]


@pytest.mark.slow
async def test_conclusions_can_cite_more_than_one_statement_has_parameters(
    agent_graph: AgentGraph,
) -> None:
    evidence_graph = EvidenceGraph(agent_graph)
    cited = 66_000
    content = " ".join(f"[node:{UUID(int=number)}]" for number in range(cited))
    evidence_graph.nodes["Many"] = await agent_graph.unproven(
        "Many", ANALYSIS_TYPE, content=content
    )
    _, breaks = await check_all(evidence_graph)
    assert len([fault for fault in breaks if fault.broken == "citation"]) == cited
    [analysis] = (await verify(evidence_graph, "Many")).conclusions
    assert len([fault for fault in analysis.breaks if fault.broken == "citation"]) == cited


async def test_conclusions_of_other_owners_are_not_found(
    evidence_graph: EvidenceGraph, stranger: AgentGraph
) -> None:
    async with evidence_graph.agent_graph.database.snapshot() as session:
        for node_id in (evidence_graph.nodes["Wait"], evidence_graph.nodes["Ghana"]):
            owner_id = (
                stranger.scope.owner_id
                if node_id == evidence_graph.nodes["Wait"]
                else evidence_graph.scope.owner_id
            )
            assert await verify_conclusion(session, owner_id, node_id) is None


async def test_a_snapshot_is_read_only(evidence_graph: EvidenceGraph) -> None:
    with pytest.raises(Exception, match="read-only"):
        async with evidence_graph.agent_graph.database.snapshot() as session:
            await session.execute(update(Source).values(fetched_at=FETCHED))
    async with evidence_graph.agent_graph.database.transaction() as session:
        await session.execute(update(Source).values(title="as before"))


@pytest.mark.parametrize("number", [6.02214076e23, 1e23, 1e300, -1e17, -0.0, 0.1, 1e-7, 5e-324])
async def test_numbers_verify_in_any_database_representation(
    evidence_graph: EvidenceGraph, number: float
) -> None:
    claims = {"lengths": [number, {"in": number}]}
    await evidence_graph.says("https://a.example/ghana", "It borders Togo", "border", claims)
    _, breaks = await check_all(evidence_graph)
    assert breaks == []


async def test_elements_of_a_pending_retraction_have_no_faults(
    evidence_graph: EvidenceGraph, agent_graph: AgentGraph
) -> None:
    """The same holds for a pending restoration; other changes are still detected."""
    retraction_graph = RetractionGraph(agent_graph)
    before = await load_hash(evidence_graph)
    retraction_id = await retraction_graph.ask_retract("https://b.example/census")
    assert (await check_all(evidence_graph))[1] == []
    ghana = evidence_graph.nodes["Ghana"]
    async with agent_graph.database.transaction() as session:
        properties = (await session.get_one(GraphNode, ghana)).properties
    await update_row(evidence_graph, GraphNode, ghana, properties={"summary": "Another."})
    assert {fault.broken for fault in (await check_all(evidence_graph))[1]} == {"seal"}
    await update_row(evidence_graph, GraphNode, ghana, properties=properties)
    await retraction_graph.work_off()
    await retraction_graph.ask_restore(retraction_id)
    assert (await check_all(evidence_graph))[1] == []
    await retraction_graph.work_off()
    assert (await check_all(evidence_graph))[1] == []
    assert await load_hash(evidence_graph) == before


async def load_hash(evidence_graph: EvidenceGraph) -> str:
    async with evidence_graph.agent_graph.database.snapshot() as session:
        return await graph_fingerprint(session, evidence_graph.scope)
