"""Completion in a shell: candidates, the scripts, and silence where the API is away."""

import http.server
import json
import os
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest
import typer

from cli.app import build_app
from cli.completion import SCRIPTS, SHELLS, candidates, complete
from tests.support.paths import ROOT

ROOT_COMMAND = typer.main.get_command(build_app())


def values(*words: str) -> list[str]:
    *before, incomplete = words
    return [each.value for each in candidates(ROOT_COMMAND, before, incomplete)]


class Agents(http.server.BaseHTTPRequestHandler):
    def do_GET(self) -> None:
        assert self.path.startswith("/api/v1/agents?limit=")
        body = json.dumps({"items": [{"name": "Lithium Supply"}, {"name": "Cocoa"}]}).encode()
        self.send_response(200)
        self.send_header("content-length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_request(self, code: int | str = "-", size: int | str = "-") -> None:
        """Prints nothing."""


@pytest.fixture
def api(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[str]:
    server = http.server.HTTPServer(("127.0.0.1", 0), Agents)
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    url = f"http://127.0.0.1:{server.server_port}"
    monkeypatch.setenv("VIGIL_URL", url)
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path))
    monkeypatch.setenv("VIGIL_DATA", str(tmp_path))
    yield url
    server.shutdown()
    thread.join(5)
    server.server_close()


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        (["ag"], ["agent"]),
        (["agent", "pa"], ["pause"]),
        (["inbox", ""], ["read", "mark", "accept", "dismiss", "reopen", "snooze"]),
        (["analyses", "x", "--dou"], ["--doubted"]),
        (["iterations", "x", "--status", ""], ["running", "completed", "failed", "quiet"]),
        (["graph", "x", "ne"], ["near"]),
        (["agent", "prompts", "x", "--phase", "obs"], ["observer"]),
        (["completion", "z"], ["zsh"]),
        (["costs", "x", "--by", "p"], ["phase"]),
        (["nonsense", "x"], []),
        (["whoami", ""], []),
    ],
)
def test_commands_options_and_choices_are_completed(words: list[str], expected: list[str]) -> None:
    assert values(*words) == expected


def test_an_option_is_not_offered_twice() -> None:
    assert "--json" in values("whoami", "--")
    assert "--json" not in values("whoami", "--json", "--")


def test_names_of_agents_are_completed(api: str) -> None:
    assert values("agent", "show", "") == ["Lithium Supply", "Cocoa"]
    assert values("verify", "--all", "--agent", "lith") == ["Lithium Supply"]
    assert values("run", "--timeout", "5", "co") == ["Cocoa"]
    assert values("run", "--url", api, "co") == ["Cocoa"]


def test_files_are_completed(tmp_path: Path) -> None:
    (tmp_path / "one.jsonl").touch()
    (tmp_path / "folder").mkdir()
    assert values("import", f"{tmp_path}/") == [f"{tmp_path}/folder/", f"{tmp_path}/one.jsonl"]
    assert values("export", "x", "--output", f"{tmp_path}/o") == [f"{tmp_path}/one.jsonl"]


def test_without_an_api_nothing_is_printed(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("VIGIL_URL", "http://127.0.0.1:9")
    assert complete(ROOT_COMMAND, "bash", ["agent", "show", ""]) == 1
    output = capsys.readouterr()
    assert (output.out, output.err) == ("", "")


@pytest.mark.usefixtures("api")
def test_the_script_for_bash_completes_a_name_with_spaces(tmp_path: Path) -> None:
    program = tmp_path / "bin" / "vigil"
    program.parent.mkdir()
    program.write_text(f'#!/bin/sh\nexec {sys.executable} -m cli "$@"\n')
    program.chmod(0o755)
    line = (
        'eval "$(vigil completion bash)"; COMP_WORDS=(vigil agent show "$WORD"); COMP_CWORD=3;'
        ' _vigil_completion; printf "%s\\n" "${COMPREPLY[@]}"'
    )
    for word, expected in (("li", "Lithium\\ Supply\n"), ('"li', "Lithium Supply\n")):
        result = subprocess.run(
            ["bash", "-c", line],
            env={
                **os.environ,
                "PATH": f"{program.parent}:{os.environ['PATH']}",
                "PYTHONPATH": str(ROOT),
                "WORD": word,
            },
            capture_output=True,
            text=True,
            timeout=60,
            check=True,
        )
        assert (result.stdout, result.stderr) == (expected, "")


def test_there_is_a_script_for_each_shell() -> None:
    assert set(SCRIPTS) == set(SHELLS)
    assert all("_VIGIL_COMPLETE=" in script for script in SCRIPTS.values())
