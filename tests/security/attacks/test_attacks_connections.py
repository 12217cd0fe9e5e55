"""Clients that disconnect or hold connections, alone and while others send valid requests."""

import asyncio
import json
import os
import socket
import sys
import time
from asyncio.subprocess import PIPE, Process
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import httpx
import pytest

from cli.local.ports import free_port, unreadiness
from shared.enums import AccessScope
from shared.runtime.settings import Settings
from tests.support.api.signed_in import create_token
from tests.support.attacks.raw import get
from tests.support.waiting import wait_for
from tests.support.warm_processes import WarmProcess, start_blocking

API: Final = "from services.api.app import serve; serve()"
SANDBOX: Final = "from sandbox.__main__ import main; main()"
_DEFAULT_SIGPIPE: Final = "import signal; signal.signal(signal.SIGPIPE, signal.SIG_DFL); "


class AttackedProcess:
    def __init__(self, process: WarmProcess, port: int, log: Path) -> None:
        self.process = process
        self.port = port
        self._log = log

    @property
    def log(self) -> str:
        return self._log.read_text(errors="replace")

    @property
    def open_files(self) -> int:
        return len(os.listdir(f"/proc/{self.process.pid}/fd"))

    def connect(self, source: str = "127.0.0.1") -> socket.socket:
        """Connect from this loopback address."""
        return socket.create_connection(
            ("127.0.0.1", self.port), timeout=10, source_address=(source, 0)
        )

    def send(self, request: bytes, source: str = "127.0.0.1") -> bytes:
        """Send the bytes and return everything received until the connection is closed."""
        with self.connect(source) as connection:
            connection.sendall(request)
            return b"".join(iter(lambda: connection.recv(65536), b""))


@contextmanager
def attacked_process(
    log: Path,
    *arguments: str,
    program: str = API,
    ready: str = "/health/ready",
    port: int | None = None,
    files: tuple[int, int] | None = None,
    **environment: str,
) -> Iterator[AttackedProcess]:
    """`files` is the soft and hard limit of open files; `environment` is added to the port."""
    port = port or free_port()
    base_environment = {
        name: value for name, value in os.environ.items() if not name.startswith("VIGIL_")
    }
    with (
        log.open("wb") as file,
        open(os.devnull, "rb") as nothing,
    ):
        process = start_blocking(
            ["-c", _DEFAULT_SIGPIPE + program, *arguments],
            {**base_environment, "VIGIL_PORT": str(port), **environment},
            fds=(nothing.fileno(), file.fileno(), file.fileno()),
            open_files=files,
        )
        try:

            def is_ready() -> bool | None:
                assert process.poll() is None, log.read_text(errors="replace")
                return True if unreadiness(port, ready) is None else None

            wait_for(is_ready, f"the process at port {port} to be ready")
            yield AttackedProcess(process, port, log)
        finally:
            if process.poll() is None:
                process.terminate()
                process.wait_blocking()


HANG_UPS = 300
HALF_OPEN = 1300
LIVE = get("/health/live")
PARTIAL_REQUEST = b"GET /api/v1/about HTTP/1.1\r\nHost: 127.0.0.1\r\nX-Slow: "


def test_disconnecting_clients_do_not_end_the_api(database_url: str, tmp_path: Path) -> None:
    with attacked_process(tmp_path / "log", VIGIL_DATABASE_URL=database_url) as api:
        _hang_up(api, get("/api/v1/openapi.json"))
        assert api.send(LIVE).startswith(b"HTTP/1.1 200")
        assert api.process.poll() is None


def test_disconnecting_clients_do_not_end_the_sandbox(tmp_path: Path) -> None:
    corpus = str(Path(__file__).parents[2] / "corpus")
    port = free_port()
    arguments = ("--port", str(port), "--corpus", corpus)
    with attacked_process(
        tmp_path / "log", *arguments, program=SANDBOX, ready="/health", port=port
    ) as sandbox:
        _hang_up(sandbox, get("/health"))
        assert sandbox.send(get("/health")).startswith(b"HTTP/1.1 200")
        assert sandbox.process.poll() is None


def _hang_up(server: AttackedProcess, request: bytes) -> None:
    """Send requests and disconnect: the server's first write gets a reset, and the second raises SIGPIPE."""
    for _ in range(HANG_UPS):
        with server.connect() as connection:
            connection.sendall(request)


def test_half_open_connections_do_not_block_other_clients(
    database_url: str, tmp_path: Path
) -> None:
    with attacked_process(
        tmp_path / "log", files=(256, 1024), VIGIL_DATABASE_URL=database_url
    ) as api:
        connections = [_half_open(api) for _ in range(HALF_OPEN)]
        try:
            for path in ("/health/live", "/health/ready", "/api/v1/about"):
                for source in ("127.0.0.1", "127.0.0.2"):
                    answer = api.send(get(path), source)
                    assert answer.startswith(b"HTTP/1.1 200"), (path, source, answer)
            assert api.open_files < 1024
            lines = wait_for(
                lambda: _lines(api, "closed connections that exceeded the client limits") or None,
                "a line",
            )
            assert lines[0]["displaced"] >= 1
            assert lines[0]["busiest_address"] == "127.0.0.1"
            assert len(lines) < 5
            (low,) = _lines(api, "limit on open files is low")
            assert low["files"] == 1024
        finally:
            for connection in connections:
                connection.close()


