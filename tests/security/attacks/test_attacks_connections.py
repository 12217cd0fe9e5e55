"""Clients that disconnect or hold unused connections do not block the API for other clients."""

import json
import socket
from pathlib import Path
from typing import Any

from cli.local.ports import free_port
from tests.support.attacks.process import SANDBOX, AttackedProcess, attacked_process
from tests.support.attacks.raw import get
from tests.support.waiting import wait_for

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
