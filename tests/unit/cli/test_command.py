"""The command line: fast help and clear error messages."""

import subprocess
import sys
from pathlib import Path

import pytest
import typer
from typer.testing import CliRunner

from cli.app import COMMANDS as ENTRIES
from cli.app import LazyCommands, build_app
from tests.support.warm_processes import run_vigil

HEAVY = {
    *("sqlalchemy", "httpx", "nats", "faststream", "openai", "fastapi", "psycopg", "alembic"),
    *("psutil", "pydantic", "rich", "markdown_it", "pygments", "hashlib", "asyncio"),
}
COMMANDS = [
    "",
    "up",
    "demo",
    "try-model",
    "doctor",
    "migrate",
    "run",
    "chat",
    "memory",
    "memory list",
    "memory add",
    "memory forget",
    "tail",
    "graph",
    "source",
    "source list",
    "source show",
    "inbox",
    "inbox read",
    "inbox mark",
    "iterations",
    "iteration",
    "analyses",
    "advice",
    "verify",
    "export",
    "import",
    "costs",
    "budget",
    "agent",
    "agent create",
    "agent edit",
    "dead-letters",
    "dead-letters list",
    "dead-letters show",
    "dead-letters retry",
    "dead-letters discard",
    "destination",
    "destination list",
    "destination add",
    "destination show",
    "destination test",
    "destination pause",
    "destination resume",
    "destination rotate-secret",
    "destination retry",
    "destination remove",
    "login",
    "logout",
    "whoami",
    "sign-in-link",
    "token",
    "token create",
    "token list",
    "token revoke",
    "user",
    "user add",
    "user list",
    "user disable",
    "user enable",
    "user remove",
]


def vigil(*arguments: str, **environment: str) -> subprocess.CompletedProcess[str]:
    variables = {"PATH": "/usr/bin:/bin", "HOME": "/nonexistent", **environment}
    return run_vigil(arguments, variables, timeout_seconds=60)


def test_the_program_has_help() -> None:
    result = vigil("--help")
    assert result.returncode == 0
    assert "Usage: vigil" in result.stdout


@pytest.mark.parametrize("command", COMMANDS)
def test_every_command_has_help(command: str) -> None:
    result = CliRunner().invoke(build_app(), [*command.split(), "--help"], prog_name="vigil")
    assert result.exit_code == 0
    assert f"Usage: vigil {command}" in result.output


def test_every_command_with_a_url_takes_a_token_and_a_profile() -> None:
    runner, app = CliRunner(), build_app()
    url_commands = []
    for command in COMMANDS:
        if command == "try-model":
            continue  # its --url is that of a model server
        result = runner.invoke(app, [*command.split(), "--help"])
        assert result.exit_code == 0, command
        if "--url" in result.output:
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


def test_the_list_of_commands_repeats_the_help_of_each() -> None:
    root = typer.main.get_command(build_app())
    assert isinstance(root, LazyCommands)
    for name, entry in ENTRIES.items():
        assert root.load_command(name).help.split("\n")[0] == entry.summary


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
    ("arguments", "words"),
    [
        (["agent", "create", "Watch something", "--interval", "soon"], "soon"),
        (["agent", "create", "Watch something", "--model", "observer"], "PHASE=NAME"),
        (["agent", "prompts", "x", "--phase", "dreaming"], "choose from observer, "),
        (["agent", "prompts", "x", "--edit"], "--phase observer"),
        (["agent", "configure", "x", "--keep", "dreaming"], "choose from observer, "),
        (["dead-letters", "retry"], "or use --all"),
        (["dead-letters", "discard", "a1b2", "--all"], "or use --all"),
        (["token", "create", "x", "--expires", "soon"], "90d, or never"),
        (["token", "create", "x", "--scope", "all"], "read, write, operator"),
        (["agent", "list", "--token", "vgl_x"], "is not a token"),
        (["agent", "list", "--profile", "x"], "no profile 'x'"),
        (["tail", "nonsense"], "no event matches"),
        (["tail", "--since", "x"], "not a duration"),
        (["demo", "--corpus", "/nonexistent/folder", "--mission", "Watch it"], "no corpus at"),
        (["demo", "--iterations", "0"], "--iterations"),
        (["up", "--corpus", "/nonexistent/folder"], "no corpus at"),
    ],
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
