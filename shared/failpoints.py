"""Failpoints: named points at which a test can kill or freeze a process. Without $VIGIL_CRASH_DIR they do nothing.

A test arms a failpoint with a file of its name in that directory. The file contains the signal that the process sends
to itself (`SIGKILL`, `SIGSTOP`). Each file named `POINT.skip…` lets one process pass first. The state is in files, not in
memory, so that the restarted process does not crash again, and so that only one of several replicas crashes.
"""

import os
import signal
from collections.abc import Mapping
from enum import StrEnum
from pathlib import Path
from typing import Final

DIRECTORY: Final = "VIGIL_CRASH_DIR"


class Failpoint(StrEnum):
    """What the process has just done, in the order in which a message handler passes the points."""

    MESSAGE_RECEIVED = "message_received"
    LEASE_TAKEN = "lease_taken"
    CALL_UNSENT = "call_unsent"
    """The call is in the ledger and has not been sent."""
    CALL_ACCEPTED = "call_accepted"
    """The provider has started and returned its reference, which is not committed. Only for calls with references."""
    CALL_REFERRED = "call_referred"
    """The reference is committed. From here on a crash loses nothing."""
    CALL_ANSWERED = "call_answered"
    """Answered and not recorded. For a call without a reference, a crash here loses a paid answer."""
    CALL_RECORDED = "call_recorded"
    TOOL_APPLIED = "tool_applied"
    """Inside the transaction that writes a tool's effect and result."""
    DELIVERY_ANSWERED = "delivery_answered"
    """The receiver accepted the delivery, and this is not recorded. After a crash here it is sent again."""
    DELIVERY_RECORDED = "delivery_recorded"
    STATE_WRITTEN = "state_written"
    """Right before the commit that ends a step, applies a join transition or starts an iteration."""
    STATE_COMMITTED = "state_committed"
    """Committed, and no event published."""
    EVENTS_PUBLISHED = "events_published"
    """Events published, and the message not acknowledged."""
    DRAINING = "draining"


def failpoint(point: Failpoint, environment: Mapping[str, str] = os.environ) -> None:
    """Sends this process the signal that `point` is armed with, if it is armed."""
    directory = environment.get(DIRECTORY)
    if directory is not None:
        _send_signal_if_armed(Path(directory), point)


def _send_signal_if_armed(directory: Path, point: Failpoint) -> None:
    for skip in directory.glob(f"{point}.skip*"):
        if _consume_file(skip) is not None:
            return
    signal_name = _consume_file(directory / point)
    if signal_name is not None:
        os.kill(os.getpid(), signal.Signals[signal_name])


def _consume_file(file: Path) -> str | None:
    """Removes `file` and returns its content; None if it does not exist or another process removed it first."""
    try:
        content = file.read_text().strip()
        file.unlink()
    except FileNotFoundError:
        return None
    return content
