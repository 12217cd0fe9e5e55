"""Commands: arguments, references to agents, and the demo with its corpora."""

import http.server
import json
import os
import re
import shlex
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from uuid import UUID

import pytest
import typer
from typer.testing import CliRunner

from cli.app import COMMANDS as ENTRIES
from cli.app import build_app, load_command
from cli.reference import commands, document
from cli.references import Named, NoMatchError, find, is_id_prefix, short_ids
from tests.support.case_files import read_cases
from tests.support.paths import ROOT
from tests.support.responses import agent
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


def loaded_modules(*commands: list[str]) -> list[set[str]]:
    """The modules that are loaded after each command. One interpreter executes them one after another."""
    probe = (
        "import json, sys\n"
        "from cli.main import main\n"
        "for arguments in json.loads(sys.argv[1]):\n"
        "    sys.argv[1:] = arguments\n"
        "    try: main()\n"
        "    except SystemExit: print('\\nloaded', *sys.modules)"
    )
    result = subprocess.run(
        [sys.executable, "-c", probe, json.dumps(commands)],
        capture_output=True,
        text=True,
        check=True,
        timeout=60,
        env={"PATH": "/usr/bin:/bin", "HOME": "/nonexistent"},
    )
    lines = [line for line in result.stdout.splitlines() if line.startswith("loaded ")]
    return [set(line.split()) for line in lines]


def test_help_imports_no_heavy_library() -> None:
    in_color = {"rich", "pydantic", "hashlib", "asyncio", "httpx", "pygments", "markdown_it"}
    commands = [["--help"], ["--version"], ["agent", "--help"], ["agent", "create", "--help"]]
    for command, loaded in zip(commands, loaded_modules(*commands), strict=True):
        assert loaded & HEAVY <= (in_color if command[0] == "agent" else set()), command


def test_an_api_command_imports_no_engine() -> None:
    engines = {"sqlalchemy", "nats", "faststream", "psycopg", "alembic", "psutil", "openai"}
    commands = [["agent", "list"], ["graph", "x"], ["inbox"], ["source", "list", "x"], ["whoami"]]
    for command, loaded in zip(commands, loaded_modules(*commands), strict=True):
        assert loaded & engines == set(), command


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


