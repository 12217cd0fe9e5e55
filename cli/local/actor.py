"""What an actor's process does before it is the actor: this side runs in the child."""

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
"""What an actor whose supervisor died may take to end in order."""

_RESET: Final = (signal.SIGTERM, signal.SIGHUP, signal.SIGCHLD, signal.SIGUSR1)


@dataclass(frozen=True)
class ActorProcess:
    """What it takes to start one: all of it is pickled, so `target` is a function of a module."""

    name: str
    target: Callable[..., object]
    args: tuple[Any, ...]
    environment: dict[str, str]
    log: Path

    def run(self) -> None:
        """Become the actor; returns or raises what the target does."""
        os.setpgid(0, 0)
        _write_to(self.log)
        setproctitle(f"vigil {self.name}")
        _reset_signals()
        _end_with_supervisor()
        os.environ.update(self.environment)
        self.target(*self.args)


def _write_to(log: Path) -> None:
    """Everything said on stdout and stderr, by C libraries and dying interpreters too."""
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
    # A client that hangs up in mid-answer must be an error of that write, and never the end of the process.
    signal.signal(signal.SIGPIPE, signal.SIG_IGN)


def _end_with_supervisor() -> None:
    """SIGTERM when the forkserver dies (by the kernel) or the supervisor does (by a thread).

    Both are needed: children of a forkserver keep it alive after the supervisor's death.
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
