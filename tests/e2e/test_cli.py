"""The `vigil` commands with real processes and engines; the sandbox replaces the model and the web."""

import json
import os
import re
import shutil
import signal
import sys
from collections.abc import Iterator
from pathlib import Path

import httpx
import psutil
import pytest

from cli.local.members import API, CONSUMER_SERVICES, PROCESSES
from shared.version import vigil_version
from tests.support.e2e.installation import MISSION, Installation, installed
from tests.support.observability.scraping import parse, value
from tests.support.paths import CORPUS
from tests.support.waiting import wait_for
from tests.support.webhook_server import Hit, receiving

INTERRUPTED = 130
SIGN_IN_LINK = re.compile(r"http://127\.0\.0\.1:\d+/\S*sign-in\S+")
DEMO_KEYS = {
    *(
        "iterations",
        "completed",
        "failed",
        "nodes",
        "edges",
        "analyses",
        "advice",
        "advice_intact",
    ),
    *("llm_calls", "search_calls", "cost_usd", "seconds", "corpus", "mission", "model"),
}


@pytest.fixture(scope="module")
def vigil(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Installation]:
    """One installation for the tests that do not restart it."""
    with installed(tmp_path_factory.mktemp("installation")) as installation:
        installation.up()
        yield installation


def test_up_prints_addresses_and_directories(vigil: Installation) -> None:
    running = vigil.running
    wait_for(lambda: "Ctrl-C" in vigil.output or None, "the start to be printed")
    for words in (
        "Vigil is running",
        f"with the corpus {CORPUS}",
        running.api_url,
        running.nats_url,
        running.database_url,
        str(vigil.data.root),
    ):
        assert words in vigil.output


def test_by_default_a_webhook_to_loopback_is_refused(vigil: Installation) -> None:
    hits: list[Hit] = []
    with receiving(hits) as url:
        result = vigil.vigil("destination", "add", f"{url}/hook")
        assert (result.returncode, "is not allowed" in result.stderr) == (1, True)
    assert hits == []


def test_doctor_finds_nothing_wrong(vigil: Installation) -> None:
    result = vigil.vigil("doctor", "--corpus", str(CORPUS))
    assert result.returncode == 0, result.stdout
    for name in ("postgres", "nats", "workers", "coordinator", "sandbox", "OPENAI_API_KEY"):
        assert name in result.stdout


def test_an_agent_from_creation_to_deletion(vigil: Installation) -> None:
    creation = vigil.vigil("agent", "create", MISSION, "--name", "Batteries", "--interval", "1d")
    assert creation.returncode == 0, creation.stderr
    assert all(
        words in creation.stdout for words in ("Batteries is ready", "6 prompts", "node types")
    )
    assert vigil.ended_iteration("Batteries", 1)["status"] == "completed"
    run = vigil.vigil("run", "batteries", "--wait")
    assert run.returncode == 0, run.stdout + run.stderr
    assert "Iteration 2" in run.stdout
    assert "completed in" in run.stdout

    output = vigil.vigil("agent", "show", "Batteries").stdout
    assert all(words in output for words in (MISSION, "every 1 d", "#2 completed"))
    graph = vigil.json("graph", "Batteries", "--limit", "5")
    assert 0 < len(graph["nodes"]) <= 5
    assert graph["counts"]["edges"] > 0
    assert "—" in vigil.vigil("graph", "Batteries").stdout
    history = vigil.vigil("agent", "list").stdout
    assert "Batteries" in history
    # The sandbox's Adviser may have advised already; in either case the command says what the inbox holds.
    inbox = vigil.vigil("inbox").stdout
    assert ("HOLD" in inbox) is bool(vigil.json("inbox"))
    assert ("nothing new in the inbox" in inbox) is not bool(vigil.json("inbox"))

    assert "Paused Batteries" in vigil.vigil("agent", "pause", "Batteries").stdout
    assert vigil.json("agent", "show", "Batteries")["active"] is False
    assert vigil.vigil("agent", "resume", "Batteries").returncode == 0
    assert vigil.vigil("agent", "create", MISSION, "--name", "batteries").returncode == 1
    unconfirmed = vigil.vigil("agent", "delete", "Batteries")
    assert (unconfirmed.returncode, len(vigil.json("agent", "list"))) == (1, 1)
    assert vigil.vigil("agent", "delete", "Batteries", "--yes").returncode == 0
    assert vigil.json("agent", "list") == []


