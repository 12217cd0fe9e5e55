"""The services of one machine: forked from one warm process, restarted, stopped in order."""

import multiprocessing
import os
import tempfile
import time
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from multiprocessing import forkserver
from multiprocessing.process import BaseProcess
from pathlib import Path
from typing import Any, Final

from cli.local.engines import RestartDelay
from cli.local.errors import LocalError
from cli.local.service_process import ServiceProcess
from shared.interpreter import child_environment

MAX_TEMPORARY_DIRECTORY_BYTES: Final = 70
"""Maximum bytes of a socket's directory: paths have 107 on Linux and 103 on macOS, and Python appends a name."""


@dataclass(frozen=True)
class Died:
    """A service ended without being stopped. A negative `exit_code` is a signal number."""

    name: str
    pid: int
    exit_code: int
    uptime_seconds: float
    restart_in_seconds: float


@dataclass(frozen=True)
class Restarted:
    """A service that had died is running again."""

    name: str
    pid: int


@dataclass
class _Member:
    service: ServiceProcess
    process: BaseProcess
    started: float
    delay: RestartDelay = field(default_factory=RestartDelay)
    restart_at: float | None = None

    @property
    def pid(self) -> int:
        assert self.process.pid is not None  # it has been started
        return self.process.pid


@contextmanager
def _short_paths() -> Iterator[None]:
    """The forkserver makes its socket in the directory for temporary files, and the path of a socket has a limit."""
    usual = tempfile.gettempdir()
    if len(os.fsencode(usual)) > MAX_TEMPORARY_DIRECTORY_BYTES:
        tempfile.tempdir = "/tmp"
    try:
        yield
    finally:
        tempfile.tempdir = usual


@contextmanager
def _environment(variables: Mapping[str, str]) -> Iterator[None]:
    """Within the block, this process and those that it starts have these variables."""
    before = {name: os.environ.get(name) for name in variables}
    os.environ.update(variables)
    try:
        yield
    finally:
        for name, value in before.items():
            if value is None:
                del os.environ[name]
            else:
                os.environ[name] = value


class ProcessPool:
    """Services as children of a forkserver that has imported `preload` once for all of them.

    Services see the environment of the moment the forkserver started, and their own on top. A program
    has one forkserver: the first pool's `preload` counts. Python imports the program's main module
    in each child, so `preload` should name what that imports too. A stopped pool stays stopped.
    """

    def __init__(self, log_directory: Path, preload: Sequence[str]) -> None:
        self._log_directory = log_directory.absolute()
        self._context = multiprocessing.get_context("forkserver")
        self._context.set_forkserver_preload(
            ["cli.local.preload_first", *preload, "cli.local.preload_last"]
        )
        self._members: dict[str, _Member] = {}
        self._stopping = False

    def warm_up(self) -> None:
        """Starts the forkserver without waiting: it imports while the engines start.

        Otherwise the first `spawn` starts it.
        """
        # Not every version of Python passes its path on to the forkserver.
        with _short_paths(), _environment(child_environment()):
            forkserver.ensure_running()

    def spawn(
        self,
        name: str,
        target: Callable[..., object],
        args: tuple[Any, ...],
        environment: dict[str, str],
    ) -> None:
        """Start a service that calls `target(*args)`, its output in `<log_directory>/<name>.log`.

        `target` must be a function of a module. Waits until the forkserver has imported what it
        should. Raises LocalError if the name is in use.
        """
        if name in self._members:
            raise LocalError(f"a service named {name!r} is already running: choose another name")
        log = self._log_directory / f"{name}.log"
        service = ServiceProcess(name, target, args, environment, log)
        self._members[name] = _Member(service, self._start(service), time.monotonic())

    def poll(self, paused: Collection[str] = ()) -> list[Died | Restarted]:
        """Detects dead services, restarts those whose delay is over, and returns both. Does not wait.

        Services in `paused` are not restarted for now.
        """
        if self._stopping:
            return []
        changes = [
            self._look_after(member, may_start=name not in paused)
            for name, member in self._members.items()
        ]
        return [change for change in changes if change is not None]

    def stop(self, order: Iterable[Iterable[str]], grace_seconds: float) -> list[str]:
        """Sends SIGTERM group by group; each group has `grace_seconds`, then its remaining processes are killed.

        Services not named in `order` are the last group. Returns the names of those that were killed.
        """
        self._stopping = True
        groups = [
            [self._members[name] for name in names if name in self._members] for names in order
        ]
        names_in_order = {member.service.name for group in groups for member in group}
        remaining = [member for name, member in self._members.items() if name not in names_in_order]
        return [
            name for group in [*groups, remaining] for name in _stop_group(group, grace_seconds)
        ]

    def pids(self) -> dict[str, int]:
        """The pids of the running services."""
        return {
            name: member.pid for name, member in self._members.items() if member.process.is_alive()
        }

    def _start(self, service: ServiceProcess) -> BaseProcess:
        # daemon: if an exception ends the supervisor, Python ends the services without waiting.
        self.warm_up()
        process = self._context.Process(target=service.run, name=service.name, daemon=True)
        process.start()
        return process

    def _look_after(self, member: _Member, *, may_start: bool) -> Died | Restarted | None:
        now = time.monotonic()
        if member.restart_at is None:
            return self._handle_exit(member, now)
        if now < member.restart_at or not may_start:
            return None
        member.process.close()
        member.process = self._start(member.service)
        member.started, member.restart_at = now, None
        return Restarted(member.service.name, member.pid)

    def _handle_exit(self, member: _Member, now: float) -> Died | None:
        exit_code = member.process.exitcode
        if exit_code is None:
            return None
        uptime_seconds = now - member.started
        delay_seconds = member.delay.after(uptime_seconds)
        member.restart_at = now + delay_seconds
        return Died(member.service.name, member.pid, exit_code, uptime_seconds, delay_seconds)


def _stop_group(group: Sequence[_Member], grace_seconds: float) -> list[str]:
    deadline = time.monotonic() + grace_seconds
    for member in group:
        member.process.terminate()
    for member in group:
        member.process.join(max(0.0, deadline - time.monotonic()))
    late = [member for member in group if member.process.is_alive()]
    for member in late:
        member.process.kill()
        member.process.join()
    return [member.service.name for member in late]
