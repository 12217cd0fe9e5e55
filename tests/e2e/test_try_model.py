"""`vigil try-model` as an owner uses it: real processes and engines, and model servers of every kind."""

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
from tests.support.stand_in import Said, as_stream, completion, said, standing_in
from tests.support.waiting import waited_for

INTERRUPTED = 130
KEY = "sk-of-the-owner"
NONSENSE = "The moon is made of green cheese."


@pytest.fixture
def scratch(tmp_path: Path) -> Path:
    """Where throwaway installations are made, and nothing may be left."""
    made = tmp_path / "scratch"
    made.mkdir()
    return made


@pytest.fixture
def vigil(tmp_path: Path, scratch: Path) -> Iterator[Installation]:
    with installed(tmp_path, {"TMPDIR": str(scratch), "THE_KEY": KEY}) as installation:
        yield installation


@contextmanager
def nonsense(until: threading.Event | None = None) -> Iterator[str]:
    """A server that answers everything with the same words; once configuring begins, not before `until`."""

    def answer(path: str, body: Mapping[str, Any]) -> Said:
        if path.endswith("/models"):
            return said({"data": [{"id": "cheese"}]})
        schema = body.get("response_format", {}).get("json_schema", {}).get("name")
        if until is not None and schema == "agent_configuration":
            until.wait(120)
        return as_stream(NONSENSE) if body.get("stream") else said(completion(NONSENSE))

    with standing_in(answer) as url:
        yield url


def test_the_sandbox_is_tried_where_no_server_is_configured(
    vigil: Installation, scratch: Path, tmp_path: Path
) -> None:
    file = tmp_path / "report.json"
    told = vigil.vigil("try-model", "--json", "--output", str(file))
    assert told.returncode == 0, told.stdout + told.stderr
    assert "No model server is configured" in told.stderr
    report = json.loads(told.stdout)
    assert report == json.loads(file.read_text())
    assert report["report_version"] == 1
    assert report["server"] == {
        "url": None,
        "model": "sandbox-reader",
        "search": "sandbox, over the CIA World Factbook",
    }
    assert report["run"]["ended"] == "finished"
    assert report["run"]["iterations_completed"] == 1
    for can in ("streaming", "tool_calls", "structured_output"):
        assert report["preflight"][can]["works"], report["preflight"]
    reached = {each["phase"]: each for each in report["phases"]}
    for phase in ("configuration", "observer", "knowledge_acquisition", "graph_construction"):
        assert reached[phase]["status"] == "worked", reached[phase]
        assert reached[phase]["output_tokens"] > 0
        assert reached[phase]["seconds"] > 0
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

    compared = vigil.vigil("try-model", "--compare", str(file), "--compare", str(file))
    assert compared.returncode == 0, compared.stderr
    assert compared.stdout.count("sandbox-reader") == 2


@pytest.mark.slow
def test_a_model_that_answers_nonsense_is_not_usable(
    vigil: Installation, scratch: Path, tmp_path: Path
) -> None:
    file = tmp_path / "report.json"
    with nonsense() as url:
        told = vigil.vigil(
            *("try-model", "--url", url, "--key-env", "THE_KEY", "--output", str(file)),
            *("--time-limit", "90s"),
        )
    assert told.returncode == 1, told.stdout + told.stderr
    assert "not usable" in told.stdout
    assert str(file) in told.stdout
    report = json.loads(file.read_text())
    assert (report["server"]["url"], report["server"]["model"]) == (url, "cheese")
    assert report["verdict"]["word"] == "not usable"
    assert not report["preflight"]["tool_calls"]["works"]
    assert report["costs"]["price"]["source"] == "own_server"
    assert KEY not in file.read_text() + told.stdout + told.stderr
    assert os.listdir(scratch) == []


def test_a_server_that_cannot_be_used_is_told_before_anything_is_started(
    vigil: Installation, scratch: Path
) -> None:
    url = f"http://127.0.0.1:{free_port()}/v1"
    told = vigil.vigil("try-model", "--url", url, "--model", "m")
    assert (told.returncode, f"{url} does not answer" in told.stderr) == (2, True), told.stderr
    page = Said(200, b"<html><title>Welcome</title></html>", "text/html")
    with standing_in(lambda *_: page) as url:
        told = vigil.vigil("try-model", "--url", url, "--model", "m", "--json")
        assert (told.returncode, told.stdout) == (2, "")
        assert all(word in told.stderr for word in (url, "web page titled 'Welcome'"))
    for wrong in (
        ("--url", "host"),
        ("--model", "m"),
        ("--key-env", "NO_SUCH_VARIABLE"),
        ("--time-limit", "soon"),
        ("--budget-usd", "0"),
        ("--output", "/no/such/directory/report.json"),
        ("--compare", "/no/such/report.json"),
    ):
        assert vigil.vigil("try-model", *wrong).returncode == 2, wrong
    assert os.listdir(scratch) == []


@pytest.mark.slow
def test_the_time_limit_and_ctrl_c_end_it_with_a_report(
    vigil: Installation, scratch: Path, tmp_path: Path
) -> None:
    file = tmp_path / "report.json"
    go_on = threading.Event()
    with nonsense(go_on) as url:
        tried = ("try-model", "--url", url, "--output", str(file))
        told = vigil.vigil(*tried, "--time-limit", "1s")
        assert told.returncode == 1, told.stdout + told.stderr
        assert "not finished: the time limit was reached" in told.stdout
        assert json.loads(file.read_text())["run"]["ended"] == "time_limit"
        file.unlink()

        vigil.begin(*tried)
        waited_for(lambda: "Watch electricity" in vigil.said or None, "the agent to be made")
        assert vigil.end(signal.SIGINT) == INTERRUPTED
        go_on.set()
    report = json.loads(file.read_text())
    assert report["run"]["ended"] == "interrupted"
    assert report["verdict"]["sentence"] == "not finished: it was interrupted"
    assert "not finished: it was interrupted" in vigil.said
    assert os.listdir(scratch) == []


@pytest.mark.slow
def test_a_budget_that_is_used_up_ends_it_with_a_report(
    vigil: Installation, tmp_path: Path
) -> None:
    file = tmp_path / "report.json"
    capped = ("--budget-usd", "0.05", "--price", "0.75,4.50")
    told = vigil.vigil("try-model", "--output", str(file), *capped)
    assert told.returncode == 1, told.stdout + told.stderr
    report = json.loads(file.read_text())
    assert report["run"]["ended"] == "budget"
    assert 0 < report["costs"]["spent_usd"] <= 0.05
    assert report["costs"]["output_limit_tokens"] < 16_000
    assert "not finished: the budget is used up" in told.stdout
