"""`vigil verify`, `export` and `import` against a real api: what they print, and how they end."""

import json
from asyncio import to_thread
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any
from uuid import uuid4

import pytest
from sqlalchemy import update
from typer.testing import CliRunner, Result

from cli.main import build_app
from shared.database.tables import Source
from shared.graph.retraction import retractions
from shared.graph.retraction.propagation import propagate_retractions
from shared.runtime.settings import Settings
from tests.support.api.serving import served
from tests.support.api.signed_in import token_of
from tests.support.graph.proven import Proven, prove
from tests.support.graph.world import World

OWNER = "owner of watcher"


@pytest.fixture
async def proven(world: World) -> Proven:
    return await prove(world)


@pytest.fixture
async def api(settings: Settings, proven: Proven) -> AsyncIterator[dict[str, str]]:
    """Where a command finds it, and by what it comes in."""
    token = await token_of(settings, OWNER)
    with served(settings) as url:
        yield {"VIGIL_URL": url, "VIGIL_TOKEN": token}


async def vigil(api: dict[str, str], *words: object) -> Result:
    arguments = [str(word) for word in words]
    return await to_thread(CliRunner().invoke, build_app(), arguments, env=api)


def files_in(directory: Path) -> list[Path]:
    return list(directory.iterdir())


async def spoil(proven: Proven, url: str, **values: Any) -> None:
    async with proven.world.database.transaction() as session:
        statement = update(Source).where(Source.id == proven.sources[url]).values(**values)
        await session.execute(statement)


async def test_a_chain_is_a_tree_down_to_the_page(api: dict[str, str], proven: Proven) -> None:
    told = await vigil(api, "verify", proven.nodes["Wait"])
    assert told.exit_code == 0, told.output
    lines = [line.lstrip("│├└─ ") for line in told.stdout.splitlines()]
    assert lines[0].startswith("✓ advice “Wait”")
    assert lines[1].startswith("✓ analysis “Growth”")
    assert any(line.startswith("✓ Country Ghana (") and "capital = Accra" in line for line in lines)
    at = lines.index("✓ capital: “Its capital is Accra.”")
    page = "✓ About https://a.example/ghana, https://a.example/ghana, fetched 2026-03-01"
    assert lines[at + 1] == page
    assert lines[-1].startswith("✓ everything is intact. 3 pages, 7 quotes, 5 nodes, 2 edges")
    whole = await vigil(api, "verify", "--all", "--json")
    (agent,) = json.loads(whole.stdout)
    assert (whole.exit_code, agent["holds"], agent["breaks"]) == (0, True, [])
    assert agent["checked"] == {"sources": 5, "evidence": 7, "nodes": 5, "edges": 2}


async def test_what_is_broken_is_said_and_nothing_in_it_is_obeyed(
    api: dict[str, str], proven: Proven
) -> None:
    await spoil(proven, "https://a.example/ghana", title="\x1b[2J[red]fine[/]")
    told = await vigil(api, "verify", proven.nodes["Growth"])
    assert told.exit_code == 1
    assert "✗ analysis “Growth”" in told.stdout
    assert "seal: its URL, title, dates or text were changed since it was stored" in told.stdout
    assert "\\x1b[2J[red]fine[/]" in told.stdout
    assert "\x1b" not in told.stdout
    whole = await vigil(api, "verify", "--all", "--agent", "watcher")
    assert whole.exit_code == 1
    assert "✗ source https://a.example/ghana" in whole.stdout
    shown = await vigil(api, "verify", proven.nodes["Growth"], "--json")
    assert (shown.exit_code, json.loads(shown.stdout)["holds"]) == (1, False)


