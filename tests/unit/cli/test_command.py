"""The command line: fast help and clear error messages."""

import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import typer
from typer.testing import CliRunner

from cli.app import COMMANDS as ENTRIES
from cli.app import build_app, load_command
from tests.support.case_files import read_cases
from tests.support.warm_processes import run_vigil

CASES = read_cases(__file__)

HEAVY = {
    *("sqlalchemy", "httpx", "nats", "faststream", "openai", "fastapi", "psycopg", "alembic"),
    *("psutil", "pydantic", "rich", "markdown_it", "pygments", "hashlib", "asyncio"),
}
COMMANDS = CASES["commands"]


def vigil(*arguments: str, **environment: str) -> subprocess.CompletedProcess[str]:
    variables = {"PATH": "/usr/bin:/bin", "HOME": "/nonexistent", **environment}
    return run_vigil(arguments, variables, timeout_seconds=60)


def test_the_program_has_help() -> None:
    result = vigil("--help")
    assert result.returncode == 0
    assert "Usage: vigil" in result.stdout


def test_every_command_has_help_and_each_with_a_url_takes_a_token_and_a_profile() -> None:
    runner, app = CliRunner(), build_app()
    url_commands = []
    for command in COMMANDS:
        result = runner.invoke(app, [*command.split(), "--help"], prog_name="vigil")
        assert result.exit_code == 0, command
        assert f"Usage: vigil {command}" in result.output
        # The --url of try-model is that of a model server.
        if "--url" in result.output and command != "try-model":
            url_commands.append(command)
            assert "--token" in result.output, command
            assert "--profile" in result.output, command
    assert len(url_commands) > 40


def loaded_modules(*arguments: str) -> set[str]:
    probe = (
        "import sys\n"
        "from cli.main import main\n"
        "try: main()\n"
        "except SystemExit: print('\\nloaded', *sys.modules)"
    )
    result = subprocess.run(
        [sys.executable, "-c", probe, *arguments],
        capture_output=True,
        text=True,
        check=True,
        timeout=60,
        env={"PATH": "/usr/bin:/bin", "HOME": "/nonexistent"},
    )
    return set(result.stdout.splitlines()[-1].split())


@pytest.mark.parametrize(
    "arguments", [["--help"], ["--version"], ["agent", "--help"], ["agent", "create", "--help"]]
)
def test_help_imports_no_heavy_library(arguments: list[str]) -> None:
    allowed = set() if arguments[0].startswith("--") else {"rich", "pydantic", "hashlib", "asyncio"}
    allowed |= {"httpx", "pygments", "markdown_it"} if len(arguments) > 1 else set()
    assert loaded_modules(*arguments) & HEAVY <= allowed


@pytest.mark.parametrize(
    "arguments", [["agent", "list"], ["graph", "x"], ["inbox"], ["source", "list", "x"], ["whoami"]]
)
def test_an_api_command_imports_no_engine(arguments: list[str]) -> None:
    engines = {"sqlalchemy", "nats", "faststream", "psycopg", "alembic", "psutil", "openai"}
    assert loaded_modules(*arguments) & engines == set()


ENGINES = {"sqlalchemy", "nats", "faststream", "psycopg", "alembic", "openai", "fastapi", "sandbox"}


@pytest.mark.parametrize(
    ("modules", "unneeded"),
    [
        ("cli.commands.agents", {*ENGINES, "asyncio", "psutil", "shared.events.models"}),
        ("cli.commands.local, cli.local.supervisor, cli.provider_check", {*ENGINES, "httpx"}),
    ],
)
def test_an_import_loads_nothing_that_only_other_commands_need(
    modules: str, unneeded: set[str]
) -> None:
    probe = f"import sys, {modules}; print(*sys.modules)"
    loaded = subprocess.check_output([sys.executable, "-c", probe], text=True, timeout=60)
    assert unneeded.intersection(loaded.split()) == set()


def test_the_list_of_commands_repeats_the_help_of_each() -> None:
    root: Any = typer.main.get_command(build_app())
    for name in ENTRIES:
        assert load_command(name).help.split("\n")[0] == root.get_command(None, name).help != ""


def test_without_an_installation_a_command_explains_how_to_start(tmp_path: Path) -> None:
    commands = (
        ["agent", "list"],
        ["run", "x"],
        ["chat", "x", "y"],
        ["memory", "list", "x"],
        ["tail"],
        ["inbox"],
        ["graph", "x"],
        ["graph", "x", "node", "y"],
        ["source", "list", "x"],
        ["dead-letters", "retry", "--all"],
        ["destination", "list"],
        ["destination", "add", "https://example.org"],
    )
    for arguments in commands:
        result = vigil(*arguments, VIGIL_DATA=str(tmp_path))
        assert result.returncode == 1
        assert "no Vigil is running here" in result.stderr
        assert "vigil up" in result.stderr
        assert "Traceback" not in result.stderr


@pytest.mark.parametrize(
    ("url", "words"), [("http://127.0.0.1:1", "Vigil does not answer"), ("nonsense", "not the URL")]
)
def test_an_unreachable_api_is_reported(url: str, words: str) -> None:
    result = vigil("agent", "list", "--url", url)
    assert (result.returncode, words in result.stderr, result.stdout) == (1, True, "")


@pytest.mark.parametrize(
    ("arguments", "words"), CASES["invalid_arguments_are_rejected_before_any_work"]
)
def test_invalid_arguments_are_rejected_before_any_work(arguments: list[str], words: str) -> None:
    result = vigil(*arguments)
    assert (result.returncode, result.stdout) == (2, "")
    assert words in result.stderr
    assert "Traceback" not in result.stderr


def test_an_impossible_data_directory_is_reported(tmp_path: Path) -> None:
    file = tmp_path / "file"
    file.touch()
    result = vigil("up", "--data", str(file))
    assert result.returncode == 1
    assert "it is a file, not a directory" in result.stderr


def test_doctor_reports_a_missing_corpus(tmp_path: Path) -> None:
    result = vigil("doctor", "--corpus", "/nonexistent/folder", VIGIL_DATA=str(tmp_path / "data"))
    assert result.returncode == 1
    assert "no corpus at /nonexistent/folder" in result.stdout
    assert "1 problem found" in result.stdout


def test_doctor_reports_that_keys_are_set_but_never_their_values(tmp_path: Path) -> None:
    result = vigil(
        "doctor",
        "--json",
        VIGIL_DATA=str(tmp_path / "data"),
        OPENAI_API_KEY="sk-secret",
        OPENAI_BASE_URL="http://127.0.0.1:1/v1",
    )
    assert '"OPENAI_API_KEY"' in result.stdout
    assert "does not answer" in result.stdout
    assert "sk-secret" not in result.stdout + result.stderr
    assert result.returncode == 1
