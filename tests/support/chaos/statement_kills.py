"""Kills a service before or after a chosen statement of a round trip, when the server already has the ones before it.

Applied in a service's process before it starts; the product does not know it. It does nothing unless a test arms it.
"""

import os
import signal
from collections.abc import Generator
from pathlib import Path
from typing import Any, Final

from psycopg.pq.abc import PGconn

from shared.database import pipelined
from shared.failpoints import DIRECTORY

_ARMED: Final = "statement"
_PASSED: Final = "statements_passed"
NEVER: Final = 10**9


def arm_statement(directory: Path, number: int) -> None:
    """Let the process with this directory kill itself at the point with this number, counted from 0 from now on.

    There is one point before each statement, and one after the last of a round trip. With NEVER it only counts.
    """
    _write(directory / _ARMED, number)


def _write(file: Path, number: int) -> None:
    """The other process never reads an empty file."""
    complete = file.with_name(f".{file.name}")
    complete.write_text(str(number))
    complete.rename(file)


def is_armed(directory: Path) -> bool:
    return (directory / _ARMED).exists()


def disarm_statement(directory: Path) -> bool:
    """Let the process live. False if it has reached its point, and is being killed."""
    try:
        (directory / _ARMED).unlink()
    except FileNotFoundError:
        return False
    return True


def points_passed(directory: Path) -> int:
    """Points that the process has passed since it was armed."""
    file = directory / _PASSED
    return int(file.read_text()) if file.exists() else 0


def install() -> None:
    directory = Path(os.environ[DIRECTORY])
    armed, passed = directory / _ARMED, directory / _PASSED
    original_send, original_receive = pipelined._Command.send, pipelined._receive
    last_number, count = -1, 0

    def pass_point(pgconn: PGconn) -> None:
        nonlocal last_number, count
        try:
            number = int(armed.read_text())
        except FileNotFoundError:
            number = -1
        if number != last_number:
            last_number, count = number, 0
        if number < 0:
            return
        pgconn.flush()
        if count == number and disarm_statement(directory):
            os.kill(os.getpid(), signal.SIGKILL)
        count += 1
        _write(passed, count)

    def send(self: pipelined._Command, pgconn: PGconn) -> None:
        pass_point(pgconn)
        original_send(self, pgconn)

    def receive(pgconn: PGconn) -> Generator[Any, Any, Any]:
        pass_point(pgconn)
        return original_receive(pgconn)

    pipelined._Command.send = send  # type: ignore[method-assign]
    pipelined._receive = receive