@pytest.mark.slow
def test_configuration_of_an_agent(vigil: Installation) -> None:
    agent = vigil.json("agent", "create", MISSION, "--interval", "1d")
    assert (agent["status"], agent["name"]) == ("ready", "Battery Makers Lithium Supply")
    assert len({*agent["prompts"].values()}) == 6
    assert all(agent["name"] in prompt for prompt in agent["prompts"].values())
    name = agent["name"]
    types = vigil.json("agent", "types", name)
    assert len(types["node_types"]) >= 8
    assert all(node_type["example_properties"] for node_type in types["node_types"])
    assert "BatteryMaker" in vigil.vigil("agent", "types", name).stdout
    assert "monitors one mission" in vigil.vigil("agent", "prompts", name).stdout

    editor = f"{sys.executable} -c \"import sys; open(sys.argv[1], 'a').write('Be bold.')\""
    edited = vigil.vigil("agent", "prompts", name, "--phase", "observer", "--edit", EDITOR=editor)
    assert edited.returncode == 0, edited.stderr
    assert "Be bold." in edited.stdout
    history = vigil.json("agent", "prompts", name, "--phase", "observer", "--history")
    assert [(version["version"], version["made_by"]) for version in history] == [
        (2, "owner"),
        (1, "configuration"),
    ]
    mission = "Watch the copper mines of Chile and who buys from them"
    keep_option = ("--keep", "observer")
    configured = vigil.json("agent", "configure", name, "--mission", mission, *keep_option)
    assert (configured["name"], configured["mission"], configured["prompts_version"]) == (
        name,
        mission,
        3,
    )
    assert "Be bold." in configured["prompts"]["observer"]
    later = vigil.json("agent", "create", MISSION, "--no-wait", "--name", "Later")
    assert later["status"] == "configuring"
    for agent_name in (name, "Later"):
        assert vigil.vigil("agent", "delete", agent_name, "--yes").returncode == 0


def test_a_second_up_reports_the_first(vigil: Installation) -> None:
    result = vigil.vigil("up")
    assert result.returncode == 1
    assert str(vigil.running.pid) in result.stderr
    assert vigil.running.api_url in result.stderr


def test_prometheus_finds_the_metrics_of_every_process(vigil: Installation) -> None:
    targets = json.loads(vigil.data.targets_file.read_text())
    addresses = {each["labels"]["service"]: each["targets"][0] for each in targets}
    assert set(addresses) == {*PROCESSES, API}
    token = vigil.data.token()
    for service, address in addresses.items():
        headers = {"authorization": f"Bearer {token}"} if service == API else {}
        response = httpx.get(f"http://{address}/metrics", headers=headers)
        assert response.status_code == 200, service
        samples = parse(response.text)
        assert value(samples, "vigil_build_info", version=vigil_version()) == 1, service
        assert value(samples, "vigil_database_up") == 1, service
        skew = value(samples, "vigil_clock_skew_seconds")
        assert skew is not None, service
        assert abs(skew) < 1, service
        assert (value(samples, "process_resident_memory_bytes") or 0) > 0, service
        if service == API:
            assert value(samples, "vigil_stream_max_bytes") == 1024**3
            assert samples["vigil_stream_bytes", frozenset()] >= 0
        else:
            # Of its own consumers only, although all are forked from one process.
            lags = [labels for name, labels in samples if name == "vigil_consumer_pending_messages"]
            own = [frozenset({("consumer", consumer)}) for consumer in PROCESSES[service]]
            assert sorted(lags, key=str) == sorted(own, key=str)
        measures_all = value(samples, "vigil_late_agents") is not None
        assert measures_all == (service == "coordinator"), service
        if service == "coordinator":
            assert (value(samples, "vigil_data_free_bytes") or 0) > 0


