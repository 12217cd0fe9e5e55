"""A whole installation: `vigil up` in its own process, and the commands to use it."""

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

from cli.config.providers import SANDBOX_PACE
from cli.local.data_directory import DataDirectory, Running
from cli.local.ports import free_port
from tests.support.paths import CORPUS
from tests.support.waiting import wait_for
from tests.support.warm_processes import run_vigil

MISSION = "Watch battery makers and their lithium supply"


class Installation:
    """`vigil up` on a data directory; a test may start and stop it several times."""

    def __init__(self, home: Path, environment: Mapping[str, str] | None = None) -> None:
        self.home = home
        self.data = DataDirectory(home / "data")
        self._output_file = home / "up.log"
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
    def output(self) -> str:
        """All that `vigil up` has printed."""
        return self._output_file.read_text()

    @property
    def running(self) -> Running:
        running = self.data.running()
        assert running is not None
        return running

    def vigil(self, *arguments: str, **environment: str) -> subprocess.CompletedProcess[str]:
        return run_vigil(arguments, {**self._environment, **environment}, timeout_seconds=120)

    def json(self, *arguments: str) -> Any:
        """Run a command with --json; return its parsed output."""
        result = self.vigil(*arguments, "--json")
        assert result.returncode == 0, result.stderr
        return json.loads(result.stdout)

    def up(self, *arguments: str, corpus: Path | None = CORPUS) -> None:
        """Start `vigil up`; return when it is ready. Without a corpus it uses the default one."""
        of_corpus = ["--corpus", str(corpus)] if corpus else []
        process = self.begin("up", "--port", str(free_port()), *of_corpus, *arguments)

        def ready() -> Running | None:
            assert process.poll() is None, self.output
            return self.data.running()

        wait_for(ready, "vigil up to be ready")

    def begin(self, *arguments: str) -> subprocess.Popen[bytes]:
        """Start a command and return at once; its output is in `output`."""
        command = [sys.executable, "-m", "cli", *arguments]
        with self._output_file.open("ab") as output:
            self._process = subprocess.Popen(
                command, stdout=output, stderr=output, env=self._environment
            )
        return self._process

    def end(self, stop_signal: signal.Signals = signal.SIGINT) -> int:
        """Stop it; return its exit code."""
        assert self._process is not None
        self._process.send_signal(stop_signal)
        return self._process.wait(60)

    def end_if_running(self) -> None:
        if self._process is not None and self._process.poll() is None:
            self.end()

    def processes(self) -> list[psutil.Process]:
        """The supervisor and its descendants."""
        assert self._process is not None
        supervisor = psutil.Process(self._process.pid)
        return [supervisor, *supervisor.children(recursive=True)]

    def process(self, pattern: str) -> psutil.Process:
        """The process whose command line matches."""
        for process in self.processes():
            try:
                line = " ".join(process.cmdline())
            except psutil.Error:
                continue  # it ended meanwhile
            if re.search(pattern, line):
                return process
        raise AssertionError(f"no process matches {pattern!r}")

    def last_iteration(self, agent: str) -> dict[str, Any] | None:
        last: dict[str, Any] | None = self.json("agent", "show", agent)["last_iteration"]
        return last

    def ended_iteration(self, agent: str, number: int) -> dict[str, Any]:
        def ended() -> dict[str, Any] | None:
            last = self.last_iteration(agent)
            has_ended = last is not None and last["number"] >= number and last["ended_at"]
            return last if has_ended else None

        return wait_for(ended, f"iteration {number} of {agent} to end")


@contextmanager
def installed(
    home: Path, environment: Mapping[str, str] | None = None, *, is_paced: bool = False
) -> Iterator[Installation]:
    """An installation that is not started yet; it is stopped at the end of the block.

    `is_paced`: the sandbox streams its answers as slowly as a model, so that they are seen growing.
    """
    pace = {SANDBOX_PACE: "0.03" if is_paced else "0"}
    installation = Installation(home, {**pace, **(environment or {})})
    try:
        yield installation
    finally:
        installation.end_if_running()
