"""A PostgreSQL server of the system whose write-ahead log pgBackRest archives, as docs/operations/backup.md says."""

import os
import pwd
import shutil
import subprocess
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import psycopg

from cli.local.ports import free_port
from tests.support.waiting import wait_for

USER: Final = "postgres"
STANZA: Final = "vigil"
SECONDS: Final = 120
DEBIAN: Final = Path("/usr/lib/postgresql")

_CONFIGURATION: Final = """
listen_addresses = '127.0.0.1'
port = {port}
unix_socket_directories = '{home}'
wal_level = replica
archive_mode = on
archive_command = 'pgbackrest --config={home}/pgbackrest.conf --stanza=vigil archive-push %p'
archive_timeout = 60s
"""
_PGBACKREST: Final = """
[global]
repo1-path={home}/repository
repo1-cipher-type=aes-256-cbc
repo1-cipher-pass=a-long-random-passphrase
repo1-retention-full=2
repo1-bundle=y
compress-type=zst
start-fast=y
log-path={home}/log
lock-path={home}/lock
spool-path={home}/spool

[vigil]
pg1-path={home}/data
pg1-port={port}
pg1-socket-path={home}
pg1-user=postgres
"""


def missing() -> str | None:
    """What the tests need and this machine lacks."""
    if shutil.which("pgbackrest") is None:
        return "pgbackrest is not installed"
    if not list(DEBIAN.glob("*/bin/initdb")):
        return f"there is no PostgreSQL server in {DEBIAN}"
    if os.geteuid() == 0 and not _user_exists():
        return f"there is no user {USER}, and PostgreSQL refuses to run as root"
    return None


@dataclass(frozen=True)
class ArchivedPostgres:
    """The server, and pgBackRest for it; both run as USER if this process is root."""

    home: Path
    port: int

    @property
    def data(self) -> Path:
        return self.home / "data"

    def url(self, database: str) -> str:
        return f"postgresql://{USER}@127.0.0.1:{self.port}/{database}"

    def create(self) -> None:
        """Creates the cluster and its stanza, and leaves the server running."""
        for name in ("data", "repository", "log", "lock", "spool"):
            self._directory(self.home / name)
        self._run(
            [
                self._program("initdb"),
                "-D",
                str(self.data),
                "-U",
                USER,
                "--auth=trust",
                "-E",
                "UTF8",
            ]
        )
        (self.home / "pgbackrest.conf").write_text(
            _PGBACKREST.format(home=self.home, port=self.port)
        )
        with (self.data / "postgresql.conf").open("a") as configuration:
            configuration.write(_CONFIGURATION.format(home=self.home, port=self.port))
        self.start()
        self.pgbackrest("stanza-create")
        self.pgbackrest("check")

    def start(self) -> None:
        """Returns when it accepts writes: after a restore, when the recovery has ended."""
        self._pg_ctl("start", "--wait", "-l", str(self.home / "log" / "postgres.log"))
        wait_for(lambda: self._accepts_writes() or None, "the recovery to end")

    def stop(self) -> None:
        self._pg_ctl("stop", "--wait", "--mode=fast")

    def destroy(self) -> None:
        """Stops the server at once and deletes its files, as the loss of its disk would."""
        self._pg_ctl("stop", "--wait", "--mode=immediate")
        shutil.rmtree(self.data)
        self._directory(self.data)

    def pgbackrest(self, command: str, *options: str) -> None:
        configuration = f"--config={self.home / 'pgbackrest.conf'}"
        self._run(["pgbackrest", configuration, f"--stanza={STANZA}", *options, command])

    def _accepts_writes(self) -> bool:
        with psycopg.connect(self.url("postgres")) as connection:
            return connection.execute("select pg_is_in_recovery()").fetchone() == (False,)

    def _pg_ctl(self, *arguments: str) -> None:
        # Its output goes to a file: the server keeps the descriptors of a pipe open.
        self._run([self._program("pg_ctl"), "-D", str(self.data), *arguments], captured=False)

    def _program(self, name: str) -> str:
        versions = DEBIAN.glob(f"*/bin/{name}")
        return str(max(versions, key=lambda path: float(path.parts[-3])))

    def _directory(self, path: Path) -> None:
        path.mkdir(mode=0o700)
        if os.geteuid() == 0:
            shutil.chown(path, USER, USER)

    def _run(self, command: Sequence[str], *, captured: bool = True) -> None:
        output = subprocess.PIPE if captured else subprocess.DEVNULL
        result = subprocess.run(
            [*as_user(), *command],
            cwd=self.home,
            stdout=output,
            stderr=subprocess.STDOUT,
            text=True,
            timeout=SECONDS,
            check=False,
        )
        assert result.returncode == 0, f"{' '.join(command)}: {result.stdout}"


def as_user() -> list[str]:
    return ["runuser", "-u", USER, "--"] if os.geteuid() == 0 else []


@contextmanager
def archived_postgres() -> Iterator[ArchivedPostgres]:
    """A running server with an empty repository, in a folder that USER can reach."""
    home = Path(tempfile.mkdtemp(prefix="vigil-pgbackrest-"))
    if os.geteuid() == 0:
        shutil.chown(home, USER, USER)
    server = ArchivedPostgres(home, free_port())
    try:
        server.create()
        yield server
    finally:
        if (server.data / "postmaster.pid").exists():
            server.stop()
        shutil.rmtree(home, ignore_errors=True)


def _user_exists() -> bool:
    try:
        pwd.getpwnam(USER)
    except KeyError:
        return False
    return True
