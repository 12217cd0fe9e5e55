"""The processes of an installation, each as in a container of its own."""

import os
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Final

import psutil

from bench.loop.trips import TRIPS_FILE
from cli.local.members import CONSUMER_SERVICES
from cli.local.ports import free_port, unreadiness
from shared.runtime.settings import Settings

READY_SECONDS: Final = 180.0
STOP_SECONDS: Final = 30.0
POLL_SECONDS: Final = 0.05


class ServicePool:
    """All services, with a number of researchers."""

    def __init__(
        self,
        settings: Settings,
        home: Path,
        *,
        delay_seconds: float = 0.0,
        providers_url: str | None = None,
        researchers: int = 1,
        counts_trips: bool = False,
    ) -> None:
        """Model and search answer in the process, after `delay_seconds`, or over HTTP at `providers_url`.

        With `counts_trips`, the processes count their round trips to PostgreSQL: see `trips`.
        """
        self._home = home
        self._providers = "http" if providers_url else str(delay_seconds)
        self._counts_trips = counts_trips
        self._names = [*CONSUMER_SERVICES, *["researcher"] * (researchers - 1)]
        clean = {name: value for name, value in os.environ.items() if not name.startswith("VIGIL_")}
        self._environment = clean | {
            "VIGIL_DATABASE_URL": settings.database_url,
            "VIGIL_NATS_URL": settings.nats_url,
            "VIGIL_LOG_LEVEL": "WARNING",
            # Its pages are not those of the web, and every iteration is to be measured at work.
            "VIGIL_PROBE_PAGES": "0",
            "VIGIL_SEARCH_TTL_SECONDS": "0",
            **(_provider_settings(providers_url) if providers_url else {}),
        }
        self._processes: list[tuple[str, psutil.Popen]] = []
        self.ports: Sequence[int] = ()

    @contextmanager
    def running(self) -> Iterator[None]:
        """Run the processes; the block starts when all are ready. Raises TimeoutError, or RuntimeError if one ends."""
        try:
            self.ports = [self._start(name) for name in self._names]
            for port in self.ports:
                self._wait_for(port)
            yield
        finally:
            self._end()

    @property
    def seconds(self) -> dict[str, float]:
        """Processor seconds of each service so far."""
        seconds: dict[str, float] = {}
        for name, process in self._processes:
            times = process.cpu_times()
            seconds[name] = seconds.get(name, 0.0) + times.user + times.system
        return seconds

    @property
    def pids(self) -> list[tuple[str, int]]:
        return [(name, process.pid) for name, process in self._processes]

    @property
    def resident_bytes(self) -> dict[str, int]:
        """Resident memory of each service; the largest of several replicas."""
        bytes_by_name: dict[str, int] = {}
        for name, process in self._processes:
            bytes_by_name[name] = max(bytes_by_name.get(name, 0), process.memory_info().rss)
        return bytes_by_name

    def _start(self, name: str) -> int:
        port = free_port()
        with (self._home / f"{name}.log").open("ab") as log:
            process = psutil.Popen(
                [sys.executable, "-m", "bench.loop.service", name, self._providers],
                env=self._environment | {"VIGIL_PORT": str(port)} | self._trips_settings(),
                stdout=log,
                stderr=log,
                # Ctrl-C stops the benchmark, which then stops the processes in order.
                process_group=0,
            )
        self._processes.append((name, process))
        return port

    def _trips_settings(self) -> dict[str, str]:
        if not self._counts_trips:
            return {}
        return {TRIPS_FILE: str(self._home / f"{len(self._processes)}.trips")}

    def _wait_for(self, port: int) -> None:
        deadline = time.monotonic() + READY_SECONDS
        while (why := unreadiness(port)) is not None:
            for name, process in self._processes:
                if process.poll() is not None:
                    log = (self._home / f"{name}.log").read_text()
                    raise RuntimeError(f"{name} has ended: {log[-2000:]}")
            if time.monotonic() > deadline:
                raise TimeoutError(f"a service is not ready after {READY_SECONDS:g} s: {why}")
            time.sleep(POLL_SECONDS)

    def _end(self) -> None:
        for _, process in self._processes:
            if process.poll() is None:
                process.terminate()
        for _, process in self._processes:
            try:
                process.wait(STOP_SECONDS)
            except (psutil.TimeoutExpired, subprocess.TimeoutExpired):
                process.kill()
                process.wait()


def _provider_settings(url: str) -> dict[str, str]:
    return {
        "OPENAI_BASE_URL": f"{url}/v1",
        "OPENAI_API_KEY": "bench",
        "TAVILY_BASE_URL": url,
        "TAVILY_API_KEY": "bench",
        # As the clients of others ask by default.
        "VIGIL_MODEL_STREAM": "never",
    }


def cpu_seconds(pid: int) -> float:
    """Processor seconds of a process and its children, including ended ones."""
    root = psutil.Process(pid)
    processes = [root, *root.children(recursive=True)]
    cpu_times = [process_times.cpu_times() for process_times in processes]
    ended_children = cpu_times[0].children_user + cpu_times[0].children_system
    return ended_children + sum(
        process_times.user + process_times.system for process_times in cpu_times
    )


def log_warnings(home: Path, names: Sequence[str] = CONSUMER_SERVICES) -> list[str]:
    """Warnings in the services' logs."""
    return [
        f"{name}: {line}"
        for name in names
        if (log := home / f"{name}.log").exists()
        for line in log.read_text().splitlines()
        if line.strip()
    ]
