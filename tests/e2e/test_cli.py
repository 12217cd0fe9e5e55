"""`vigil` as a person uses it: real processes, real engines, the sandbox in place of the model and the web."""

import json
import os
import signal
import sys
from collections.abc import Iterator
from pathlib import Path

import psutil
import pytest

from tests.support.e2e.installation import MISSION, Installation, installed
from tests.support.paths import CORPUS
from tests.support.waiting import waited_for

INTERRUPTED = 130
DEMO_KEYS = {
    *("iterations", "completed", "failed", "nodes", "edges", "analyses", "advice"),
    *("llm_calls", "search_calls", "cost_usd", "seconds", "corpus", "mission", "model"),
}


@pytest.fixture(scope="module")
def vigil(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Installation]:
    """One installation for the tests that only use it."""
    with installed(tmp_path_factory.mktemp("installation")) as installation:
        installation.up()
        yield installation


def test_up_says_what_answers_and_where(vigil: Installation) -> None:
    running = vigil.running
    waited_for(lambda: "Ctrl-C" in vigil.said or None, "everything to be said")
    for words in (
        "Vigil is up",
        f"from the corpus {CORPUS}",
        running.api_url,
        running.nats_url,
        running.database_url,
        str(vigil.data.root),
    ):
        assert words in vigil.said


def test_doctor_finds_nothing_wrong(vigil: Installation) -> None:
    told = vigil.vigil("doctor", "--corpus", str(CORPUS))
    assert told.returncode == 0, told.stdout
    for name in ("postgres", "nats", "scheduler", "researcher", "sandbox", "OPENAI_API_KEY"):
        assert name in told.stdout


def test_an_agent_from_its_mission_to_its_end(vigil: Installation) -> None:
    made = vigil.vigil("agent", "create", MISSION, "--name", "Batteries", "--interval", "1d")
    assert made.returncode == 0, made.stderr
    assert all(words in made.stdout for words in ("Batteries is ready", "6 prompts", "node types"))
    assert vigil.ended_iteration("Batteries", 1)["status"] == "completed"
    run = vigil.vigil("run", "batteries", "--wait")
    assert run.returncode == 0, run.stdout + run.stderr
    assert "Iteration 2" in run.stdout
    assert "completed in" in run.stdout

    shown = vigil.vigil("agent", "show", "Batteries").stdout
    assert all(words in shown for words in (MISSION, "every 1d", "#2 completed"))
    graph = vigil.json("graph", "Batteries", "--limit", "5")
    assert 0 < len(graph["nodes"]) <= 5
    assert graph["counts"]["edges"] > 0
    assert "—" in vigil.vigil("graph", "Batteries").stdout
    history = vigil.vigil("agent", "list").stdout
    assert "Batteries" in history
    assert "Nothing new in the inbox" in vigil.vigil("inbox").stdout

    assert "is paused" in vigil.vigil("agent", "pause", "Batteries").stdout
    assert vigil.json("agent", "show", "Batteries")["active"] is False
    assert vigil.vigil("agent", "resume", "Batteries").returncode == 0
    assert vigil.vigil("agent", "create", MISSION, "--name", "batteries").returncode == 1
    asked = vigil.vigil("agent", "delete", "Batteries")
    assert (asked.returncode, len(vigil.json("agent", "list"))) == (1, 1)
    assert vigil.vigil("agent", "delete", "Batteries", "--yes").returncode == 0
    assert vigil.json("agent", "list") == []


@pytest.mark.slow
def test_what_an_agent_is_made_of(vigil: Installation) -> None:
    made = vigil.json("agent", "create", MISSION, "--interval", "1d")
    assert (made["status"], made["name"]) == ("ready", "Battery Makers Lithium Supply")
    assert len({*made["prompts"].values()}) == 6
    assert all(MISSION in prompt for prompt in made["prompts"].values())
    name = made["name"]
    types = vigil.json("agent", "types", name)
    assert len(types["node_types"]) >= 8
    assert all(each["example_properties"] for each in types["node_types"])
    assert "BatteryMaker" in vigil.vigil("agent", "types", name).stdout
    assert "keeps watch over one mission" in vigil.vigil("agent", "prompts", name).stdout

    editor = f"{sys.executable} -c \"import sys; open(sys.argv[1], 'a').write('Be bold.')\""
    edited = vigil.vigil("agent", "prompts", name, "--phase", "observer", "--edit", EDITOR=editor)
    assert edited.returncode == 0, edited.stderr
    assert "Be bold." in edited.stdout
    history = vigil.json("agent", "prompts", name, "--phase", "observer", "--history")
    assert [(each["version"], each["made_by"]) for each in history] == [
        (2, "owner"),
        (1, "configuration"),
    ]
    another = "Watch the copper mines of Chile and who buys from them"
    keep = ("--keep", "observer")
    anew = vigil.json("agent", "configure", name, "--mission", another, *keep)
    assert (anew["name"], anew["mission"], anew["prompts_version"]) == (name, another, 3)
    assert "Be bold." in anew["prompts"]["observer"]
    ordered = vigil.json("agent", "create", MISSION, "--no-wait", "--name", "Later")
    assert ordered["status"] == "configuring"
    for each in (name, "Later"):
        assert vigil.vigil("agent", "delete", each, "--yes").returncode == 0


