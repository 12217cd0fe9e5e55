"""Services as child processes: output, crashes, restarts and shutdown. Scripts replace the services."""

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


def eventually(condition: Callable[[], bool], seconds: float = 20.0) -> None:
    deadline = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < deadline, "the condition was not met in time"
        time.sleep(0.01)


def is_alive(process: psutil.Process) -> bool:
    """Return whether the process runs; a zombie does not, because only init decides when to reap it."""
    try:
        return process.is_running() and process.status() != psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return False


@pytest.fixture
def pool(tmp_path: Path) -> Iterator[ProcessPool]:
    process_pool = ProcessPool(tmp_path / "logs", preload=[])
    yield process_pool
    process_pool.stop([], grace_seconds=0.0)


Spawn = Callable[..., Path]


@pytest.fixture
def spawn(pool: ProcessPool, tmp_path: Path) -> Spawn:
    """Return a function that runs a script as a service and returns its log."""

    def start(name: str, script: str, **environment: str) -> Path:
        path = tmp_path / f"{name}.py"
        path.write_text(dedent(script))
        pool.spawn(name, runpy.run_path, (str(path),), environment)
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


COLLECTING = """
    import gc
    print("collects garbage:", gc.isenabled(), flush=True)
    import signal
    signal.pause()
"""


def log_contains(log: Path, word: str) -> Callable[[], bool]:
    return lambda: log.exists() and word in log.read_text()


def wait_for_events(pool: ProcessPool, count: int) -> list[Died | Restarted]:
    events: list[Died | Restarted] = []

    def enough() -> bool:
        events.extend(pool.poll())
        return len(events) >= count

    eventually(enough)
    return events


def test_services_collect_garbage(spawn: Spawn) -> None:
    """The forkserver does not, while it imports what services share."""
    log = spawn("observer", COLLECTING)
    eventually(log_contains(log, "collects garbage: True"))


def test_a_service_has_its_own_log_name_group_and_environment(
    pool: ProcessPool, spawn: Spawn
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
    eventually(log_contains(log, "ready"))
    assert set(log.read_text().split("\n")) >= {"said hello", "erred", "raw"}
    pid = pool.pids()["researcher"]
    assert psutil.Process(pid).cmdline()[0] == "vigil researcher"
    assert os.getpgid(pid) == pid
    assert "VIGIL_GREETING" not in os.environ


def test_a_name_cannot_be_used_twice(pool: ProcessPool, spawn: Spawn) -> None:
    spawn("observer", FOREVER)
    with pytest.raises(LocalError, match="'observer' is already running"):
        spawn("observer", FOREVER)


def test_a_crashed_service_is_restarted_and_both_events_are_reported(
    pool: ProcessPool, spawn: Spawn
) -> None:
    log = spawn("observer", FOREVER)
    eventually(log_contains(log, "up"))
    assert pool.poll() == []
    pid = pool.pids()["observer"]
    os.kill(pid, signal.SIGKILL)
    death, restart = wait_for_events(pool, 2)
    assert isinstance(death, Died)
    assert (death.name, death.pid, death.exit_code) == ("observer", pid, -signal.SIGKILL)
    assert death.restart_in_seconds == 0.2
    assert restart == Restarted("observer", pool.pids()["observer"])
    eventually(lambda: log.read_text().count("up") == 2)


def test_a_service_that_keeps_crashing_restarts_with_growing_delays(
    pool: ProcessPool, spawn: Spawn
) -> None:
    log = spawn("observer", "raise ValueError('no model named so')")
    deaths = [death for death in wait_for_events(pool, 5) if isinstance(death, Died)]
    assert [death.restart_in_seconds for death in deaths] == [0.2, 0.4, 0.8]
    assert {death.exit_code for death in deaths} == {1}
    assert "ValueError: no model named so" in log.read_text()


def test_a_service_is_restarted_after_the_loss_of_the_forkserver(
    pool: ProcessPool, spawn: Spawn
) -> None:
    log = spawn("observer", FOREVER)
    eventually(log_contains(log, "up"))
    before = psutil.Process(pool.pids()["observer"])
    forkserver = before.parent()
    assert forkserver is not None
    forkserver.kill()
    eventually(lambda: not is_alive(before))
    death, restart = wait_for_events(pool, 2)
    assert isinstance(death, Died)
    assert isinstance(restart, Restarted)
    eventually(lambda: log.read_text().count("up") == 2)


def test_groups_are_stopped_in_order(pool: ProcessPool, spawn: Spawn, tmp_path: Path) -> None:
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
        eventually(log_contains(spawn(name, script, NAME=name), "up"))
    order = [["scheduler"], ["observer", "never started"], ["api"]]
    assert pool.stop(order, grace_seconds=10.0) == []
    assert ends.read_text().split() == ["scheduler", "observer", "api", "unnamed"]
    assert pool.pids() == {}
    assert pool.poll() == []


def test_a_service_that_ignores_the_stop_signal_is_killed(pool: ProcessPool, spawn: Spawn) -> None:
    for name, script in (("stubborn", STUBBORN), ("observer", FOREVER)):
        eventually(log_contains(spawn(name, script), "up"))
    assert pool.stop([["stubborn", "observer"]], grace_seconds=0.3) == ["stubborn"]
    assert pool.pids() == {}


def test_a_service_waiting_for_a_restart_is_not_started_while_stopping(
    pool: ProcessPool, spawn: Spawn
) -> None:
    log = spawn("observer", "print('up')")
    wait_for_events(pool, 1)
    pool.stop([], grace_seconds=1.0)
    assert pool.pids() == {}
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
        pool = ProcessPool(base, preload=["json"])
        pool.warm_up()
        for name in ("observer", "researcher"):
            pool.spawn(name, runpy.run_path, (str(base / "service.py"),), {})
        bus = EmbeddedNats(base / "nats", free_port(), base / "nats.log").launch()
        EmbeddedPostgres(base / "postgres", base / "postgres.log").start()
        bus.wait_until_ready()
        print("up", flush=True)
        signal.pause()
"""


@pytest.mark.skipif(sys.platform != "linux", reason="needs the kernel's parent-death signal")
def test_all_processes_end_when_the_supervisor_is_killed(tmp_path: Path) -> None:
    (tmp_path / "supervisor.py").write_text(dedent(SUPERVISOR))
    (tmp_path / "service.py").write_text(dedent(FOREVER))
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
        eventually(lambda: not any(is_alive(child) for child in children))
    finally:
        for child in filter(is_alive, children):
            child.kill()
    assert "database system is shut down" in (tmp_path / "postgres.log").read_text()