def test_the_limit_of_open_files_is_raised(database_url: str, tmp_path: Path) -> None:
    with attacked_process(
        tmp_path / "log", files=(256, 4096), VIGIL_DATABASE_URL=database_url
    ) as api:
        limits = Path(f"/proc/{api.process.pid}/limits").read_text()
        (line,) = [line for line in limits.splitlines() if line.startswith("Max open files")]
        assert line.split()[3:5] == ["4096", "4096"]
        assert not _lines(api, "limit on open files is low")


def _half_open(api: AttackedProcess) -> socket.socket:
    connection = api.connect()
    connection.sendall(PARTIAL_REQUEST)
    return connection


def _lines(api: AttackedProcess, words: str) -> list[dict[str, Any]]:
    lines = [json.loads(line) for line in api.log.splitlines() if words in line]
    return [line for line in lines if words in line["event"]]


P95_SECONDS: Final = 0.1
"""Asserted only in the full form, which has the machine to itself."""
PAUSE_SECONDS: Final = 0.02
REQUESTS_PER_CONNECTION: Final = 10
"""Requests per connection."""
CLIENTS: Final = ("127.0.0.1", "127.0.0.9")
"""One address that attackers also use, and one that they do not."""


@dataclass(frozen=True)
class Load:
    disconnects: int
    half_open: int
    seconds: float


SHORT: Final = Load(disconnects=400, half_open=200, seconds=4)
FULL: Final = Load(disconnects=10_000, half_open=2_000, seconds=120)


@pytest.fixture(scope="session")
def load(attacks_in_full: bool) -> Load:
    return FULL if attacks_in_full else SHORT


async def test_valid_requests_are_served_while_clients_waste_connections(
    settings: Settings, tmp_path: Path, load: Load, attacks_in_full: bool
) -> None:
    token = await create_token(settings, None, [AccessScope.READ, AccessScope.WRITE])
    with attacked_process(
        tmp_path / "log",
        VIGIL_DATABASE_URL=settings.database_url,
        VIGIL_NATS_URL=settings.nats_url,
        VIGIL_REQUESTS_PER_SECOND="10000",
        VIGIL_REQUESTS_BURST="10000",
    ) as api:
        attack_ended = asyncio.Event()
        clients = [
            asyncio.create_task(_send_until(api, token, source, attack_ended)) for source in CLIENTS
        ]
        attackers = await _start_attackers(api, token, load)
        try:
            async with asyncio.timeout(3 * load.seconds + 30):
                output, _ = await attackers.communicate()
        finally:
            if attackers.returncode is None:
                attackers.kill()
            attack_ended.set()
        waits = [sorted(latencies) for latencies in await asyncio.gather(*clients)]
        result = json.loads(output)
        p95 = [latencies[int(0.95 * len(latencies))] for latencies in waits]
        print(
            f"\n{load}: {result['statuses']}; valid requests:",
            *(
                f"{source}: {len(latencies)}, p95 {1000 * percentile:.0f} ms, most {1000 * latencies[-1]:.0f} ms;"
                for source, latencies, percentile in zip(CLIENTS, waits, p95, strict=True)
            ),
        )
        assert result["bad"] == []
        assert api.process.poll() is None
        assert "Traceback" not in api.log
        assert Counter(_levels(api))["error"] == 0
        assert api.send(b"GET /health/ready HTTP/1.0\r\nHost: localhost\r\n\r\n")[9:12] == b"200"
        if attacks_in_full:
            assert max(p95) < P95_SECONDS


async def _start_attackers(api: AttackedProcess, token: str, load: Load) -> Process:
    """Start the attackers in a separate process, so that they do not delay the measured requests."""
    return await asyncio.create_subprocess_exec(
        sys.executable,
        *("-m", "tests.support.attacks.hanging_up", str(api.port), token),
        *(str(load.disconnects), str(load.half_open), str(load.seconds)),
        stdout=PIPE,
        cwd=Path(__file__).parents[3],
        env={**os.environ},
    )


async def _send_until(
    api: AttackedProcess, token: str, source: str, attack_ended: asyncio.Event
) -> list[float]:
    """Send requests until the event is set and return their latencies. Fails at the first bad status."""
    waits: list[float] = []
    base = f"http://127.0.0.1:{api.port}"
    headers = {"Authorization": f"Bearer {token}"}
    paths = ("/api/v1/agents", "/health/live")
    while not attack_ended.is_set():
        # No TLS: loading the certificates takes as long as several requests.
        transport = httpx.AsyncHTTPTransport(local_address=source, verify=False)
        async with httpx.AsyncClient(
            base_url=base, headers=headers, transport=transport, timeout=30
        ) as client:
            for number in range(REQUESTS_PER_CONNECTION):
                start = time.perf_counter()
                answer = await client.get(paths[number % len(paths)])
                waits.append(time.perf_counter() - start)
                assert answer.status_code == 200, answer.text
                await asyncio.sleep(PAUSE_SECONDS)
    return waits


def _levels(api: AttackedProcess) -> list[str]:
    return [str(json.loads(line)["level"]) for line in api.log.splitlines() if line[:1] == "{"]
