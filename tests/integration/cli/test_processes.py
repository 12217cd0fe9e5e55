"""Actors as processes: their output, their death, their end; scripts stand in for the actors."""

import os
import runpy
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from textwrap import dedent

import psutil
import pytest

from cli.local.errors import LocalError
from cli.local.process_pool import Died, ProcessPool, Restarted

REPOSITORY = Path(__file__).parents[3]


def eventually(is_so: Callable[[], bool], seconds: float = 20.0) -> None:
    deadline = time.monotonic() + seconds
    while not is_so():
        assert time.monotonic() < deadline, "it did not happen in time"
        time.sleep(0.01)


def lives(process: psutil.Process) -> bool:
    """A zombie does not: whether it is buried is up to the machine's first process."""
    try:
        return process.is_running() and process.status() != psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return False


@pytest.fixture
def fleet(tmp_path: Path) -> Iterator[ProcessPool]:
    made = ProcessPool(tmp_path / "logs", preload=[])
    yield made
    made.stop([], grace_seconds=0.0)


Spawn = Callable[..., Path]


@pytest.fixture
def spawn(fleet: ProcessPool, tmp_path: Path) -> Spawn:
    """Runs a script as an actor; returns its log."""

    def start(name: str, script: str, **environment: str) -> Path:
        path = tmp_path / f"{name}.py"
        path.write_text(dedent(script))
        fleet.spawn(name, runpy.run_path, (str(path),), environment)
        return tmp_path / "logs" / f"{name}.log"

    return start


FOREVER = """
    import signal
    print("up")
    signal.pause()
"""

STUBBORN = """
    import signal
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    print("up")
    while True:
        signal.pause()
"""


def says(log: Path, word: str) -> Callable[[], bool]:
    return lambda: log.exists() and word in log.read_text()


def happenings(fleet: ProcessPool, count: int) -> list[Died | Restarted]:
    seen: list[Died | Restarted] = []

    def enough() -> bool:
        seen.extend(fleet.poll())
        return len(seen) >= count

    eventually(enough)
    return seen


def test_an_actor_has_its_own_log_name_group_and_environment(
    fleet: ProcessPool, spawn: Spawn
) -> None:
    log = spawn(
        "researcher",
        """
        import os, sys, signal
        print("said", os.environ["VIGIL_GREETING"])
        print("erred", file=sys.stderr)
        os.write(1, b"raw\\n")
        print("ready")
        signal.pause()
        """,
        VIGIL_GREETING="hello",
    )
    eventually(says(log, "ready"))
    assert set(log.read_text().split("\n")) >= {"said hello", "erred", "raw"}
    pid = fleet.pids()["researcher"]
    assert psutil.Process(pid).cmdline()[0] == "vigil researcher"
    assert os.getpgid(pid) == pid
    assert "VIGIL_GREETING" not in os.environ


def test_a_name_is_given_once(fleet: ProcessPool, spawn: Spawn) -> None:
    spawn("observer", FOREVER)
    with pytest.raises(LocalError, match="'observer' is already running"):
        spawn("observer", FOREVER)


def test_who_dies_is_started_again_and_both_are_told(fleet: ProcessPool, spawn: Spawn) -> None:
    log = spawn("observer", FOREVER)
    eventually(says(log, "up"))
    assert fleet.poll() == []
    pid = fleet.pids()["observer"]
    os.kill(pid, signal.SIGKILL)
    died, restarted = happenings(fleet, 2)
    assert isinstance(died, Died)
    assert (died.name, died.pid, died.exit_code) == ("observer", pid, -signal.SIGKILL)
    assert died.restart_in_seconds == 0.2
    assert restarted == Restarted("observer", fleet.pids()["observer"])
    eventually(lambda: log.read_text().count("up") == 2)


def test_who_cannot_live_waits_longer_each_time(fleet: ProcessPool, spawn: Spawn) -> None:
    log = spawn("observer", "raise ValueError('no model named so')")
    deaths = [each for each in happenings(fleet, 5) if isinstance(each, Died)]
    assert [each.restart_in_seconds for each in deaths] == [0.2, 0.4, 0.8]
    assert {each.exit_code for each in deaths} == {1}
    assert "ValueError: no model named so" in log.read_text()


