"""Named instants at which a test may end or freeze a process; without $VIGIL_CRASH_DIR they do nothing.

A point is armed by a file of its name in that directory, which holds the signal that the process then sends itself
(`SIGKILL`, `SIGSTOP`). Files named `POINT.skip…` let that many processes pass first. Files and not memory, so that who
is started again after the crash does not crash again, and so that one of several replicas does it.
"""

import os
import signal
from collections.abc import Mapping
from enum import StrEnum
from pathlib import Path
from typing import Final

DIRECTORY: Final = "VIGIL_CRASH_DIR"


class CrashPoint(StrEnum):
    """What has just been done, in the order in which a message's handler comes by."""

    MESSAGE_RECEIVED = "message_received"
    LEASE_TAKEN = "lease_taken"
    CALL_UNSENT = "call_unsent"
    """The call stands in the ledger and has not been sent."""
    CALL_ACCEPTED = "call_accepted"
    """The other side has begun and told its reference, which is not committed. Only where calls have references."""
    CALL_REFERRED = "call_referred"
    """That reference is committed; from here on nothing is lost."""
    CALL_ANSWERED = "call_answered"
    """Answered and not recorded: without a reference, the window in which a paid answer can be lost."""
    CALL_RECORDED = "call_recorded"
    TOOL_APPLIED = "tool_applied"
    """Inside the transaction of a tool's effect and result."""
    DELIVERY_ANSWERED = "delivery_answered"
    """The receiver has taken it, and that is not recorded: the window in which it is sent once more."""
    DELIVERY_RECORDED = "delivery_recorded"
    STATE_WRITTEN = "state_written"
    """Inside the transaction that ends a step, joins, or starts an iteration."""
    STATE_COMMITTED = "state_committed"
    """Committed, and nothing of it published."""
    EVENTS_PUBLISHED = "events_published"
    """Published, and the message not acked."""
    DRAINING = "draining"


def reach(point: CrashPoint, environment: Mapping[str, str] = os.environ) -> None:
    """Says that the process is at `point`."""
    directory = environment.get(DIRECTORY)
    if directory is not None:
        _strike(Path(directory), point)


def _strike(directory: Path, point: CrashPoint) -> None:
    for skip in directory.glob(f"{point}.skip*"):
        if _taken(skip) is not None:
            return
    armed = _taken(directory / point)
    if armed is not None:
        os.kill(os.getpid(), signal.Signals[armed])


def _taken(file: Path) -> str | None:
    """What `file` says, to the one process that removes it; None where there is none, or another was quicker."""
    try:
        said = file.read_text().strip()
        file.unlink()
    except FileNotFoundError:
        return None
    return said