def test_killed_processes_are_restarted(vigil: Installation) -> None:
    for pattern in ("^vigil workers", "nats-server", r"bin/postgres -D"):
        process = vigil.process(pattern)
        process.kill()
        wait_for(lambda: _restarted(vigil, pattern, process.pid), f"{pattern} to run again")  # noqa: B023
    wait_for(lambda: vigil.vigil("doctor").returncode == 0 or None, "all processes to be ready")
    assert "the workers stopped unexpectedly (killed by signal 9)" in vigil.output


@pytest.mark.slow
def test_each_service_can_have_its_own_process(tmp_path: Path) -> None:
    with installed(tmp_path) as vigil:
        vigil.up("--separate")
        assert {*CONSUMER_SERVICES, API} <= set(vigil.running.ports)
        for service in CONSUMER_SERVICES:
            assert vigil.process(f"^vigil {service}").is_running()
        assert vigil.vigil("doctor").returncode == 0


@pytest.mark.slow
def test_a_kept_demo_and_an_interrupted_iteration_continue_after_up(tmp_path: Path) -> None:
    with installed(tmp_path) as vigil:
        result = vigil.vigil(
            *("demo", "--corpus", str(CORPUS), "--mission", MISSION),
            *("--iterations", "1", "--keep", str(vigil.data.root)),
        )
        assert result.returncode == 0, result.stdout + result.stderr
        assert all(words in result.stdout for words in ("What it learned", "—", "corpus.local"))

        vigil.up()
        (agent,) = vigil.json("agent", "list")
        name, first = agent["name"], vigil.running
        assert agent["last_iteration"]["number"] == 1
        vigil.vigil("run", name)
        wait_for(lambda: _iteration(vigil, name, 2), "iteration 2 to begin")
        processes = vigil.processes()
        assert vigil.end() == 0
        _expect_ended(processes)
        assert not vigil.data.run_file.exists()

        vigil.up()
        assert vigil.running.pid != first.pid
        iteration = vigil.ended_iteration(name, 2)
        assert (iteration["status"], iteration["errors"]) == ("completed", [])
        assert vigil.end(signal.SIGTERM) == 0


@pytest.mark.slow
def test_agent_show_reports_a_wrong_key(tmp_path: Path, sandbox: str) -> None:
    environment = {"OPENAI_BASE_URL": f"{sandbox}/v1", "OPENAI_API_KEY": "wrong"}
    with installed(tmp_path, environment) as vigil:
        vigil.up()
        creation = vigil.vigil(
            "agent", "create", MISSION, "--name", "Batteries", "--interval", "1d"
        )
        assert creation.returncode == 1
        assert all(words in creation.stderr for words in ("answered 401", "vigil agent configure"))
        output = vigil.vigil("agent", "show", "Batteries").stdout
        assert "answered 401" in output
        assert "OPENAI_API_KEY" in output
        diagnosis = vigil.vigil("doctor", "--corpus", str(CORPUS))
        assert (diagnosis.returncode, "refuses the key" in diagnosis.stdout) == (1, True)


def test_demo_completes_and_leaves_no_files(tmp_path: Path) -> None:
    scratch = tmp_path / ("scratch" * 12)  # longer than the path of a socket may be
    scratch.mkdir()
    with installed(tmp_path, {"TMPDIR": str(scratch)}) as vigil:
        result = vigil.vigil("demo", "--corpus", str(CORPUS), "--mission", MISSION, "--json")
    assert result.returncode == 0, result.stderr
    outcome = json.loads(result.stdout.splitlines()[-1])
    assert set(outcome) == DEMO_KEYS
    assert 2 <= outcome["iterations"] <= 5
    assert (outcome["completed"], outcome["failed"]) == (outcome["iterations"], 0)
    assert (outcome["advice"], outcome["advice_intact"]) == (1, True)
    assert all(outcome[count] > 0 for count in ("nodes", "edges", "analyses", "llm_calls"))
    assert "plans" in result.stderr
    assert outcome["cost_usd"] == 0
    assert os.listdir(scratch) == []