def test_the_loss_of_the_forkserver_is_survived(fleet: ProcessPool, spawn: Spawn) -> None:
    log = spawn("observer", FOREVER)
    eventually(says(log, "up"))
    before = psutil.Process(fleet.pids()["observer"])
    forkserver = before.parent()
    assert forkserver is not None
    forkserver.kill()
    eventually(lambda: not lives(before))
    died, restarted = happenings(fleet, 2)
    assert isinstance(died, Died)
    assert isinstance(restarted, Restarted)
    eventually(lambda: log.read_text().count("up") == 2)


def test_groups_are_stopped_in_order(fleet: ProcessPool, spawn: Spawn, tmp_path: Path) -> None:
    ends = tmp_path / "ends"
    script = f"""
        import os, signal, sys
        def end(*_):
            with open({str(ends)!r}, "a") as file:
                file.write(os.environ["NAME"] + "\\n")
            sys.exit()
        signal.signal(signal.SIGTERM, end)
        print("up")
        signal.pause()
    """
    for name in ("unnamed", "api", "observer", "scheduler"):
        eventually(says(spawn(name, script, NAME=name), "up"))
    order = [["scheduler"], ["observer", "never started"], ["api"]]
    assert fleet.stop(order, grace_seconds=10.0) == []
    assert ends.read_text().split() == ["scheduler", "observer", "api", "unnamed"]
    assert fleet.pids() == {}
    assert fleet.poll() == []


def test_who_does_not_follow_is_killed(fleet: ProcessPool, spawn: Spawn) -> None:
    for name, script in (("stubborn", STUBBORN), ("observer", FOREVER)):
        eventually(says(spawn(name, script), "up"))
    assert fleet.stop([["stubborn", "observer"]], grace_seconds=0.3) == ["stubborn"]
    assert fleet.pids() == {}


def test_who_waits_for_a_restart_is_not_started_while_stopping(
    fleet: ProcessPool, spawn: Spawn
) -> None:
    log = spawn("observer", "print('up')")
    happenings(fleet, 1)
    fleet.stop([], grace_seconds=1.0)
    assert fleet.pids() == {}
    assert log.read_text() == "up\n"


SUPERVISOR = """
    import json, runpy, signal, sys
    from pathlib import Path
    from cli.local.process_pool import ProcessPool
    from cli.local.nats import EmbeddedNats
    from cli.local.ports import free_port
    from cli.local.postgres import EmbeddedPostgres

    if __name__ == "__main__":
        base = Path(sys.argv[1])
        fleet = ProcessPool(base, preload=["json"])
        fleet.warm_up()
        for name in ("observer", "researcher"):
            fleet.spawn(name, runpy.run_path, (str(base / "actor.py"),), {})
        bus = EmbeddedNats(base / "nats", free_port(), base / "nats.log").launch()
        EmbeddedPostgres(base / "postgres", base / "postgres.log").start()
        bus.wait_until_ready()
        print("up", flush=True)
        signal.pause()
"""


@pytest.mark.skipif(sys.platform != "linux", reason="needs the kernel's parent-death signal")
def test_all_end_by_themselves_when_the_supervisor_is_killed(tmp_path: Path) -> None:
    (tmp_path / "supervisor.py").write_text(dedent(SUPERVISOR))
    (tmp_path / "actor.py").write_text(dedent(FOREVER))
    supervisor = subprocess.Popen(
        [sys.executable, str(tmp_path / "supervisor.py"), str(tmp_path)],
        env={**os.environ, "PYTHONPATH": str(REPOSITORY)},
        stdout=subprocess.PIPE,
        text=True,
    )
    with supervisor:
        assert supervisor.stdout is not None
        assert supervisor.stdout.readline() == "up\n"
        children = psutil.Process(supervisor.pid).children(recursive=True)
        names = " ".join(" ".join(child.cmdline()) for child in children)
        for expected in ("vigil observer", "vigil researcher", "vigil forkserver", "nats-server"):
            assert expected in names
        assert "checkpointer" in names
        supervisor.kill()
    try:
        eventually(lambda: not any(lives(child) for child in children))
    finally:
        for child in filter(lives, children):
            child.kill()
    assert "database system is shut down" in (tmp_path / "postgres.log").read_text()
