"""Restarts NATS if it stores no messages although there is space.

After its disk was full, nats-server refuses every message until it is restarted. It reports this to no
client in advance: the services notice that their messages are not stored. One service may also fail for a reason of
its own, so NATS is restarted only if it does not store the supervisor's message either.
"""

import shutil
import threading
import time
from collections.abc import Callable
from math import inf
from pathlib import Path
from typing import Final

from cli.local.engines import HEALTHY_SECONDS, EngineWatchdog
from shared.events.topology import STORE_FAULT
from shared.wording import bytes_of

POLL_SECONDS: Final = 2.0
PATIENCE_SECONDS: Final = 8.0
"""Minimum duration of a failure while there is space. A shorter one, as of a slow disk, ends by itself."""
ENOUGH_BYTES: Final = 4 * 1024**2
"""NATS reserves little at its start; the limit of the stream is larger, but what is free is not known to stay so."""
MAX_PAUSE_SECONDS: Final = 600.0


class RestartDecision:
    """Decides when NATS is restarted: not while the disk is full, and rarely if restarts do not help."""

    def __init__(self) -> None:
        self._since: float | None = None
        """Start of the failure although there is space; None without one."""
        self._restarted_at: float | None = None
        self._pause_seconds = HEALTHY_SECONDS

    def is_due(self, now: float, fault: str | None, free_bytes: int) -> bool:
        """Returns true if NATS must be restarted at `now`. `fault` says why NATS does not store messages."""
        if fault is None or free_bytes < ENOUGH_BYTES:
            self._since = None
            return False
        self._since = now if self._since is None else self._since
        if now - self._since < PATIENCE_SECONDS:
            return False
        elapsed = inf if self._restarted_at is None else now - self._restarted_at
        if elapsed < self._pause_seconds:
            return False
        is_repeated = elapsed < 2 * MAX_PAUSE_SECONDS
        longer = min(2 * self._pause_seconds, MAX_PAUSE_SECONDS)
        self._pause_seconds = longer if is_repeated else HEALTHY_SECONDS
        self._restarted_at, self._since = now, None
        return True


class StoreWatch:
    """Polls the services in a thread of its own, since one that hangs takes seconds to answer."""

    def __init__(
        self,
        store: Path,
        find_faults: Callable[[], list[str]],
        probe: Callable[[], str | None],
        watchdog: EngineWatchdog,
    ) -> None:
        """`store` is on the disk of NATS; `find_faults` returns why services are not ready.

        `probe` stores a message itself, and returns why that failed, or None.
        """
        self._store = store
        self._find_faults = find_faults
        self._probe = probe
        self._watchdog = watchdog
        self._decision = RestartDecision()
        self._fault: str | None = None
        self._was_reported = False
        self._ending = threading.Event()
        self._thread = threading.Thread(target=self._poll, name="store watch", daemon=True)

    def start(self) -> None:
        self._thread.start()

    def stop(self) -> None:
        """Returns at once; a poll that is in progress ends by itself."""
        self._ending.set()

    def look_after(self) -> str | None:
        """Restarts NATS if it is due; returns what happened in one line, or None. For the main thread."""
        fault, was_reported = self._fault, self._was_reported
        self._was_reported = fault is not None
        free_bytes = 0 if fault is None else self._free_bytes()
        if self._decision.is_due(time.monotonic(), fault, free_bytes):
            self._watchdog.restart()
            return f"{fault}, although there is space; restarting NATS"
        if fault is None or was_reported:
            return None
        return f"{fault}; {bytes_of(free_bytes)} free at {self._store}"

    def _free_bytes(self) -> int:
        """Free space on the disk of NATS. NATS recreates a deleted directory when it starts."""
        store = self._store if self._store.exists() else self._store.parent
        return shutil.disk_usage(store).free

    def _poll(self) -> None:
        while not self._ending.wait(POLL_SECONDS):
            is_reported = any(fault.startswith(STORE_FAULT) for fault in self._find_faults())
            self._fault = self._probe() if is_reported else None