def test_a_second_up_is_told_of_the_first(vigil: Installation) -> None:
    told = vigil.vigil("up")
    assert told.returncode == 1
    assert str(vigil.running.pid) in told.stderr
    assert vigil.running.api_url in told.stderr


def test_who_is_killed_runs_again(vigil: Installation) -> None:
    for pattern in ("^vigil researcher", "nats-server", r"bin/postgres -D"):
        killed = vigil.process(pattern)
        killed.kill()
        waited_for(lambda: _living(vigil, pattern, killed.pid), f"{pattern} to run again")  # noqa: B023
    waited_for(lambda: vigil.vigil("doctor").returncode == 0 or None, "all to be ready")
    assert "the researcher died (killed by signal 9)" in vigil.said


@pytest.mark.slow
def test_a_kept_demo_goes_on_and_ctrl_c_amid_an_iteration_too(tmp_path: Path) -> None:
    with installed(tmp_path) as vigil:
        told = vigil.vigil(
            *("demo", "--corpus", str(CORPUS), "--mission", MISSION),
            *("--iterations", "1", "--keep", str(vigil.data.root)),
        )
        assert told.returncode == 0, told.stdout + told.stderr
        assert all(words in told.stdout for words in ("What it learned", "—", "corpus.local"))

        vigil.up()
        (agent,) = vigil.json("agent", "list")
        name, first = agent["name"], vigil.running
        assert agent["last_iteration"]["number"] == 1
        vigil.vigil("run", name)
        waited_for(lambda: _iteration(vigil, name, 2), "iteration 2 to begin")
        processes = vigil.processes()
        assert vigil.end() == 0
        assert all(living.status() == psutil.STATUS_ZOMBIE for living in _left_of(processes))
        assert not vigil.data.run_file.exists()

        vigil.up()
        assert vigil.running.pid != first.pid
        ended = vigil.ended_iteration(name, 2)
        assert (ended["status"], ended["errors"]) == ("completed", [])
        assert vigil.end(signal.SIGTERM) == 0


@pytest.mark.slow
def test_a_wrong_key_is_told_in_agent_show(tmp_path: Path, sandbox: str) -> None:
    environment = {"OPENAI_BASE_URL": f"{sandbox}/v1", "OPENAI_API_KEY": "wrong"}
    with installed(tmp_path, environment) as vigil:
        vigil.up()
        made = vigil.vigil("agent", "create", MISSION, "--name", "Batteries", "--interval", "1d")
        assert made.returncode == 1
        assert all(words in made.stderr for words in ("answered 401", "vigil agent configure"))
        shown = vigil.vigil("agent", "show", "Batteries").stdout
        assert "answered 401" in shown
        assert "OPENAI_API_KEY" in shown
        refused = vigil.vigil("doctor", "--corpus", str(CORPUS))
        assert (refused.returncode, "refuses the key" in refused.stdout) == (1, True)


def test_demo_learns_concludes_and_leaves_nothing_behind(tmp_path: Path) -> None:
    scratch = tmp_path / ("scratch" * 12)  # longer than the path of a socket may be
    scratch.mkdir()
    with installed(tmp_path, {"TMPDIR": str(scratch)}) as vigil:
        told = vigil.vigil("demo", "--corpus", str(CORPUS), "--mission", MISSION, "--json")
    assert told.returncode == 0, told.stderr
    outcome = json.loads(told.stdout.splitlines()[-1])
    assert set(outcome) == DEMO_KEYS
    assert (outcome["iterations"], outcome["completed"], outcome["failed"]) == (2, 2, 0)
    assert all(outcome[what] > 0 for what in ("nodes", "edges", "analyses", "llm_calls"))
    assert "plans" in told.stderr
    assert outcome["cost_usd"] == 0
    assert os.listdir(scratch) == []


@pytest.mark.parametrize(
    "sight", [pytest.param("postgres.unfinished", marks=pytest.mark.slow), "logs/observer.log"]
)
def test_demo_interrupted_while_it_starts_leaves_nothing_behind(tmp_path: Path, sight: str) -> None:
    """`sight` is what the start has come to when Ctrl-C is pressed."""
    scratch = tmp_path / "scratch"
    scratch.mkdir()
    with installed(tmp_path, {"TMPDIR": str(scratch)}) as vigil:
        vigil.begin("demo", "--corpus", str(CORPUS), "--mission", MISSION)
        waited_for(lambda: any(scratch.glob(f"*/{sight}")) or None, f"{sight} to be made")
        processes = vigil.processes()
        assert vigil.end() == INTERRUPTED
    assert all(living.status() == psutil.STATUS_ZOMBIE for living in _left_of(processes))
    assert os.listdir(scratch) == []


def _iteration(vigil: Installation, agent: str, number: int) -> bool | None:
    last = vigil.last_iteration(agent)
    return (last is not None and last["number"] == number) or None


def _left_of(processes: list[psutil.Process]) -> list[psutil.Process]:
    _, left = psutil.wait_procs(processes, timeout=5)
    return left


def _living(vigil: Installation, pattern: str, but: int) -> bool | None:
    try:
        return vigil.process(pattern).pid != but or None
    except AssertionError:
        return None
