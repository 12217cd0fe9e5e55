"""Child processes: orphans of killed runs, parent-death signals, log files."""

import ctypes
import os
import signal
import sys
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import BinaryIO, Final

import psutil

from cli.local.errors import EngineError


def find_orphans(program: str, serves: Callable[[psutil.Process], bool]) -> list[psutil.Process]:
    """Living processes of that program for which `serves` is true.

    Uses the process table instead of a pid file, whose number may belong to another process by now.
    """
    return [
        process
        for process in psutil.process_iter(["name"])
        if (process.info["name"] or "").startswith(program) and _is(process, serves)
    ]


def stop_orphans(
    orphans: Sequence[psutil.Process], signals: Sequence[tuple[signal.Signals, float]]
) -> None:
    """Sends each signal in turn and waits until all have ended. Raises EngineError if some remain."""
    living = list(orphans)
    for signal_number, patience_seconds in signals:
        for process in living:
            _send(process, signal_number)
        living = _living_after(patience_seconds, living)
    if living:
        pids = ", ".join(str(process.pid) for process in living)
        raise EngineError(
            f"processes from an earlier run are still using this data and do not stop: {pids}; stop them with `kill "
            f"-9 {pids.replace(',', '')}` and try again"
        )


def _is(process: psutil.Process, serves: Callable[[psutil.Process], bool]) -> bool:
    """Also false if it has just ended, is a zombie, or belongs to another user."""
    try:
        return serves(process)
    except (psutil.NoSuchProcess, psutil.AccessDenied):
        return False


def _living_after(seconds: float, processes: list[psutil.Process]) -> list[psutil.Process]:
    """The processes that are still alive then; returns as soon as none is."""
    deadline = time.monotonic() + seconds
    while (
        living := [process for process in processes if _lives(process)]
    ) and time.monotonic() < deadline:
        time.sleep(0.01)
    return living


def _lives(process: psutil.Process) -> bool:
    """A zombie does not count: it has no open files, and in a container it may never be reaped."""
    try:
        return process.is_running() and process.status() != psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return False


def _send(process: psutil.Process, signal_number: signal.Signals) -> None:
    try:
        process.send_signal(signal_number)
    except psutil.NoSuchProcess:
        return  # it has ended in the meantime


LINUX: Final = sys.platform.startswith("linux")

_PR_SET_PDEATHSIG: Final = 1
_PR_SET_TIMERSLACK: Final = 29
_CLONE_NEWUSER: Final = 0x10000000


def before_exec(
    death_signal: signal.Signals, *, appear_as_uid: int | None = None, timer_slack_ns: int = 0
) -> Callable[[], None]:
    """What a child does between fork and exec, for `subprocess`'s `preexec_fn`.

    It is sent `death_signal` when the thread that started it ends, and sees itself as
    `appear_as_uid`. On Linux its timers may be late by `timer_slack_ns`, so that fewer of them wake
    it; 0 is the kernel's usual 50 µs. The C library is opened here, in the parent, so that the
    child need not load anything.
    """
    libc = ctypes.CDLL(None, use_errno=True)
    parent = os.getpid()

    def prepare() -> None:
        if appear_as_uid is not None:
            _enter_user_namespace(libc, appear_as_uid)
        # After the namespace: a change of credentials clears the signal.
        signal_at_parents_death(death_signal, libc)
        if LINUX and timer_slack_ns:
            libc.prctl(_PR_SET_TIMERSLACK, timer_slack_ns)
        if os.getppid() != parent:
            os._exit(1)  # the parent died before the signal was armed

    return prepare


def signal_at_parents_death(death_signal: signal.Signals, libc: ctypes.CDLL | None = None) -> None:
    """Asks the kernel for `death_signal` when the thread that forked this process ends (Linux only)."""
    if not LINUX:
        return
    library = libc or ctypes.CDLL(None, use_errno=True)
    if library.prctl(_PR_SET_PDEATHSIG, int(death_signal)) != 0:
        raise _os_error("prctl")


def _enter_user_namespace(libc: ctypes.CDLL, uid: int) -> None:
    """Enters a user namespace in which root is `uid`; new files still belong to root outside."""
    if libc.unshare(_CLONE_NEWUSER) != 0:
        raise _os_error("unshare")
    for name, content in (
        ("setgroups", "deny"),
        ("uid_map", f"{uid} 0 1"),
        ("gid_map", f"{uid} 0 1"),
    ):
        descriptor = os.open(f"/proc/self/{name}", os.O_WRONLY)
        os.write(descriptor, content.encode())
        os.close(descriptor)


def _os_error(call: str) -> OSError:
    number = ctypes.get_errno()
    return OSError(number, f"{call}: {os.strerror(number)}")


ROTATE_BYTES: Final = 20 * 1024 * 1024
TAIL_BYTES: Final = 2000


def open_log(path: Path, *, rotate_bytes: int = ROTATE_BYTES) -> BinaryIO:
    """Opens it for appending. A larger file is first renamed to `<name>.1`, replacing the previous one."""
    path.parent.mkdir(parents=True, exist_ok=True)
    if path.exists() and path.stat().st_size > rotate_bytes:
        path.replace(path.with_name(f"{path.name}.1"))
    return path.open("ab")


def tail(path: Path, *, since: int = 0) -> str:
    """The end of the log: 2000 bytes at most, nothing before byte `since`; '' without a log."""
    if not path.exists():
        return ""
    with path.open("rb") as log:
        log.seek(max(since, path.stat().st_size - TAIL_BYTES))
        return log.read().decode(errors="replace").strip()
