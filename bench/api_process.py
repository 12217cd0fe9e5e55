"""The API as a process that can be stopped and started again at the same address."""

import asyncio
import os
import signal
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import BinaryIO, Final, Protocol

from cli.local.ports import free_port, unreadiness
from shared.runtime.settings import Settings

READY_SECONDS: Final = 30.0
POLL_SECONDS: Final = 0.05


class RunningProcess(Protocol):
    @property
    def pid(self) -> int: ...

    @property
    def returncode(self) -> int | None: ...

    def send_signal(self, signal: int, /) -> None: ...

    async def wait(self) -> int: ...


class ApiProcess:
    def __init__(self, settings: Settings, log: Path, **environment: str) -> None:
        """`environment` is added to the variables from `settings`."""
        self.log = log
        self._port = free_port()
        self._process: RunningProcess | None = None
        clean = {name: value for name, value in os.environ.items() if not name.startswith("VIGIL_")}
        self._environment = clean | {
            "VIGIL_DATABASE_URL": settings.database_url,
            "VIGIL_NATS_URL": settings.nats_url,
            "VIGIL_OWNER": settings.owner,
            "VIGIL_EVENT_WINDOW": str(settings.event_window),
            "VIGIL_PORT": str(self._port),
            # Rate limits are not a part of any measurement.
            "VIGIL_REQUESTS_PER_SECOND": "100000",
            "VIGIL_REQUESTS_BURST": "100000",
            "VIGIL_CONNECTIONS_PER_ADDRESS": "2000",
            **environment,
        }

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self._port}"

    @property
    def port(self) -> int:
        return self._port

    @property
    def pid(self) -> int:
        assert self._process is not None, "it has not been started"
        return self._process.pid

    @property
    def is_running(self) -> bool:
        return self._process is not None and self._process.returncode is None

    async def start(self) -> None:
        """Start the process and wait until it is ready. Raises TimeoutError."""
        with self.log.open("ab") as log:
            self._process = await self._start_process(self._environment, log)
        async with asyncio.timeout(READY_SECONDS):
            await self._ready()

    async def _start_process(self, environment: Mapping[str, str], log: BinaryIO) -> RunningProcess:
        return await asyncio.create_subprocess_exec(
            sys.executable,
            *("-m", "services.api"),
            env=environment,
            stdout=log,
            stderr=log,
            process_group=0,  # Ctrl-C stops the benchmark only
        )

    async def _ready(self) -> None:
        while True:
            if await asyncio.to_thread(unreadiness, self._port) is None:
                return
            await asyncio.sleep(POLL_SECONDS)

    async def end(self, how: signal.Signals) -> None:
        """Send a signal and wait for the end; does nothing if the process has ended."""
        if self._process is not None and self._process.returncode is None:
            self._process.send_signal(how)
            await self._process.wait()

    def peak_bytes(self) -> int:
        """Peak resident memory."""
        return self._memory("VmHWM")

    def resident_bytes(self) -> int:
        """Current resident memory."""
        return self._memory("VmRSS")

    def _memory(self, name: str) -> int:
        status = Path(f"/proc/{self.pid}/status").read_text()
        line = next(line for line in status.splitlines() if line.startswith(f"{name}:"))
        return int(line.split()[1]) * 1024
