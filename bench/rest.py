"""`python -m bench.rest`: what `vigil up` uses while nothing happens: memory, processor time, wake-ups, by process.

Starts `vigil up` in a temporary directory without keys, waits until it is ready and its start has settled, and measures
its processes from outside for --seconds. With --agents, so many agents of an interval of 5 minutes have each completed an
iteration before. Also prints the seconds from the start until it is ready, with a new directory and with that of an
earlier run, and those of `vigil agent list`. Linux only.
"""

import argparse
import os
import resource
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, fields, replace
from pathlib import Path
from statistics import median
from typing import Final

import psutil

from cli.client.client import Client
from cli.client.target import Api
from cli.local.data_directory import DataDirectory
from cli.local.ports import free_port
from shared.schemas.base import AgentDetails

SETTLE_SECONDS: Final = 70.0
"""Connections that the start has opened are closed by then."""
READY_SECONDS: Final = 120.0
ITERATION_SECONDS: Final = 600.0
INTERVAL_SECONDS: Final = 300
COMMANDS: Final = 7
MISSION: Final = "Watch energy supply and exports of West African economies"
_MIB: Final = 1024**2


@dataclass(frozen=True)
class Use:
    """Memory that processes hold, and processor time that they have used since their start, or in a second."""

    processes: int = 0
    pss_mib: float = 0.0
    """Shared pages are divided among their processes, so that it can be summed."""
    private_mib: float = 0.0
    processor_ms: float = 0.0
    wake_ups: float = 0.0
    """Voluntary context switches: how often a thread waited."""
    preemptions: float = 0.0
    """Involuntary context switches."""

    def __add__(self, other: "Use") -> "Use":
        return Use(
            **{
                field.name: getattr(self, field.name) + getattr(other, field.name)
                for field in fields(self)
            }
        )

    def per_second(self, before: "Use", seconds: float) -> "Use":
        """The memory held now, and the use in a second since `before`, which was measured `seconds` ago."""
        return replace(
            self,
            processor_ms=(self.processor_ms - before.processor_ms) / seconds,
            wake_ups=(self.wake_ups - before.wake_ups) / seconds,
            preemptions=(self.preemptions - before.preemptions) / seconds,
        )


def main() -> int:
    arguments = _arguments()
    with tempfile.TemporaryDirectory(prefix="vigil-rest-") as home:
        report = _measure(Path(home), arguments)
    print(report)
    return 0


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m bench.rest")
    parser.add_argument("--seconds", type=float, default=20.0, help="how long to measure")
    parser.add_argument("--agents", type=int, default=0, help="agents at an interval of 5 minutes")
    parser.add_argument("--starts", type=int, default=3, help="starts with an existing directory")
    parser.add_argument("options", nargs="*", help="options of `vigil up`, after --")
    return parser.parse_args()


def _measure(home: Path, arguments: argparse.Namespace) -> str:
    up = _Up(home, arguments.options)
    starts = []
    for _ in range(arguments.starts):
        with up.running() as took:
            starts.append(took)
    with up.running() as took:
        starts.append(took)
        commands = [up.time_command("agent", "list") for _ in range(COMMANDS)]
        if arguments.agents:
            up.run_agents(arguments.agents)
        time.sleep(SETTLE_SECONDS)
        use = up.use_in(arguments.seconds)
    (first_start, _), *later = starts
    start, start_processor = (median(each) for each in zip(*later, strict=True))
    command, command_processor = (median(each) for each in zip(*commands, strict=True))
    return (
        f"{_table(use)}\nstart to ready: {first_start:.2f} s with a new directory, {start:.2f} s with an existing one, "
        f"{start_processor:.2f} s of processor time; `vigil agent list`: {command:.3f} s, {command_processor:.3f} s of "
        "processor time"
    )


