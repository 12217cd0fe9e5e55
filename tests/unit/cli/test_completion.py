"""Completion in a shell: commands, options and names of agents, and silence where the API is away."""

import http.server
import json
import os
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support.case_files import read_cases
from tests.support.paths import ROOT
from tests.support.responses import agent
from tests.support.warm_processes import run_vigil

CASES = read_cases(__file__)


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
