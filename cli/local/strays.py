"""Servers that a killed run left behind: found by what they serve, and stopped in order."""

import signal
import time
from collections.abc import Callable, Sequence

import psutil

from cli.local.errors import EngineError


def find_strays(program: str, serves: Callable[[psutil.Process], bool]) -> list[psutil.Process]:
    """Living processes of that program of which `serves` is true.

    The process table is asked, not a pid file: a number in a file may belong to anybody by now.
    """
    return [
        process
        for process in psutil.process_iter(["name"])
        if (process.info["name"] or "").startswith(program) and _is(process, serves)
    ]


def stop_strays(
    strays: Sequence[psutil.Process], signals: Sequence[tuple[signal.Signals, float]]
) -> None:
    """Send each signal in turn and wait, until all are gone. EngineError where some stay."""
    living = list(strays)
    for sent, patience_seconds in signals:
        for process in living:
            _send(process, sent)
        living = _living_after(patience_seconds, living)
    if living:
        pids = ", ".join(str(process.pid) for process in living)
        raise EngineError(
            f"processes of an earlier run still use this data and do not end: {pids}; "
            f"end them with `kill -9 {pids.replace(',', '')}` and start again"
        )


def _is(process: psutil.Process, serves: Callable[[psutil.Process], bool]) -> bool:
    """False too for what has just ended, is a zombie, or belongs to another user: not ours."""
    try:
        return serves(process)
    except (psutil.NoSuchProcess, psutil.AccessDenied):
        return False


def _living_after(seconds: float, processes: list[psutil.Process]) -> list[psutil.Process]:
    """Those that still live then; returns as soon as none does."""
    deadline = time.monotonic() + seconds
    while (living := [each for each in processes if _lives(each)]) and time.monotonic() < deadline:
        time.sleep(0.01)
    return living


def _lives(process: psutil.Process) -> bool:
    """A zombie does not: it holds no file, and in a container it may never be buried."""
    try:
        return process.is_running() and process.status() != psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return False


def _send(process: psutil.Process, sent: signal.Signals) -> None:
    try:
        process.send_signal(sent)
    except psutil.NoSuchProcess:
        return  # ended by itself meanwhile, which is what was wanted
