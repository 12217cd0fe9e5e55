"""Verifying conclusions and whole graphs: every mutation is found, and nothing that is intact."""

import json
from asyncio import to_thread
from collections import Counter
from collections.abc import AsyncIterator, Collection
from contextlib import suppress
from datetime import date, timedelta
from pathlib import Path
from random import Random
from typing import Any, Final
from uuid import UUID, uuid4

import pytest
from sqlalchemy import delete, func, select, update
from sqlalchemy.dialects.postgresql import Range
from typer.testing import CliRunner, Result

from cli.app import build_app
from cli.errors import BadInputError
from shared.database.tables import (
    Agent,
    CallDay,
    Evidence,
    GraphNode,
    InboxItem,
    PrunedIterations,
    Source,
)
from shared.database.transaction import Transaction
from shared.enums import ANALYSIS_TYPE, CallKind, InboxKind
from shared.graph.retraction import retractions
from shared.graph.retraction.propagation import propagate_refusals, propagate_retractions
from shared.graph.scope import GraphScope
from shared.graph.verification.report import verify_conclusion
from shared.graph.verification.verifier import (
    MAX_PAGE_ROWS,
    check_page,
    walk_chain,
)
from shared.runtime.settings import Settings
from shared.schemas.provenance import CheckedCounts, ElementFault, VerificationResponse
from tests.support.api.serving import serve_api
from tests.support.api.signed_in import create_token
from tests.support.canonical_graph import graph_fingerprint
from tests.support.graph.agent_graph import PAGE, AgentGraph
from tests.support.graph.duplicates import merge_nodes
from tests.support.graph.graph_with_evidence import FETCHED, EvidenceGraph, prove
from tests.support.graph.mutations import MUTATIONS, Mutation, name_of
from tests.support.graph.page_evidence import said
from tests.support.graph.random_rows import Chance
from tests.support.graph.retraction_graph import RetractionGraph
from tests.support.graph.row_mutations import COVERED, JOURNAL, NoRowError, mutate, row_mutations
from tests.support.graph.transfer import exported, imported
from tests.support.graph.verification import COUNTRIES, breaks, check_all, grow
from tests.support.graph.walking import Walk
from tests.support.marks import slow
from tests.support.seeds import repeatable, seed_count


async def verify(evidence_graph: EvidenceGraph, name: str) -> VerificationResponse:
    async with evidence_graph.agent_graph.database.snapshot() as session:
        report = await verify_conclusion(
            session, evidence_graph.scope.owner_id, evidence_graph.nodes[name]
        )
    assert report is not None
    return report


async def check_graph(
    evidence_graph: EvidenceGraph, rows: int = 500
) -> tuple[CheckedCounts, list[ElementFault]]:
    return await check_all(evidence_graph.agent_graph.database, evidence_graph.scope, rows)


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
    ghana, _, census = list(evidence_graph.sources)[:3]
    assert {source.url for source in report.sources} == {ghana, census}
    by_quote = {evidence.quote: evidence for evidence in report.evidence}
    # What no conclusion of the chain states is checked, and is no part of its proof.
    assert by_quote.keys() == {
        "Ghana now counts 35 million people",
        "It borders Togo along 1,098 km.",
    }
    assert not any(link.breaks for link in (*report.elements, *report.evidence, *report.sources))


async def test_a_proof_has_what_a_conclusion_states_also_if_it_is_superseded(
    evidence_graph: EvidenceGraph,
) -> None:
    await evidence_graph.analysis(
        "People",
        "Ghana had 33 million people, and has 35 million now [node:{Ghana}]. Togo has 9 million, and its capital is Lomé"
        " [node:{Togo}]. The length of the border is 1,098 [edge:{border}].",
    )
    report = await verify(evidence_graph, "People")
    assert report.holds
    assert {source.url for source in report.sources} == set(list(evidence_graph.sources)[:3])
    [analysis] = report.conclusions
    assert [(row.name, row.property, row.value, row.stated) for row in analysis.proof] == [
        ("Ghana", "population", 33_000_000, "33 million"),
        ("Ghana", "population", 35_000_000, "35 million"),
        ("Togo", "population", 9e6, "9 million"),
        ("Togo", "capital", "Lomé", "Lomé"),
        ("Ghana → Togo", "lengths", [1098, 0.5], "1,098"),
    ]
    by_quote = {evidence.quote: evidence for evidence in report.evidence}
    assert by_quote["Its capital is Lomé."].active_properties == ["capital"]
    superseded = by_quote["Ghana — “the Gold Coast” once — has 33 million"]
    assert superseded.active_properties == ["population"]
    assert by_quote["Ghana now counts 35 million people"].active_properties == ["population"]
    assert not any(link.breaks for link in (*report.elements, *report.evidence, *report.sources))


