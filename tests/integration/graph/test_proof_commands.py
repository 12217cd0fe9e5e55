"""`vigil verify`, `export` and `import` against a real API: output and exit codes."""

import json
from asyncio import to_thread
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any
from uuid import uuid4

import pytest
from sqlalchemy import select, update
from typer.testing import CliRunner, Result

from cli.app import build_app
from cli.errors import BadInputError
from shared.database.tables import Agent, InboxItem, Source
from shared.enums import InboxKind
from shared.graph.retraction import retractions
from shared.graph.retraction.propagation import propagate_retractions
from shared.runtime.settings import Settings
from tests.support.api.serving import serve_api
from tests.support.api.signed_in import create_token
from tests.support.graph.agent_graph import AgentGraph
from tests.support.graph.graph_with_evidence import EvidenceGraph, prove

OWNER = "owner of watcher"


@pytest.fixture
async def evidence_graph(agent_graph: AgentGraph) -> EvidenceGraph:
    return await prove(agent_graph)


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
    assert lines[0].startswith("✓ advice “Wait”")
    assert lines[1].startswith("✓ analysis “Growth”")
    assert any(line.startswith("✓ Country Ghana (") and "capital = Accra" in line for line in lines)
    index = lines.index("✓ capital: “Its capital is Accra.”")
    page = "✓ About https://a.example/ghana, https://a.example/ghana, fetched 2026-03-01"
    assert lines[index + 1] == page
    verdict = (
        "✓ nothing was changed, and each quote is in its page. 3 pages, 7 quotes, 5 nodes, 2 edges"
    )
    assert lines[-1].startswith(verdict)
    assert lines[-2] == (
        "Claims: 0 supported by rules, 0 left for you to check, 9 quoted but not checked by rules."
        " Numbers and names of conclusions: 4 supported by rules, 0 left for you to check."
        " Reasoning is not checked."
    )
    full_check = await vigil(api, "verify", "--all", "--json")
    (agent,) = json.loads(full_check.stdout)
    assert (full_check.exit_code, agent["holds"], agent["breaks"]) == (0, True, [])
    assert agent["checked"] == {
        "sources": 5,
        "evidence": 7,
        "nodes": 5,
        "edges": 2,
        "claims_supported": 0,
        "claims_unverified": 0,
        "claims_unchecked": 9,
        "entries": 22,
        "entries_signed": 0,
        "rows": 31,
        "values_supported": 4,
        "values_unverified": 0,
        "conclusions_unchecked": 0,
        "evidence_found_supported": 0,
        "evidence_found_contradicted": 0,
        "evidence_found_not_stated": 0,
    }


async def test_a_history_must_have_the_root_that_is_known(
    api: dict[str, str], evidence_graph: EvidenceGraph
) -> None:
    of_watcher = ("verify", "--all", "--agent", "watcher")
    [report] = json.loads((await vigil(api, *of_watcher, "--json")).stdout)
    await evidence_graph.page("https://f.example/new", "Ghana has a new page.")
    result = await vigil(api, *of_watcher, "--since", report["root"].upper())
    assert result.exit_code == 0, result.output
    assert "History: 23 entries, not signed; 32 rows compared with it; root " in result.stdout
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
    said = "Everything rests on one site, a.example: no other site confirms it."
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
    assert lines[-1].startswith("✓ nothing was changed, and each quote is in its page.")
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