async def test_what_is_in_doubt_is_told_and_breaks_nothing(
    api: dict[str, str], proven: Proven
) -> None:
    page, why = "https://a.example/ghana", "made up [red]here[/]"
    await proven.says("https://b.example/census", "Ghana now counts", "border", {})
    async with proven.world.database.transaction() as session:
        await retractions.retract_source(session, proven.scope, page, why)
    await propagate_retractions(proven.world.database)
    told = await vigil(api, "verify", proven.nodes["Growth"])
    assert told.exit_code == 0, told.output
    lines = [line.lstrip("│├└─ ") for line in told.stdout.splitlines()]
    (why_told,) = {line for line in lines if line.startswith("in doubt since ")}
    assert why_told.endswith(f": {page} was retracted ({why})")
    assert lines.index(why_told) == 1
    assert lines[-2].startswith("✓ everything is intact.")
    assert lines[-1] == why_told
    shown = json.loads((await vigil(api, "verify", proven.nodes["Wait"], "--json")).stdout)
    assert shown["holds"]
    for conclusion in shown["conclusions"]:
        assert [(each["url"], each["reason"]) for each in conclusion["doubts"]] == [(page, why)]
    whole = await vigil(api, "verify", "--all")
    assert whole.exit_code == 0, whole.output
    assert whole.stdout.rstrip().endswith(", 3 in doubt")
    (agent,) = json.loads((await vigil(api, "verify", "--all", "--json")).stdout)
    assert (agent["holds"], agent["in_doubt"]) == (True, 3)
    assert {each["name"] for each in agent["doubts"]} == {"Wait", "Growth", "Borders"}


async def test_a_command_that_is_wrong_is_told_apart_from_a_chain_that_is_broken(
    api: dict[str, str], proven: Proven
) -> None:
    for words in ((), (proven.nodes["Wait"], "--all"), (proven.nodes["Wait"], "--agent", "x")):
        told = await vigil(api, "verify", *words)
        assert getattr(told.exception, "exit_code", None) == 2, words
    missing = await vigil(api, "verify", uuid4())
    assert "There is no conclusion" in str(missing.exception)


async def test_a_graph_is_taken_away_and_brought_back(
    api: dict[str, str], proven: Proven, tmp_path: Path, database_url: str
) -> None:
    file = tmp_path / "graph.jsonl"
    told = await vigil(api, "export", "watcher", "--output", file, "--json")
    assert told.exit_code == 0, told.output
    assert json.loads(told.stdout)["bytes"] == file.stat().st_size
    assert files_in(tmp_path) == [file]
    piped = await vigil(api, "export", "watcher")
    assert piped.stdout.splitlines()[1:-1] == file.read_text().splitlines()[1:-1]
    direct = {"VIGIL_DATABASE_URL": database_url, "VIGIL_OWNER": OWNER}
    made = await vigil(direct, "import", file, "--json", "--name", "Brought back")
    assert made.exit_code == 0, made.output
    assert json.loads(made.stdout)["counts"]["evidence"] == 7
    whole = await vigil(api, "verify", "--all", "--json")
    assert [(each["name"], each["holds"]) for each in json.loads(whole.stdout)] == [
        ("Brought back", True),
        ("watcher", True),
    ]
    shown = await vigil(api, "agent", "show", "Brought back", "--json")
    assert json.loads(shown.stdout)["active"] is False


@pytest.mark.parametrize("wanted", ["graphml", "prov"])
async def test_other_formats_are_written_too(
    api: dict[str, str], proven: Proven, tmp_path: Path, wanted: str
) -> None:
    file = tmp_path / "graph"
    told = await vigil(api, "export", "watcher", "--format", wanted, "--output", file)
    assert told.exit_code == 0, told.output
    assert "Ghana" in file.read_text()


async def test_what_cannot_be_exported_or_imported_leaves_no_file_and_no_agent(
    api: dict[str, str], proven: Proven, tmp_path: Path, database_url: str
) -> None:
    missing = await vigil(api, "export", "nobody", "--output", tmp_path / "none")
    assert "There is no agent" in str(missing.exception)
    assert files_in(tmp_path) == []
    file = tmp_path / "graph.jsonl"
    await vigil(api, "export", "watcher", "--output", file)
    cut = tmp_path / "cut.jsonl"
    cut.write_bytes(file.read_bytes()[:-50])
    direct = {"VIGIL_DATABASE_URL": database_url, "VIGIL_OWNER": OWNER}
    told = await vigil(direct, "import", cut)
    assert "cut short, export it again. Nothing was imported." in str(told.exception)
    nobody = await vigil(direct, "import", file, "--user", "nobody")
    assert getattr(nobody.exception, "exit_code", None) == 2
    listed = await vigil(api, "agent", "list", "--json")
    assert [each["name"] for each in json.loads(listed.stdout)] == ["watcher"]
