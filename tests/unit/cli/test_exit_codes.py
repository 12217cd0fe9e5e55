"""Exit codes, as docs/reference/cli.md lists them, and what `vigil up` refuses before it starts anything."""

import os
import socket
from collections.abc import Mapping
from pathlib import Path

import pytest

from tests.support.case_files import read_cases
from tests.support.cli.garbage_api import ANSWERS, answering
from tests.support.paths import ROOT
from tests.support.warm_processes import run_vigil

CASES = read_cases(__file__)

NOTHING_LISTENS = "http://127.0.0.1:9"


def environment(home: Path, **variables: str) -> dict[str, str]:
    return {
        "PATH": os.environ["PATH"],
        "PYTHONPATH": str(ROOT),
        "HOME": str(home),
        "VIGIL_DATA": str(home / "data"),
        **variables,
    }


@pytest.mark.parametrize(
    ("arguments", "exit_code"),
    [
        ("--help", 0),
        ("--version", 0),
        ("completion fish", 0),
        ("agent list", 1),
        (f"agent list --url {NOTHING_LISTENS}", 1),
        (f"verify --all --url {NOTHING_LISTENS}", 1),
        ("logout", 2),
        ("", 2),
        ("agent", 2),
        ("agnt", 2),
        ("agent show", 2),
        ("agent list extra", 2),
        ("agent list --nonsense", 2),
        ("iterations x --limit 0", 2),
        ("iterations x --limit many", 2),
        ("costs --by moon", 2),
        ("verify", 2),
        ("token create x --expires soon", 2),
    ],
)
def test_a_command_ends_with_the_documented_exit_code(
    tmp_path: Path, arguments: str, exit_code: int
) -> None:
    result = run_vigil(arguments.split(), environment(tmp_path), timeout_seconds=60)
    assert result.returncode == exit_code, result.stdout + result.stderr
    assert (result.stderr == "") is (exit_code == 0)


@pytest.mark.parametrize(("arguments", "words"), CASES["a_wrong_command_line_is_explained"])
def test_a_wrong_command_line_is_explained(tmp_path: Path, arguments: str, words: str) -> None:
    result = run_vigil(arguments.split(), environment(tmp_path), timeout_seconds=60)
    assert words in result.stderr
    assert result.stdout == ""


def test_a_port_that_is_taken_is_an_error(tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        port = listener.getsockname()[1]
        result = run_vigil(["up", "--port", str(port)], environment(tmp_path), timeout_seconds=60)
    assert result.returncode == 2, result.stderr
    assert f"port {port} is in use by " in result.stderr
    assert f"(process {os.getpid()})" in result.stderr
    assert "name another port with --port" in result.stderr


@pytest.mark.parametrize(
    "variables", CASES["a_key_that_the_provider_refuses_is_an_error_before_anything_starts"]
)
def test_a_key_that_the_provider_refuses_is_an_error_before_anything_starts(
    tmp_path: Path, variables: Mapping[str, str]
) -> None:
    with answering(ANSWERS["refused"]) as url:
        values = {name: value.replace("URL", url) for name, value in variables.items()}
        result = run_vigil(["up"], environment(tmp_path, **values), timeout_seconds=60)
    assert result.returncode == 2, result.stderr
    assert "refuses the key in " in result.stderr
    assert "secret" not in result.stdout + result.stderr
    assert not (tmp_path / "data").exists()
