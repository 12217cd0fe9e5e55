"""PostgreSQL from a wheel, in a folder of its own, on a Unix socket that only its owner can reach."""

import os
import signal
import stat
import subprocess
from collections.abc import Mapping, Sequence
from contextlib import suppress
from hashlib import sha256
from pathlib import Path
from typing import Final
from urllib.parse import quote, urlencode

import psutil

from cli.local.binaries import postgres_binaries
from cli.local.cluster import (
    check_version,
    close_to_others,
    make_cluster,
    plain_environment,
    remove_misleading_pid_file,
    server_status,
)
from cli.local.engine import Engine
from cli.local.errors import EngineError
from cli.local.ordinary import namespace_explained, ordinary_uid, require_open_path
from cli.local.strays import find_strays, stop_strays

SOCKET_PORT: Final = 5432
"""No TCP port: it ends the name of the socket's file."""

LONGEST_SOCKET_DIRECTORY: Final = 85
"""In bytes: the path of a socket has at most 107 on Linux and 103 on macOS, with `/.s.PGSQL.5432` at its end."""

SETTINGS: Final[Mapping[str, str]] = {
    "listen_addresses": "",  # a TCP port is open to every local user, who could at least use up all connections
    "port": str(SOCKET_PORT),
    "unix_socket_permissions": "0700",
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
    """A cluster in `data`, made at the first start, for the operating system's user that starts it.

    That user is the superuser `postgres` without a password; no other user reaches the socket, and there is no TCP.

    Whoever starts it must hold the data directory's lock: a server that already serves `data`
    counts as an orphan of a killed run, and is stopped first.
    """

    name = "PostgreSQL"
    # Fast shutdown, then immediate: the latter recovers from its log at the next start.
    stop_signals = ((signal.SIGINT, 30.0), (signal.SIGQUIT, 5.0))

    def __init__(self, data: Path, log: Path, *, durable: bool = True) -> None:
        super().__init__(log)
        self.data = data.resolve()
        self.sockets = socket_directory(self.data)
        self.durable = durable
        self.appear_as_uid = ordinary_uid()

    @property
    def dsn(self) -> str:
        """The maintenance database, for libpq and psycopg."""
        return self.url("postgres")

    def url(self, database: str) -> str:
        """A database of this server, for libpq and psycopg."""
        where = urlencode({"host": self.sockets, "port": SOCKET_PORT}, safe="/", quote_via=quote)
        return f"postgresql://postgres@/{quote(database, safe='')}?{where}"

    def _prepare(self) -> None:
        if self.appear_as_uid is not None:
            require_open_path(self.data)
        if not (self.data / "PG_VERSION").exists():
            make_cluster(self.data, durable=self.durable, appear_as_uid=self.appear_as_uid)
        check_version(self.data)
        stop_strays(find_strays("postgres", self._is_ours), self.stop_signals)
        remove_misleading_pid_file(self.data)
        close_to_others(self.data)
        if self.sockets != self.data:
            make_own_directory(self.sockets)
        for left in self.sockets.glob(".s.PGSQL.*"):
            left.unlink()  # of a killed run; the process that its lock file names may be any by now

    def stop(self) -> None:
        super().stop()
        if self.sockets != self.data:
            with suppress(OSError):  # it was never made, or another server of this cluster uses it
                self.sockets.rmdir()

    def _command(self) -> Sequence[str]:
        settings = {
            **SETTINGS,
            "unix_socket_directories": _quoted(self.sockets),
            **({} if self.durable else NOT_DURABLE),
        }
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


def socket_directory(data: Path) -> Path:
    """The cluster's own folder, or one in /tmp where its path is too long for a socket, or has a comma.

    In libpq's URLs a comma is the end of one host of several, and nothing escapes it.
    """
    if len(os.fsencode(data)) <= LONGEST_SOCKET_DIRECTORY and "," not in str(data):
        return data
    return Path("/tmp") / f"vigil-{os.geteuid()}-{sha256(os.fsencode(data)).hexdigest()[:16]}"


def _quoted(directory: Path) -> str:
    """As an element of a list of PostgreSQL's configuration."""
    doubled = str(directory).replace('"', '""')
    return f'"{doubled}"'


def make_own_directory(directory: Path) -> None:
    """With mode 0700. Raises EngineError where another user has put something in its place."""
    with suppress(FileExistsError):
        directory.mkdir(mode=0o700)
    found = directory.lstat()
    if not stat.S_ISDIR(found.st_mode) or found.st_uid != os.geteuid():
        raise EngineError(
            f"{directory}, which is to hold PostgreSQL's socket, belongs to another user: "
            "have it removed, or give a data directory with a shorter path with VIGIL_DATA"
        )
    directory.chmod(0o700)
