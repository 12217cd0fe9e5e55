"""The command line itself: quick to help, and clear when something is wrong."""

import subprocess
import sys
from pathlib import Path

import pytest
import typer
from typer.testing import CliRunner

from cli.main import COMMANDS as ENTRIES
from cli.main import LazyCommands, build_app

HEAVY = {
    *("sqlalchemy", "httpx", "nats", "faststream", "openai", "fastapi", "psycopg", "alembic"),
    *("psutil", "pydantic"),
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
    clean = {"PATH": "/usr/bin:/bin", "HOME": "/nonexistent", **environment}
    command = [sys.executable, "-m", "cli", *arguments]
    return subprocess.run(
        command, capture_output=True, text=True, env=clean, timeout=60, check=False
    )


def test_the_command_explains_itself() -> None:
    done = vigil("--help")
    assert done.returncode == 0
    assert "Usage: vigil" in done.stdout


@pytest.mark.parametrize("command", COMMANDS)
def test_every_command_explains_itself(command: str) -> None:
    done = CliRunner().invoke(build_app(), [*command.split(), "--help"], prog_name="vigil")
    assert done.exit_code == 0
    assert f"Usage: vigil {command}" in done.output


def test_every_command_with_a_url_takes_a_token_and_a_profile() -> None:
    runner, app = CliRunner(), build_app()
    with_url = []
    for command in COMMANDS:
        if command == "try-model":
            continue  # its --url is that of a model server
        shown = runner.invoke(app, [*command.split(), "--help"])
        assert shown.exit_code == 0, command
        if "--url" in shown.output:
            with_url.append(command)
            assert "--token" in shown.output, command
            assert "--profile" in shown.output, command
    assert len(with_url) > 40


def loaded_modules(*arguments: str) -> set[str]:
    probe = (
        "import sys\n"
        "from cli.main import main\n"
        "try: main()\n"
        "except SystemExit: print('\\nloaded', *sys.modules)"
    )
    ended = subprocess.run(
        [sys.executable, "-c", probe, *arguments],
        capture_output=True,
        text=True,
        check=True,
        timeout=60,
        env={"PATH": "/usr/bin:/bin", "HOME": "/nonexistent"},
    )
    return set(ended.stdout.splitlines()[-1].split())


def test_help_imports_no_heavy_library() -> None:
    assert loaded_modules("--help") & HEAVY == set()


@pytest.mark.parametrize(
    "arguments", [["agent", "list"], ["graph", "x"], ["inbox"], ["source", "list", "x"], ["whoami"]]
)
def test_a_command_of_the_api_imports_no_engine(arguments: list[str]) -> None:
    engines = {"sqlalchemy", "nats", "faststream", "psycopg", "alembic", "psutil", "openai"}
    assert loaded_modules(*arguments) & engines == set()


def test_the_list_of_commands_repeats_the_help_of_each() -> None:
    root = typer.main.get_command(build_app())
    assert isinstance(root, LazyCommands)
    for name, entry in ENTRIES.items():
        assert root.load_command(name).help.split("\n")[0] == entry.summary


def test_where_nothing_runs_it_says_how_to_begin(tmp_path: Path) -> None:
    nowhere = (
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
    for arguments in nowhere:
        told = vigil(*arguments, VIGIL_DATA=str(tmp_path))
        assert told.returncode == 1
        assert "no Vigil is running here" in told.stderr
        assert "vigil up" in told.stderr
        assert "Traceback" not in told.stderr


@pytest.mark.parametrize(
    ("url", "words"), [("http://127.0.0.1:1", "no Vigil answers"), ("nonsense", "not the URL")]
)
def test_an_api_that_is_not_there_is_told(url: str, words: str) -> None:
    told = vigil("agent", "list", "--url", url)
    assert (told.returncode, words in told.stderr, told.stdout) == (1, True, "")


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["agent", "create", "Watch something", "--interval", "soon"], "soon"),
        (["agent", "create", "Watch something", "--model", "observer"], "PHASE=NAME"),
        (["agent", "prompts", "x", "--phase", "dreaming"], "there are: observer, "),
        (["agent", "prompts", "x", "--edit"], "--phase observer"),
        (["agent", "configure", "x", "--keep", "dreaming"], "there are: observer, "),
        (["dead-letters", "retry"], "or say --all"),
        (["dead-letters", "discard", "a1b2", "--all"], "or say --all"),
        (["token", "create", "x", "--expires", "soon"], "90d, or never"),
        (["token", "create", "x", "--scope", "all"], "read, write, operator"),
        (["agent", "list", "--token", "vgl_x"], "is not a token"),
        (["agent", "list", "--profile", "x"], "no profile 'x'"),
        (["tail", "nonsense"], "no event is named"),
        (["tail", "--since", "x"], "not a duration"),
        (["demo", "--corpus", "/nonexistent/folder", "--mission", "Watch it"], "no corpus at"),
        (["demo", "--corpus", "tests/corpus"], "--mission"),
        (["up", "--corpus", "/nonexistent/folder"], "no corpus at"),
    ],
)
def test_what_cannot_be_used_is_told_before_anything_is_done(
    arguments: list[str], words: str
) -> None:
    told = vigil(*arguments)
    assert (told.returncode, told.stdout) == (2, "")
    assert words in told.stderr
    assert "Traceback" not in told.stderr


def test_a_data_directory_that_cannot_be_is_told(tmp_path: Path) -> None:
    file = tmp_path / "file"
    file.touch()
    told = vigil("up", "--data", str(file))
    assert told.returncode == 1
    assert "it is a file, not a directory" in told.stderr


def test_doctor_finds_a_missing_corpus_and_says_how_to_mend_it(tmp_path: Path) -> None:
    told = vigil("doctor", "--corpus", "/nonexistent/folder", VIGIL_DATA=str(tmp_path / "data"))
    assert told.returncode == 1
    assert "no corpus at /nonexistent/folder" in told.stdout
    assert "1 problem found" in told.stdout


def test_doctor_tells_that_keys_are_set_and_never_what_they_are(tmp_path: Path) -> None:
    told = vigil(
        "doctor",
        "--json",
        VIGIL_DATA=str(tmp_path / "data"),
        OPENAI_API_KEY="sk-secret",
        OPENAI_BASE_URL="http://127.0.0.1:1/v1",
    )
    assert '"OPENAI_API_KEY"' in told.stdout
    assert "does not answer" in told.stdout
    assert "sk-secret" not in told.stdout + told.stderr
    assert told.returncode == 1