@pytest.mark.slow
@pytest.mark.parametrize("file", ["postgres.unfinished", "logs/workers.log"])
def test_demo_interrupted_during_start_leaves_no_files(tmp_path: Path, file: str) -> None:
    """`file` is what the start has created when Ctrl-C is pressed."""
    scratch = tmp_path / "scratch"
    scratch.mkdir()
    with installed(tmp_path, {"TMPDIR": str(scratch)}) as vigil:
        vigil.begin("demo", "--corpus", str(CORPUS), "--mission", MISSION)
        wait_for(lambda: any(scratch.glob(f"*/{file}")) or None, f"{file} to be created")
        processes = vigil.processes()
        assert vigil.end() == INTERRUPTED
    _expect_ended(processes)
    assert os.listdir(scratch) == []


@pytest.mark.slow
def test_demo_stays_with_a_sign_in_link_until_it_is_interrupted(tmp_path: Path) -> None:
    scratch = tmp_path / "scratch"
    scratch.mkdir()
    with installed(tmp_path, {"TMPDIR": str(scratch)}) as vigil:
        vigil.begin("demo", "--corpus", str(CORPUS), "--mission", MISSION, "--stay")
        link = wait_for(lambda: SIGN_IN_LINK.search(vigil.output), "the sign-in link", seconds=180)
        for words in (
            "sandbox",
            "each quote is in its page",
            "Reasoning is not checked",
            "not billed",
        ):
            assert words in vigil.output
        assert "$" not in vigil.output.partition("What it learned")[0]
        assert httpx.get(link.group(), follow_redirects=True).status_code == 200
        processes = vigil.processes()
        assert vigil.end() == INTERRUPTED
        assert "Traceback" not in vigil.output
        assert "the data is removed" in vigil.output
    _expect_ended(processes)
    assert os.listdir(scratch) == []


@pytest.mark.slow
def test_demo_reads_what_it_can_and_makes_a_mission(tmp_path: Path) -> None:
    folder = tmp_path / "documents"
    shutil.copytree(CORPUS, folder)
    (folder / "broken.json").write_text("{")
    (folder / "gone.md").symlink_to(folder / "nothing")
    os.mkfifo(folder / "pipe.txt")
    with installed(tmp_path) as vigil:
        result = vigil.vigil("demo", "--corpus", str(folder))
    assert result.returncode == 0, result.stdout + result.stderr
    for words in ("broken.json (invalid JSON, line 1)", "gone.md (broken link)", "pipe.txt (not a"):
        assert words in result.stdout
    assert "the mission compares the figures" in result.stdout
    assert "In a terminal, or with --stay" in result.stdout


def test_demo_refuses_a_corpus_without_labelled_figures(tmp_path: Path) -> None:
    folder = tmp_path / "documents"
    folder.mkdir()
    (folder / "plant.txt").write_text("The plant was opened in the spring, and it grew by 12%.")
    with installed(tmp_path) as vigil:
        result = vigil.vigil("demo", "--corpus", str(folder))
    assert result.returncode == 2
    assert "no prose" in result.stderr
    assert "OPENAI_API_KEY" in result.stderr


def _iteration(vigil: Installation, agent: str, number: int) -> bool | None:
    last = vigil.last_iteration(agent)
    return (last is not None and last["number"] == number) or None


def _expect_ended(processes: list[psutil.Process]) -> None:
    def ended() -> bool | None:
        return not any(_is_running(each) for each in processes) or None

    wait_for(ended, "all processes to end")


def _is_running(process: psutil.Process) -> bool:
    """A zombie does not run: only its parent, which ended before, has not taken its exit code."""
    try:
        return process.is_running() and process.status() != psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return False


def _restarted(vigil: Installation, pattern: str, old_pid: int) -> bool | None:
    try:
        return vigil.process(pattern).pid != old_pid or None
    except AssertionError:
        return None
