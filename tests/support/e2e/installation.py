"""A whole installation as a person has it: `vigil up` in a process of its own, and the command beside it."""

import json
import os
import re
import signal
import subprocess
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import psutil

from cli.local.data_directory import DataDirectory, Running
from cli.local.ports import free_port
from tests.support.paths import CORPUS
from tests.support.waiting import waited_for

MISSION = "Watch battery makers and their lithium supply"


class Installation:
    """`vigil up` on a data directory, which is started and ended as often as a test wants."""

    def __init__(self, home: Path, environment: Mapping[str, str] | None = None) -> None:
        self.home = home
        self.data = DataDirectory(home / "data")
        self._output = home / "up.log"
        clean = {
            name: value
            for name, value in os.environ.items()
            if not name.startswith(("OPENAI_", "TAVILY_", "VIGIL_"))
        }
        self._environment = {
            **clean,
            "VIGIL_DATA": str(self.data.root),
            "XDG_CACHE_HOME": str(home / "cache"),
            "XDG_CONFIG_HOME": str(home / "config"),
            **(environment or {}),
        }
        self._process: subprocess.Popen[bytes] | None = None

    @property
    def said(self) -> str:
        """All that `vigil up` has printed."""
        return self._output.read_text()

    @property
    def running(self) -> Running:
        running = self.data.running()
        assert running is not None
        return running

    def vigil(self, *arguments: str, **environment: str) -> subprocess.CompletedProcess[str]:
        command = [sys.executable, "-m", "cli", *arguments]
        return subprocess.run(
            command,
            capture_output=True,
            text=True,
            env={**self._environment, **environment},
            timeout=120,
            check=False,
        )

    def json(self, *arguments: str) -> Any:
        """What a command says with --json."""
        told = self.vigil(*arguments, "--json")
        assert told.returncode == 0, told.stderr
        return json.loads(told.stdout)

    def up(self, *arguments: str) -> None:
        """Returns when it is ready."""
        process = self.begin("up", "--port", str(free_port()), "--corpus", str(CORPUS), *arguments)

        def ready() -> Running | None:
            assert process.poll() is None, self.said
            return self.data.running()

        waited_for(ready, "vigil up to be ready")

    def begin(self, *arguments: str) -> subprocess.Popen[bytes]:
        """Returns at once; what it prints is in `said`."""
        command = [sys.executable, "-m", "cli", *arguments]
        with self._output.open("ab") as output:
            self._process = subprocess.Popen(
                command, stdout=output, stderr=output, env=self._environment
            )
        return self._process

    def end(self, sent: signal.Signals = signal.SIGINT) -> int:
        """The exit code, once it has ended."""
        assert self._process is not None
        self._process.send_signal(sent)
        return self._process.wait(60)

    def end_if_running(self) -> None:
        if self._process is not None and self._process.poll() is None:
            self.end()

    def processes(self) -> list[psutil.Process]:
        """The supervisor with all that descends from it."""
        assert self._process is not None
        supervisor = psutil.Process(self._process.pid)
        return [supervisor, *supervisor.children(recursive=True)]

    def process(self, pattern: str) -> psutil.Process:
        """The one whose command line matches."""
        for each in self.processes():
            try:
                line = " ".join(each.cmdline())
            except psutil.Error:
                continue  # it ended while we looked
            if re.search(pattern, line):
                return each
        raise AssertionError(f"no process matches {pattern!r}")

    def last_iteration(self, agent: str) -> dict[str, Any] | None:
        last: dict[str, Any] | None = self.json("agent", "show", agent)["last_iteration"]
        return last

    def ended_iteration(self, agent: str, number: int) -> dict[str, Any]:
        def ended() -> dict[str, Any] | None:
            last = self.last_iteration(agent)
            has_ended = last is not None and last["number"] >= number and last["ended_at"]
            return last if has_ended else None

        return waited_for(ended, f"iteration {number} of {agent} to end")


@contextmanager
def installed(home: Path, environment: Mapping[str, str] | None = None) -> Iterator[Installation]:
    """Not yet started; ended with the block."""
    installation = Installation(home, environment)
    try:
        yield installation
    finally:
        installation.end_if_running()