@pytest.mark.parametrize("rows", [1, 2, 500])
async def test_the_full_check_covers_everything_with_any_page_size(
    evidence_graph: EvidenceGraph, rows: int
) -> None:
    assert await check_graph(evidence_graph, rows) == (
        CheckedCounts(
            sources=5,
            evidence=7,
            nodes=5,
            edges=2,
            quotes_found=7,
            claims_unchecked=9,
            claims=9,
            values_supported=2,
            sentences=11,
            conclusions_unread=3,
            entries=22,
            rows=35,
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
    assert not faults_by_quote["It borders Togo along 1,098 km."]
    _, breaks = await check_graph(evidence_graph)
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
    assert (await check_graph(evidence_graph))[1] == []
    for retraction in retractions:
        await retraction_graph.restore(retraction)
    assert (await verify(evidence_graph, "Growth")).doubts == []
    assert (await check_graph(evidence_graph))[1] == []


async def test_conclusions_on_retracted_pages_alone_that_are_not_marked_are_reported(
    evidence_graph: EvidenceGraph,
) -> None:
    for url in ("https://a.example/ghana", "https://b.example/census"):
        await evidence_graph.retract(url)
    report = await verify(evidence_graph, "Growth")
    assert not report.holds
    (growth, *_) = report.conclusions
    assert [fault.broken for fault in growth.breaks] == ["retracted", "retracted"]
    _, breaks = await check_graph(evidence_graph)
    assert {(fault.name, fault.broken) for fault in breaks} == {
        ("Growth", "retracted"),
        ("Borders", "retracted"),
    }
    for url in ("https://a.example/ghana", "https://b.example/census"):
        await evidence_graph.retract(url, undo=True)
    assert (await check_graph(evidence_graph))[1] == []


async def test_one_retracted_page_among_others_causes_no_fault(
    evidence_graph: EvidenceGraph,
) -> None:
    await evidence_graph.retract("https://b.example/census")
    assert (await check_graph(evidence_graph))[1] == []
    assert (await verify(evidence_graph, "Wait")).holds


async def test_a_node_without_evidence_is_unproven(evidence_graph: EvidenceGraph) -> None:
    await evidence_graph.agent_graph.unproven("Benin")
    _, breaks = await check_graph(evidence_graph)
    assert {(fault.name, fault.broken) for fault in breaks} == {("Benin", "unproven")}
    messages = {fault.message for fault in breaks}
    assert {"no page supports it", "no page supports its summary"} < messages


async def test_citations_must_be_valid(evidence_graph: EvidenceGraph) -> None:
    properties = {"summary": "So.", "content": "See [node:what].", "type": "pattern"}
    await update_row(
        evidence_graph, GraphNode, evidence_graph.nodes["Growth"], properties=properties
    )
    _, breaks = await check_graph(evidence_graph)
    about_growth = [fault.message for fault in breaks if fault.broken == "citation"]
    assert about_growth == ["it cites '[node:what]', which is malformed", "it cites nothing"]
    content = f"As [edge:{evidence_graph.edges['border']}] [node:{evidence_graph.nodes['Togo']}]."
    properties = {"summary": "So.", "content": content, "action": "HOLD"}
    await update_row(evidence_graph, GraphNode, evidence_graph.nodes["Wait"], properties=properties)
    report = await verify(evidence_graph, "Wait")
    (advice, *_) = report.conclusions
    broken = ["seal", "citation", "citation", "position"]
    assert [fault.broken for fault in advice.breaks] == broken


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
    _, breaks = await check_graph(evidence_graph)
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
    _, breaks = await check_graph(evidence_graph)
    assert breaks == []


async def test_elements_of_a_pending_retraction_have_no_faults(
    evidence_graph: EvidenceGraph, agent_graph: AgentGraph
) -> None:
    """The same holds for a pending restoration; other changes are still detected."""
    retraction_graph = RetractionGraph(agent_graph)
    before = await load_hash(evidence_graph)
    retraction_id = await retraction_graph.ask_retract("https://b.example/census")
    assert (await check_graph(evidence_graph))[1] == []
    ghana = evidence_graph.nodes["Ghana"]
    async with agent_graph.database.transaction() as session:
        properties = (await session.get_one(GraphNode, ghana)).properties
    await update_row(evidence_graph, GraphNode, ghana, properties={"summary": "Another."})
    assert {fault.broken for fault in (await check_graph(evidence_graph))[1]} == {"seal"}
    await update_row(evidence_graph, GraphNode, ghana, properties=properties)
    await retraction_graph.work_off()
    await retraction_graph.ask_restore(retraction_id)
    assert (await check_graph(evidence_graph))[1] == []
    await retraction_graph.work_off()
    assert (await check_graph(evidence_graph))[1] == []
    assert await load_hash(evidence_graph) == before


async def load_hash(evidence_graph: EvidenceGraph) -> str:
    async with evidence_graph.agent_graph.database.snapshot() as session:
        return await graph_fingerprint(session, evidence_graph.scope)


OWNER = "owner of watcher"


@pytest.fixture
async def api(settings: Settings, evidence_graph: EvidenceGraph) -> AsyncIterator[dict[str, str]]:
    """The environment variables with its URL and a token."""
    token = await create_token(settings, OWNER)
    with serve_api(settings) as url:
        yield {"VIGIL_URL": url, "VIGIL_TOKEN": token}


async def vigil(api: dict[str, str], *words: object) -> Result:
    arguments = [str(word) for word in words]
    return await to_thread(CliRunner().invoke, build_app(), arguments, env=api)


def files_in(directory: Path) -> list[Path]:
    return list(directory.iterdir())


async def update_source(evidence_graph: EvidenceGraph, url: str, **values: Any) -> None:
    async with evidence_graph.agent_graph.database.transaction() as session:
        statement = update(Source).where(Source.id == evidence_graph.sources[url]).values(**values)
        await session.execute(statement)


async def test_verify_prints_the_chain_as_a_tree_down_to_the_page(
    api: dict[str, str], evidence_graph: EvidenceGraph
) -> None:
    result = await vigil(api, "verify", evidence_graph.nodes["Wait"])
    assert result.exit_code == 0, result.output
    lines = [line.lstrip("│├└─ ") for line in result.stdout.splitlines()]
    assert lines[0].startswith("○ advice “Wait”")
    assert lines[1].startswith("○ analysis “Growth”")
    assert lines[1].endswith("not read by a model")
    index = lines.index("✓ Ghana → Togo (borders): “It borders Togo along 1,098 km.”")
    page = "✓ About https://a.example/ghana, https://a.example/ghana, fetched 2026-03-01"
    assert lines[index + 1] == page
    assert "✓ Ghana (Country): “Ghana now counts 35 million people”" in lines
    verdict = "✓ nothing was changed, and each sentence was found in its page. 2 pages, 2 quotes, 5 nodes, 2 edges"
    assert lines[-1].startswith(verdict)
    assert lines[-2] == (
        "2 sentences found, 2 figures and names of conclusions match. Not checked: 2 claims not read by a model,"
        " 3 conclusions not read by a model, 2 written before there were rules."
    )
    full_check = await vigil(api, "verify", "--all", "--json")
    (agent,) = json.loads(full_check.stdout)
    assert (full_check.exit_code, agent["holds"], agent["breaks"]) == (0, True, [])
    assert agent["checked"] == {
        "sources": 5,
        "evidence": 7,
        "nodes": 5,
        "edges": 2,
        "quotes_found": 7,
        "claims_supported": 0,
        "claims_completed": 0,
        "claims_unverified": 0,
        "claims_read": 0,
        "claims_stated": 0,
        "claims_unchecked": 9,
        "claims": 9,
        "entries": 22,
        "entries_signed": 0,
        "rows": 35,
        "values_supported": 2,
        "values_unverified": 0,
        "conclusions_unchecked": 0,
        "sentences": 11,
        "sentences_supported": 0,
        "sentences_plausible": 0,
        "conclusions_unread": 3,
        "evidence_found_supported": 0,
        "evidence_found_contradicted": 0,
        "evidence_found_not_stated": 0,
    }
    await evidence_graph.analysis("Capital", "The capital of Togo [node:{Togo}] is Lomé.")
    result = await vigil(api, "verify", evidence_graph.nodes["Capital"])
    assert "✓ capital of Togo = Lomé: “Its capital is Lomé.”" in result.stdout


async def test_a_history_must_have_the_root_that_is_known(
    api: dict[str, str], evidence_graph: EvidenceGraph
) -> None:
    of_watcher = ("verify", "--all", "--agent", "watcher")
    [report] = json.loads((await vigil(api, *of_watcher, "--json")).stdout)
    await evidence_graph.page("https://f.example/new", "Ghana has a new page.")
    result = await vigil(api, *of_watcher, "--since", report["root"].upper())
    assert result.exit_code == 0, result.output
    assert "History: 23 entries, not signed; 36 rows compared with it; root " in result.stdout
    assert "the history contains this root, and every row matches the history." in result.stdout
    unknown = await vigil(api, *of_watcher, "--since", "0" * 64)
    assert unknown.exit_code == 1
    assert f"no entry has the root {'0' * 64}" in unknown.stdout
    for words in ((*of_watcher, "--since", "12ab"), ("verify", "--all", "--since", "0" * 64)):
        refused = await vigil(api, *words)
        assert isinstance(refused.exception, BadInputError)
        assert "--since" in str(refused.exception)


async def test_a_conclusion_that_rests_on_one_site_says_so(
    api: dict[str, str], evidence_graph: EvidenceGraph
) -> None:
    said = "Everything rests on one origin, a.example: no other confirms it."
    for name, is_said in (("Growth", False), ("One site", True)):
        if is_said:
            await evidence_graph.analysis(name, "It is so [node:{Togo}].")
        result = await vigil(api, "verify", evidence_graph.nodes[name])
        assert (said in result.stdout) == is_said, result.stdout


async def test_a_site_that_was_barred_since_is_named_and_does_not_count(
    api: dict[str, str], evidence_graph: EvidenceGraph
) -> None:
    async with evidence_graph.agent_graph.database.transaction() as session:
        await session.execute(update(Agent).values(barred_domains=["b.example"]))
    result = await vigil(api, "verify", evidence_graph.nodes["Growth"])
    assert result.exit_code == 0, result.output
    assert "Since barred, and no longer counted as support: b.example" in result.stdout


async def test_faults_are_printed_and_control_sequences_are_escaped(
    api: dict[str, str], evidence_graph: EvidenceGraph
) -> None:
    await update_source(evidence_graph, "https://a.example/ghana", title="\x1b[2J[red]fine[/]")
    result = await vigil(api, "verify", evidence_graph.nodes["Growth"])
    assert result.exit_code == 1
    assert "✗ analysis “Growth”" in result.stdout
    assert "seal: its URL, title, dates or text were changed since it was stored" in result.stdout
    assert "\\x1b[2J[red]fine[/]" in result.stdout
    assert "\x1b" not in result.stdout
    full_check = await vigil(api, "verify", "--all", "--agent", "watcher")
    assert full_check.exit_code == 1
    assert "✗ source https://a.example/ghana" in full_check.stdout
    json_result = await vigil(api, "verify", evidence_graph.nodes["Growth"], "--json")
    assert (json_result.exit_code, json.loads(json_result.stdout)["holds"]) == (1, False)


async def test_doubts_are_printed_and_are_not_faults(
    api: dict[str, str], evidence_graph: EvidenceGraph
) -> None:
    page, reason = "https://a.example/ghana", "made up [red]here[/]"
    await evidence_graph.says("https://b.example/census", "Ghana now counts", "border", {})
    async with evidence_graph.agent_graph.database.transaction() as session:
        await retractions.retract_source(session, evidence_graph.scope, page, reason)
    await propagate_retractions(evidence_graph.agent_graph.database)
    result = await vigil(api, "verify", evidence_graph.nodes["Growth"])
    assert result.exit_code == 0, result.output
    lines = [line.lstrip("│├└─ ") for line in result.stdout.splitlines()]
    (doubt_line,) = {line for line in lines if line.startswith("in doubt since ")}
    assert doubt_line.endswith(f": {page} was retracted ({reason})")
    assert lines.index(doubt_line) == 1
    assert lines[0].startswith("! This analysis is in doubt.")
    assert lines[-2].startswith("✓ nothing was changed, and each sentence was found in its page.")
    assert lines[-1] == "Everything rests on one origin, b.example: no other confirms it."
    report = json.loads((await vigil(api, "verify", evidence_graph.nodes["Wait"], "--json")).stdout)
    assert report["holds"]
    for conclusion in report["conclusions"]:
        assert [(doubt["url"], doubt["reason"]) for doubt in conclusion["doubts"]] == [
            (page, reason)
        ]
    full_check = await vigil(api, "verify", "--all")
    assert full_check.exit_code == 0, full_check.output
    assert full_check.stdout.rstrip().endswith(", 3 in doubt")
    (agent,) = json.loads((await vigil(api, "verify", "--all", "--json")).stdout)
    assert (agent["holds"], agent["in_doubt"]) == (True, 3)
    assert {doubt["name"] for doubt in agent["doubts"]} == {"Wait", "Growth", "Borders"}


async def test_usage_errors_exit_with_two_and_unknown_conclusions_are_reported(
    api: dict[str, str], evidence_graph: EvidenceGraph
) -> None:
    for words in (
        (),
        (evidence_graph.nodes["Wait"], "--all"),
        (evidence_graph.nodes["Wait"], "--agent", "x"),
    ):
        result = await vigil(api, "verify", *words)
        assert getattr(result.exception, "exit_code", None) == 2, words
    missing = await vigil(api, "verify", uuid4())
    assert "There is no conclusion" in str(missing.exception)


async def test_the_id_of_an_inbox_item_stands_for_its_advice(
    api: dict[str, str], evidence_graph: EvidenceGraph
) -> None:
    agent_graph = evidence_graph.agent_graph
    notice = uuid4()
    async with agent_graph.database.transaction() as session:
        agent = await session.get_one(Agent, agent_graph.scope.agent_id)
        texts = {"owner_id": agent.owner_id, "agent_id": agent.id, "title": "t", "summary": ""}
        advice = await session.scalar(
            select(InboxItem.id).where(InboxItem.node_id == evidence_graph.nodes["Wait"])
        )
        await session.insert(InboxItem, id=notice, kind=InboxKind.NOTICE, **texts)
    for reference in (advice, str(advice)[:8]):
        result = await vigil(api, "verify", reference)
        assert result.exit_code == 0, result.output
        assert "advice “Wait”" in result.stdout
    shown = json.loads((await vigil(api, "advice", "watcher", advice, "--json")).stdout)
    assert shown["name"] == "Wait"
    refused = await vigil(api, "verify", notice)
    assert "is a notice" in str(refused.exception)


async def test_a_graph_is_exported_and_imported(
    api: dict[str, str], evidence_graph: EvidenceGraph, tmp_path: Path, database_url: str
) -> None:
    file = tmp_path / "graph.jsonl"
    result = await vigil(api, "export", "watcher", "--output", file, "--json")
    assert result.exit_code == 0, result.output
    assert json.loads(result.stdout)["bytes"] == file.stat().st_size
    assert files_in(tmp_path) == [file]
    piped = await vigil(api, "export", "watcher")
    assert piped.stdout.splitlines()[1:-1] == file.read_text().splitlines()[1:-1]
    environment = {"VIGIL_DATABASE_URL": database_url, "VIGIL_OWNER": OWNER}
    import_result = await vigil(environment, "import", file, "--json", "--name", "Brought back")
    assert import_result.exit_code == 0, import_result.output
    assert json.loads(import_result.stdout)["counts"]["evidence"] == 7
    full_check = await vigil(api, "verify", "--all", "--json")
    assert [(agent["name"], agent["holds"]) for agent in json.loads(full_check.stdout)] == [
        ("Brought back", True),
        ("watcher", True),
    ]
    details = await vigil(api, "agent", "show", "Brought back", "--json")
    assert json.loads(details.stdout)["active"] is False


@pytest.mark.parametrize("format_name", ["graphml", "prov"])
async def test_other_formats_are_exported(
    api: dict[str, str], evidence_graph: EvidenceGraph, tmp_path: Path, format_name: str
) -> None:
    file = tmp_path / "graph"
    result = await vigil(api, "export", "watcher", "--format", format_name, "--output", file)
    assert result.exit_code == 0, result.output
    assert "Ghana" in file.read_text()


async def test_failed_exports_and_imports_leave_no_file_and_no_agent(
    api: dict[str, str], evidence_graph: EvidenceGraph, tmp_path: Path, database_url: str
) -> None:
    missing = await vigil(api, "export", "nobody", "--output", tmp_path / "none")
    assert "There is no agent" in str(missing.exception)
    assert files_in(tmp_path) == []
    file = tmp_path / "graph.jsonl"
    await vigil(api, "export", "watcher", "--output", file)
    cut_file = tmp_path / "cut.jsonl"
    cut_file.write_bytes(file.read_bytes()[:-50])
    environment = {"VIGIL_DATABASE_URL": database_url, "VIGIL_OWNER": OWNER}
    result = await vigil(environment, "import", cut_file)
    assert "export it again. Nothing was imported." in str(result.exception)
    nobody = await vigil(environment, "import", file, "--user", "nobody")
    assert getattr(nobody.exception, "exit_code", None) == 2
    agents = await vigil(api, "agent", "list", "--json")
    assert [agent["name"] for agent in json.loads(agents.stdout)] == ["watcher"]


ROUNDS: Final = [1, *slow(12)]
"""Rounds of one mutation of each kind; `make test-mutations` makes more than six thousand mutations."""
LEAST_STEPS: Final = 40
MOST_STEPS: Final = 400


async def load_chain(evidence_graph: EvidenceGraph, conclusion: str) -> set[UUID]:
    """The conclusion and all that it depends on, directly or indirectly."""
    async with evidence_graph.agent_graph.database.snapshot() as session:
        chain = await walk_chain(session, evidence_graph.scope, evidence_graph.nodes[conclusion])
    rests_on = chain.rests_on()
    return set(rests_on).union(*rests_on.values())


async def is_detected(
    evidence_graph: EvidenceGraph,
    mutation: Mutation,
    random: Random,
    chain: Collection[UUID],
    advice: UUID,
) -> bool:
    """By the full check, and by the chain check if the advice depends on the row. Rolled back afterwards."""
    async with evidence_graph.agent_graph.database.transaction() as session:
        changed_id = await mutation(Chance(session, random, evidence_graph.scope.agent_id))
        faults = await breaks(session, evidence_graph.scope)
        if changed_id in chain:
            report = await verify_conclusion(session, evidence_graph.scope.owner_id, advice)
            assert report is None or not report.holds, (
                f"{name_of(mutation)}: the advice still holds"
            )
        await session.rollback()
        return bool(faults)


@pytest.mark.parametrize("rounds", ROUNDS)
async def test_every_mutation_is_detected_and_nothing_else(
    agent_graph: AgentGraph, seed: int, seeds_wanted: int | None, rounds: int
) -> None:
    random = Random(seed)
    with repeatable(seed):
        evidence_graph = await prove(agent_graph)
        await grow(evidence_graph, random)
        chain, advice = await load_chain(evidence_graph, "Sell"), evidence_graph.nodes["Sell"]
        assert len(chain) > 10
        applied, detected = Counter[str](), Counter[str]()
        for number in range(seeds_wanted or rounds):
            async with agent_graph.database.snapshot() as session:
                assert await breaks(session, evidence_graph.scope) == [], (
                    f"intact, after {number} rounds"
                )
            for mutation in MUTATIONS:
                applied[name_of(mutation)] += 1
                detected[name_of(mutation)] += await is_detected(
                    evidence_graph, mutation, random, chain, advice
                )
        undetected = {
            name: f"{detected[name]} of {applied[name]}"
            for name in applied
            if detected[name] < applied[name]
        }
        assert not undetected
        print(f"{detected.total()} of {applied.total()} mutations found, of {len(applied)} kinds")


async def note_pruned(agent_graph: AgentGraph) -> None:
    """As if the scheduler had deleted the first iterations."""
    async with agent_graph.database.transaction() as session:
        of_agent = agent_graph.scope.agent_id
        await session.insert(
            PrunedIterations, agent_id=of_agent, numbers=[Range(1, 4)], transcripts=[], calls=9
        )
        counts = {column.name: 2 for column in CallDay.__table__.columns if not column.primary_key}
        for phase in ("observer", "graph_construction"):
            key = {"day": date(2026, 1, 1), "kind": CallKind.LLM, "phase": phase, "model": "small"}
            await session.insert(CallDay, agent_id=of_agent, **key, **counts)


async def walk_until_all_tables_have_rows(agent_graph: AgentGraph, random: Random) -> None:
    await note_pruned(agent_graph)
    walk = Walk(agent_graph, random)
    await walk.begin()
    for step in range(MOST_STEPS):
        await walk.step()
        if step >= LEAST_STEPS and await has_rows_everywhere(agent_graph):
            return
    raise AssertionError("the walk leaves a table empty")


async def has_rows_everywhere(agent_graph: AgentGraph) -> bool:
    async with agent_graph.database.snapshot() as session:
        counts = [
            await session.scalar(select(func.count()).select_from(table)) for table in COVERED
        ]
        counts.append(await session.scalar(select(func.count(Evidence.edge_id))))
    return all(counts)


async def has_faults(session: Transaction, scope: GraphScope) -> bool:
    """Whether there is a fault other than that a conclusion rests on retracted pages only."""
    cursor: str | None = None
    while True:
        page = await check_page(session, scope, cursor=cursor, rows=MAX_PAGE_ROWS)
        if any(fault.broken != "retracted" for fault in page.breaks):
            return True
        cursor = page.next
        if cursor is None:
            return False


@pytest.mark.parametrize(("rounds", "share"), [(1, 0.1), *slow((1, 0.25), (20, 1.0))])
async def test_every_change_of_any_row_is_detected(
    agent_graph: AgentGraph, seed: int, seeds_wanted: int | None, rounds: int, share: float
) -> None:
    """Of every column of every table of a graph, and of its journal; rows that are added, and rows that are deleted.

    The short form tries a tenth of them, others each time.
    """
    random = Random(seed)
    with repeatable(seed):
        await walk_until_all_tables_have_rows(agent_graph, random)
        evidence_graph = EvidenceGraph(agent_graph)
        copy = await imported(evidence_graph, await exported(evidence_graph))
        every = row_mutations([*COVERED, *JOURNAL])
        mutations = every if seeds_wanted else random.sample(every, round(len(every) * share))
        applied, undetected = Counter[str](), Counter[str]()
        for number in range(seeds_wanted or rounds):
            scope = copy if number % 3 == 2 else agent_graph.scope
            async with agent_graph.database.transaction() as session:
                assert not await has_faults(session, scope), f"intact, after {number} rounds"
                for mutation in mutations:
                    with suppress(NoRowError):
                        await mutate(session, random, scope.agent_id, mutation)
                        applied[str(mutation)] += 1
                        undetected[str(mutation)] += not await has_faults(session, scope)
                    await session.rollback()
        assert not +undetected, f"of {applied.total()}"
        assert applied.keys() == set(map(str, mutations))
        print(f"all of {applied.total()} changes of rows found, of {len(applied)} kinds")


@pytest.mark.parametrize("rounds", [5, *slow(30)])
async def test_legitimate_changes_cause_no_faults(
    agent_graph: AgentGraph, seed: int, rounds: int
) -> None:
    """After each new page, superseded value, retraction and restoration."""
    random = Random(seed)
    with repeatable(seed):
        evidence_graph = await prove(agent_graph)
        await grow(evidence_graph, random)
        urls = [url for url in evidence_graph.sources if url.startswith("https://d")]
        retracted_urls = set[str]()
        for number in range(rounds):
            url = random.choice(urls)
            if random.random() < 0.5:
                await evidence_graph.retract(url, undo=url in retracted_urls)
                retracted_urls ^= {url}
            else:
                name, people = random.choice(COUNTRIES), random.randrange(10**6)
                page_url = f"https://f.example/{number}"
                await evidence_graph.page(page_url, f"{name} has {people} people.")
                moment = FETCHED + timedelta(days=random.randrange(-400, 400))
                claims = {"population": people}
                await evidence_graph.says(
                    page_url, f"{name} has {people}", name, claims, valid_from=moment
                )
            async with agent_graph.database.snapshot() as session:
                faults = await breaks(session, evidence_graph.scope)
            assert {fault.broken for fault in faults} <= {"retracted"}, f"round {number}: {faults}"
        for url in retracted_urls:
            await evidence_graph.retract(url, undo=True)
        async with agent_graph.database.snapshot() as session:
            assert await breaks(session, evidence_graph.scope) == []


async def test_a_mutation_is_still_detected_after_later_writes_to_its_element(
    agent_graph: AgentGraph,
) -> None:
    """A write seals an element from its previously sealed content, not from its tampered content."""
    ghana, togo = await agent_graph.node("Ghana"), await agent_graph.node("Togo")
    border = await agent_graph.edge(ghana, togo)
    await said(agent_graph, "https://x", "Ghana lies in Africa.", node=ghana)
    await said(agent_graph, "https://x", "Ghana lies in Africa.", edge=border)
    async with agent_graph.database.transaction() as session:
        of_x = select(Source.id).where(Source.url == "https://x")
        await session.execute(delete(Evidence).where(Evidence.source_id.in_(of_x)))
    await agent_graph.node("Ghana", capital="Accra")
    await agent_graph.edge(ghana, togo)
    retraction_graph = RetractionGraph(agent_graph)
    await retraction_graph.restore(await retraction_graph.retract(PAGE["url"]))
    async with agent_graph.database.snapshot() as session:
        faults = {fault.id: fault.broken for fault in await breaks(session, agent_graph.scope)}
    assert faults == {ghana: "seal", border: "seal"}


async def test_a_changed_claim_is_detected_after_a_merge(agent_graph: AgentGraph) -> None:
    kept_id, merged_id = await agent_graph.node("Ghana"), await agent_graph.node("Gold Coast")
    async with agent_graph.database.transaction() as session:
        claims = {"summary": "A kingdom."}
        of_gone = update(Evidence).where(Evidence.node_id == merged_id)
        await session.execute(of_gone.values(claims=claims))
    await merge_nodes(agent_graph, kept_id, merged_id)
    async with agent_graph.database.snapshot() as session:
        assert "seal" in {fault.broken for fault in await breaks(session, agent_graph.scope)}


WALKS: Final = [
    (0, 20),
    *slow(
        *((number, 40) for number in range(3)),
        *((number, 200) for number in range(seed_count() or 3)),
    ),
]
"""The number of each, and its steps."""
BETWEEN_EXPORTS: Final = 10


@pytest.mark.parametrize(("number", "steps"), WALKS)
async def test_every_step_leaves_an_intact_graph(
    agent_graph: AgentGraph, seed: int, number: int, steps: int
) -> None:
    with repeatable(seed):
        walk = Walk(agent_graph, Random(seed + number))
        await walk.begin()
        actions: list[str] = []
        for step in range(steps):
            actions.append(await walk.step())
            await assert_intact(agent_graph, agent_graph.scope, actions)
            if step % BETWEEN_EXPORTS == 0:
                scope = await imported(
                    EvidenceGraph(agent_graph), await exported(EvidenceGraph(agent_graph))
                )
                await assert_intact(agent_graph, scope, actions)
                # The copy has the values as they are when all refusals are applied.
                await propagate_refusals(agent_graph.database)
                async with agent_graph.database.snapshot() as session:
                    before = await graph_fingerprint(session, agent_graph.scope)
                    assert await graph_fingerprint(session, scope) == before, actions


async def assert_intact(agent_graph: AgentGraph, scope: GraphScope, actions: list[str]) -> None:
    """Faults of kind `retracted` are expected and ignored."""
    async with agent_graph.database.snapshot() as session:
        faults = [fault for fault in await breaks(session, scope) if fault.broken != "retracted"]
    assert faults == [], actions