class _Up:
    """`vigil up` on a directory, without keys and other settings of the shell."""

    def __init__(self, home: Path, options: Sequence[str]) -> None:
        self._data = DataDirectory(home / "data")
        self._output = home / "up.log"
        self._options = options
        clean = {
            name: value
            for name, value in os.environ.items()
            if not name.startswith(("OPENAI_", "TAVILY_", "VIGIL_"))
        }
        self._environment = clean | {
            "VIGIL_DATA": str(self._data.root),
            "XDG_CACHE_HOME": str(home / "cache"),
            "XDG_CONFIG_HOME": str(home / "config"),
        }
        self._process: subprocess.Popen[bytes] | None = None

    @contextmanager
    def running(self) -> Iterator[tuple[float, float]]:
        """Yields wall and processor seconds from the start until it is ready. Raises RuntimeError if it ends."""
        began = time.monotonic()
        command = [*(sys.executable, "-m", "cli", "up", "--port", str(free_port())), *self._options]
        with self._output.open("ab") as output:
            self._process = process = subprocess.Popen(
                command, stdout=output, stderr=output, env=self._environment, process_group=0
            )
        try:
            _wait_until(self._is_ready, READY_SECONDS)
            wall = time.monotonic() - began
            use = sum((each for _, each in self._use_by_pid().values()), Use())
            yield wall, use.processor_ms / 1000
        finally:
            process.send_signal(signal.SIGINT)
            process.wait(READY_SECONDS)

    def time_command(self, *arguments: str) -> tuple[float, float]:
        """Wall and processor seconds of a command."""
        before, began = resource.getrusage(resource.RUSAGE_CHILDREN), time.monotonic()
        command = [str(Path(sys.executable).with_name("vigil")), *arguments]
        subprocess.run(command, env=self._environment, check=True, stdout=subprocess.DEVNULL)
        wall, after = time.monotonic() - began, resource.getrusage(resource.RUSAGE_CHILDREN)
        return wall, after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime

    def run_agents(self, count: int) -> None:
        """Creates agents, and returns when each has completed an iteration."""
        running = self._data.running()
        assert running is not None
        with Client(Api(running.api_url, self._data.token_file.read_text().strip())) as client:
            names = [f"agent-{number}" for number in range(count)]
            for name in names:
                client.create_agent(MISSION, name=name, interval_seconds=INTERVAL_SECONDS)
                client.post(AgentDetails, client.agent_path(name, "configure"), {"keep": []})

            def all_ran() -> bool:
                lasts = [client.agent(name).last_iteration for name in names]
                return all(last is not None and last.ended_at for last in lasts)

            _wait_until(all_ran, ITERATION_SECONDS, poll_seconds=2.0)

    def use_in(self, seconds: float) -> dict[str, Use]:
        """Measures the processes for `seconds`: by name, the memory held at the end, and the use in a second."""
        before, began = self._use_by_pid(), time.monotonic()
        time.sleep(seconds)
        after, took = self._use_by_pid(), time.monotonic() - began
        use: dict[str, Use] = {}
        for pid, (name, now) in after.items():
            _, then = before.get(pid, (name, Use()))
            use[name] = use.get(name, Use()) + now.per_second(then, took)
        return dict(sorted(use.items(), key=lambda item: -item[1].pss_mib))

    def _use_by_pid(self) -> dict[int, tuple[str, Use]]:
        assert self._process is not None
        supervisor = psutil.Process(self._process.pid)
        used: dict[int, tuple[str, Use]] = {}
        for process in [supervisor, *supervisor.children(recursive=True)]:
            with suppress(psutil.NoSuchProcess, FileNotFoundError, ProcessLookupError):
                name = "supervisor" if process == supervisor else _name(process)
                used[process.pid] = name, _use(process)
        return used

    def _is_ready(self) -> bool:
        assert self._process is not None
        if self._process.poll() is not None:
            raise RuntimeError(f"`vigil up` has ended: {self._output.read_text()[-2000:]}")
        return self._data.running() is not None


def _wait_until(is_met: Callable[[], bool], seconds: float, *, poll_seconds: float = 0.01) -> None:
    deadline = time.monotonic() + seconds
    while not is_met():
        if time.monotonic() > deadline:
            raise TimeoutError(f"still waiting after {seconds:g} s")
        time.sleep(poll_seconds)


def _name(process: psutil.Process) -> str:
    """The title of a process of Vigil; of PostgreSQL, the kind of the process and the client of a connection."""
    title = " ".join(process.cmdline()).strip()
    if title.startswith("postgres: "):
        return "postgres: connections" if "[local]" in title else "postgres: background"
    if process.name().startswith("postgres"):
        return "postgres: main"
    if process.name().startswith("nats"):
        return "nats"
    if "resource_tracker" in title:
        return "resource tracker"
    return title.removeprefix("vigil ")


def _use(process: psutil.Process) -> Use:
    memory = process.memory_full_info()
    run_ns = waits = preemptions = 0
    for task in Path(f"/proc/{process.pid}/task").iterdir():
        run_ns += int((task / "schedstat").read_text().split()[0])
        status = dict(
            line.split(":")
            for line in (task / "status").read_text().splitlines()
            if line.count(":") == 1
        )
        waits += int(status["voluntary_ctxt_switches"])
        preemptions += int(status["nonvoluntary_ctxt_switches"])
    return Use(1, memory.pss / _MIB, memory.uss / _MIB, run_ns / 1e6, waits, preemptions)


def _table(use: Mapping[str, Use]) -> str:
    heads = ("processes", "PSS MiB", "private", "ms/s", "wake-ups/s", "preempted/s")
    lines = [f"{'':24}" + "".join(f"{head:>12}" for head in heads)]
    for name, each in [*use.items(), ("total", sum(use.values(), Use()))]:
        numbers = (getattr(each, field.name) for field in fields(each))
        lines.append(f"{name:24}" + "".join(f"{number:12.1f}" for number in numbers))
    return "\n".join(lines)


if __name__ == "__main__":
    sys.exit(main())
