"""The `vigil try-model` command with real processes and engines, and various model servers."""

import json
import os
import signal
import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from cli.local.ports import free_port
from tests.support.e2e.installation import Installation, installed
from tests.support.scripted_server import Reply, as_stream, completion, json_reply, serve_model
from tests.support.waiting import wait_for

INTERRUPTED = 130
KEY = "sk-of-the-owner"
NONSENSE = "The moon is made of green cheese."


@pytest.fixture
def scratch(tmp_path: Path) -> Path:
    """The directory of temporary installations, which must be empty afterwards."""
    directory = tmp_path / "scratch"
    directory.mkdir()
    return directory


@pytest.fixture
def vigil(tmp_path: Path, scratch: Path) -> Iterator[Installation]:
    with installed(tmp_path, {"TMPDIR": str(scratch), "THE_KEY": KEY}) as installation:
        yield installation


@contextmanager
def nonsense(until: threading.Event | None = None) -> Iterator[str]:
    """A server that answers everything with the same text; configuration requests not before `until` is set."""

    def answer(path: str, body: Mapping[str, Any]) -> Reply:
        if path.endswith("/models"):
            return json_reply({"data": [{"id": "cheese"}]})
        schema = body.get("response_format", {}).get("json_schema", {}).get("name")
        if until is not None and schema == "agent_configuration":
            until.wait(120)
        return as_stream(NONSENSE) if body.get("stream") else json_reply(completion(NONSENSE))

    with serve_model(answer) as url:
        yield url


@pytest.mark.slow
def test_the_sandbox_is_used_if_no_server_is_configured(
    vigil: Installation, scratch: Path, tmp_path: Path
) -> None:
    file = tmp_path / "report.json"
    result = vigil.vigil("try-model", "--json", "--output", str(file))
    assert result.returncode == 0, result.stdout + result.stderr
    assert "No model server is configured" in result.stderr
    report = json.loads(result.stdout)
    assert report == json.loads(file.read_text())
    assert report["report_version"] == 1
    assert report["server"] == {
        "url": None,
        "model": "sandbox-reader",
        "search": "sandbox, over the CIA World Factbook",
    }
    assert report["run"]["ended"] == "finished"
    assert report["run"]["iterations_completed"] == 1
    assert report["preflight"]["conversations"] == {}
    phases = {phase["phase"]: phase for phase in report["phases"]}
    for name in ("configuration", "observer", "knowledge_acquisition", "graph_construction"):
        assert phases[name]["status"] == "worked", phases[name]
        assert phases[name]["output_tokens"] > 0
        assert phases[name]["seconds"] > 0
    assert report["facts"]["right"] > 10
    assert report["facts"]["wrong"] == 0, report["facts"]["wrong_examples"]
    assert report["graph"]["nodes"] > 0
    assert report["graph"]["evidence"] > 0
    assert report["structured"]["first_try"] >= 3
    assert report["tools"]["made"] > 0
    assert report["verification"]["holds"]
    assert report["verdict"]["word"] in ("usable", "usable with repairs")
    assert report["costs"]["price"]["source"] == "listed"
    assert report["costs"]["spent_usd"] <= report["costs"]["budget_usd"] == 0.5
    assert os.listdir(scratch) == []

    comparison = vigil.vigil("try-model", "--compare", str(file), "--compare", str(file))
    assert comparison.returncode == 0, comparison.stderr
    assert comparison.stdout.count("sandbox-reader") == 2


@pytest.mark.slow
def test_a_model_that_answers_nonsense_is_not_usable(
    vigil: Installation, scratch: Path, tmp_path: Path
) -> None:
    file = tmp_path / "report.json"
    with nonsense() as url:
        result = vigil.vigil(
            *("try-model", "--url", url, "--key-env", "THE_KEY", "--output", str(file)),
            *("--time-limit", "90s"),
        )
    assert result.returncode == 1, result.stdout + result.stderr
    assert "not usable" in result.stdout
    assert str(file) in result.stdout
    report = json.loads(file.read_text())
    assert (report["server"]["url"], report["server"]["model"]) == (url, "cheese")
    assert report["verdict"]["word"] == "not usable"
    assert not report["preflight"]["conversations"]["Two turns of tools"]["works"]
    assert report["costs"]["price"]["source"] == "own_server"
    assert KEY not in file.read_text() + result.stdout + result.stderr
    assert os.listdir(scratch) == []


def test_an_unusable_server_is_reported_before_anything_is_started(
    vigil: Installation, scratch: Path
) -> None:
    url = f"http://127.0.0.1:{free_port()}/v1"
    result = vigil.vigil("try-model", "--url", url, "--model", "m")
    assert (result.returncode, f"{url} does not answer" in result.stderr) == (2, True), (
        result.stderr
    )
    page = Reply(200, b"<html><title>Welcome</title></html>", "text/html")
    with serve_model(lambda *_: page) as url:
        result = vigil.vigil("try-model", "--url", url, "--model", "m", "--json")
        assert (result.returncode, result.stdout) == (2, "")
        assert all(word in result.stderr for word in (url, "web page titled 'Welcome'"))
    for arguments in (
        ("--url", "host"),
        ("--model", "m"),
        ("--key-env", "NO_SUCH_VARIABLE"),
        ("--time-limit", "soon"),
        ("--budget-usd", "0"),
        ("--output", "/no/such/directory/report.json"),
        ("--compare", "/no/such/report.json"),
    ):
        assert vigil.vigil("try-model", *arguments).returncode == 2, arguments
    assert os.listdir(scratch) == []


@pytest.mark.slow
def test_the_time_limit_and_ctrl_c_end_the_run_with_a_report(
    vigil: Installation, scratch: Path, tmp_path: Path
) -> None:
    file = tmp_path / "report.json"
    go_on = threading.Event()
    with nonsense(go_on) as url:
        command = ("try-model", "--url", url, "--output", str(file))
        result = vigil.vigil(*command, "--time-limit", "1s")
        assert result.returncode == 1, result.stdout + result.stderr
        assert "not finished: the time limit was reached" in result.stdout
        assert json.loads(file.read_text())["run"]["ended"] == "time_limit"
        file.unlink()

        vigil.begin(*command)
        wait_for(lambda: "Watch electricity" in vigil.output or None, "the agent to be created")
        assert vigil.end(signal.SIGINT) == INTERRUPTED
        go_on.set()
    report = json.loads(file.read_text())
    assert report["run"]["ended"] == "interrupted"
    assert report["verdict"]["sentence"] == "not finished: it was interrupted"
    assert "not finished: it was interrupted" in vigil.output
    assert os.listdir(scratch) == []


@pytest.mark.slow
def test_an_exhausted_budget_ends_the_run_with_a_report(
    vigil: Installation, tmp_path: Path
) -> None:
    file = tmp_path / "report.json"
    budget = ("--budget-usd", "0.05", "--price", "0.75,4.50")
    result = vigil.vigil("try-model", "--output", str(file), *budget)
    assert result.returncode == 1, result.stdout + result.stderr
    report = json.loads(file.read_text())
    assert report["run"]["ended"] == "budget"
    assert 0 < report["costs"]["spent_usd"] <= 0.05
    assert report["costs"]["output_limit_tokens"] < 16_000
    assert "not finished: the budget is used up" in result.stdout