class Agents(http.server.BaseHTTPRequestHandler):
    def do_GET(self) -> None:
        assert self.path.startswith("/api/v1/agents?limit=")
        agents = [agent(name).model_dump(mode="json") for name in ("Lithium Supply", "Cocoa")]
        body = json.dumps({"items": agents, "next": None}).encode()
        self.send_response(200)
        self.send_header("content-length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_request(self, code: int | str = "-", size: int | str = "-") -> None:
        """Prints nothing."""


@pytest.fixture
def api() -> Iterator[str]:
    server = http.server.HTTPServer(("127.0.0.1", 0), Agents)
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    yield f"http://127.0.0.1:{server.server_port}"
    server.shutdown()
    thread.join(5)
    server.server_close()


def completed(home: Path, line: str, **variables: str) -> list[str]:
    """The candidates for the last word of the line, which may be empty."""
    words = line.split(" ")
    environment = {
        "PATH": os.environ["PATH"],
        "PYTHONPATH": str(ROOT),
        "HOME": str(home),
        "_VIGIL_COMPLETE": "complete_bash",
        "COMP_WORDS": line,
        **variables,
        "COMP_CWORD": str(len(words) - 1),
    }
    result = run_vigil([], environment, timeout_seconds=60)
    assert (result.returncode, result.stderr) == (0, "")
    return result.stdout.split("\n")[:-1]


@pytest.mark.parametrize(("line", "expected"), CASES["commands_options_and_choices_are_completed"])
def test_commands_options_and_choices_are_completed(
    tmp_path: Path, line: str, expected: list[str]
) -> None:
    assert completed(tmp_path, line) == expected


def test_names_of_agents_are_completed(tmp_path: Path, api: str) -> None:
    names = ["Lithium\\ Supply", "Cocoa"]
    assert completed(tmp_path, "vigil agent show ", VIGIL_URL=api) == names
    assert completed(tmp_path, f"vigil run --url {api} Co") == ["Cocoa"]


def test_without_an_api_no_name_is_completed(tmp_path: Path) -> None:
    assert completed(tmp_path, "vigil agent show ", VIGIL_URL="http://127.0.0.1:9") == [""]


def test_the_script_for_bash_completes_a_name_with_spaces(tmp_path: Path, api: str) -> None:
    program = tmp_path / "bin" / "vigil"
    program.parent.mkdir()
    program.write_text(f'#!/bin/sh\nexec {sys.executable} -m cli "$@"\n')
    program.chmod(0o755)
    line = (
        'eval "$(vigil completion bash)"; COMP_WORDS=(vigil agent show Li); COMP_CWORD=3;'
        ' _vigil_completion vigil; printf "%s\\n" "${COMPREPLY[@]}"'
    )
    path = f"{program.parent}:{os.environ['PATH']}"
    variables = {**os.environ, "PATH": path, "PYTHONPATH": str(ROOT), "HOME": str(tmp_path)}
    result = subprocess.run(
        ["bash", "-c", line],
        env={**variables, "VIGIL_URL": api},
        capture_output=True,
        text=True,
        timeout=60,
        check=True,
    )
    assert (result.stdout, result.stderr) == ("Lithium\\ Supply\n", "")


REFERENCE = (ROOT / "docs/reference/cli.md").read_text()


def all_commands() -> Iterator[tuple[str, Any]]:
    for name, command in commands().items():
        yield name, command
        for subname, subcommand in getattr(command, "commands", {}).items():
            yield f"{name} {subname}", subcommand


def test_the_reference_is_current() -> None:
    assert document(REFERENCE) == REFERENCE, "run make cli-reference"


def test_every_example_is_a_valid_command_line() -> None:
    examples = REFERENCE.partition("## Examples\n\n```\n")[2].partition("```")[0].splitlines()
    assert len(examples) > 30
    for line in examples:
        _, name, *rest = shlex.split(re.sub(r'^eval "\$\((.*)\)"$', r"\1", line))
        command = load_command(name)
        if rest and rest[0] in getattr(command, "commands", {}):
            command, rest = command.commands[rest[0]], rest[1:]
        with command.make_context(name, rest) as context:
            assert context.args == [], line


def test_every_option_and_argument_is_explained() -> None:
    for path, command in all_commands():
        for parameter in command.params:
            assert parameter.help, (path, parameter.name)
            assert parameter.help.endswith((".", "?")), (path, parameter.name, parameter.help)


LITHIUM = Named(UUID("a1b2c3d4-0000-4000-8000-000000000001"), ["Lithium Supply"])
LITHIUM_PRICES = Named(UUID("a1b2c3d4-0000-4000-8000-000000000002"), ["Lithium Supply Prices"])
COCOA = Named(UUID("c0c0a000-0000-4000-8000-000000000003"), ["Cocoa", "https://cocoa.example"])
ALL = [LITHIUM, LITHIUM_PRICES, COCOA]


def found(reference: str, items: list[Named] = ALL) -> Named:
    return find("agent", reference, items, lambda each: each, see="vigil agent list")


@pytest.mark.parametrize(
    ("reference", "expected"),
    [
        ("cocoa", COCOA),
        ("COC", COCOA),
        ("c", COCOA),
        (" Cocoa ", COCOA),
        ("https://coc", COCOA),
        ("c0c0", COCOA),
        ("c0c0a000-0000", COCOA),
        (str(COCOA.id).upper(), COCOA),
        ("lithium supply", LITHIUM),
        ("lithium  supply p", LITHIUM_PRICES),
        ("a1b2c3d4-0000-4000-8000-000000000002", LITHIUM_PRICES),
    ],
)
def test_the_beginning_of_a_name_or_id_is_enough_and_an_exact_name_wins(
    reference: str, expected: Named
) -> None:
    assert found(reference) == expected


@pytest.mark.parametrize("reference", ["l", "lithium", "a1b2c3d4"])
def test_an_ambiguous_name_lists_the_candidates_with_distinct_ids(reference: str) -> None:
    with pytest.raises(NoMatchError) as error:
        found(reference)
    for each in (LITHIUM, LITHIUM_PRICES):
        assert f"{each.names[0]} ({each.id})" in str(error.value)
    assert "Cocoa" not in str(error.value)
    assert error.value.exit_code == 1


@pytest.mark.parametrize(("reference", "words"), CASES["an_unknown_name_suggests_what_is_near"])
def test_an_unknown_name_suggests_what_is_near(reference: str, words: str) -> None:
    with pytest.raises(NoMatchError) as error:
        found(reference)
    assert words in str(error.value)


def test_many_candidates_are_counted() -> None:
    many = [Named(UUID(int=number), [f"Agent {number}"]) for number in range(9)]
    with pytest.raises(NoMatchError, match="and 4 more"):
        found("agent", many)


def test_short_ids_are_distinct() -> None:
    assert short_ids([LITHIUM.id, COCOA.id]) == {LITHIUM.id: "a1b2c3d4", COCOA.id: "c0c0a000"}
    both = short_ids([LITHIUM.id, LITHIUM_PRICES.id])
    assert len(set(both.values())) == 2


@pytest.mark.parametrize(
    ("text", "expected"),
    [("a1b2", True), ("A1B2c3d4-00", True), ("a1b", False), ("soon", False), ("a1b2" * 20, False)],
)
def test_the_beginning_of_an_id_is_recognized(text: str, expected: bool) -> None:
    assert is_id_prefix(text) is expected
