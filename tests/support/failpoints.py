"""Arming of failpoints (see `shared.failpoints`)."""

from pathlib import Path

from shared.failpoints import Failpoint


def arm(directory: Path, point: Failpoint | str, *, skip: int = 0, sends: str = "SIGKILL") -> None:
    """Lets a process with that directory send itself the signal at `point`, after `skip` passes.

    Atomic, as processes may be running: a process that read a file before its content was written would remove it and
    send no signal.
    """
    for number in range(skip):
        (directory / f"{point}.skip{number}").touch()
    complete = directory / f".{point}"
    complete.write_text(sends)
    complete.rename(directory / point)
