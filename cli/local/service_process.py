"""The process of a service. This module runs in the child process."""

import faulthandler
import io
import multiprocessing
import multiprocessing.connection
import os
import signal
import sys
import threading
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from setproctitle import setproctitle

from cli.local.processes import open_log, signal_at_parents_death

ORPHAN_GRACE_SECONDS: Final = 30.0
"""How long a service may take to stop in order after its supervisor died."""

_RESET: Final = (signal.SIGTERM, signal.SIGHUP, signal.SIGCHLD, signal.SIGUSR1)


@dataclass(frozen=True)
class ServiceProcess:
    """How to start a service. It is pickled, so `target` must be a module-level function."""

    name: str
    target: Callable[..., object]
    args: tuple[Any, ...]
    environment: dict[str, str]
    log: Path

    def run(self) -> None:
        """Runs the service; returns or raises what `target` does."""
        os.setpgid(0, 0)
        _write_to(self.log)
        setproctitle(f"vigil {self.name}")
        _reset_signals()
        _end_with_supervisor()
        os.environ.update(self.environment)
        self.target(*self.args)


def _write_to(log: Path) -> None:
    """Redirects stdout and stderr to the log, including output of C libraries."""
    with open_log(log) as file:
        os.dup2(file.fileno(), 1)
        os.dup2(file.fileno(), 2)
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(line_buffering=True)
    faulthandler.enable()


def _reset_signals() -> None:
    for number in _RESET:
        signal.signal(number, signal.SIG_DFL)
    signal.signal(signal.SIGINT, signal.default_int_handler)
    # A client that disconnects must cause an error in that write, not end the process.
    signal.signal(signal.SIGPIPE, signal.SIG_IGN)


def _end_with_supervisor() -> None:
    """Sends SIGTERM when the forkserver dies (by the kernel) or the supervisor does (by a thread).

    Both are needed, because its children keep the forkserver alive after the supervisor's death.
    """
    signal_at_parents_death(signal.SIGTERM)
    threading.Thread(target=_guard, name="supervisor-guard", daemon=True).start()


def _guard() -> None:
    supervisor = multiprocessing.parent_process()
    assert supervisor is not None
    multiprocessing.connection.wait([supervisor.sentinel])
    os.kill(os.getpid(), signal.SIGTERM)
    threading.Event().wait(ORPHAN_GRACE_SECONDS)
    os.kill(os.getpid(), signal.SIGKILL)
