"""The database of a backup: a snapshot, its dump by pg_dump, and the load of a dump by pg_restore."""

import signal
import subprocess
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass
from datetime import UTC
from typing import IO, Any, Final

import psycopg
from psycopg import Connection, sql

from cli.backup.archive import PART_BYTES
from cli.backup.manifest import LEFT_OUT, BadBackupError, Manifest
from cli.errors import CommandError
from cli.local.engines import postgres_binaries
from cli.local.postgres import plain_environment
from cli.local.processes import before_exec
from shared.version import vigil_version

LOCK_TIMEOUT: Final = "60s"
"""How long the dump waits for a migration, which holds up every other query too."""
COMPRESSION: Final = "gzip:5"

_SERVER: Final = """
select current_setting('server_version_num')::int / 10000, pg_control_system.system_identifier::text,
  transaction_timestamp(), pg_database_size(current_database())
from pg_control_system()
"""
_TABLES: Final = """
select relname from pg_class
where relnamespace = 'public'::regnamespace and relkind in ('r', 'p') order by relname
"""
_SIGNED: Final = "select count(*) from graph_journal where signature is not null"


@dataclass(frozen=True)
class Snapshot:
    """A state of a database that other connections can read too, until its block ends."""

    url: str
    id: str
    manifest: Manifest

    def dump(self) -> Iterator[bytes]:
        """The dump in pg_dump's custom format, in pieces. Raises CommandError."""
        left_out = [f"--exclude-table-data=public.{table}" for table in LEFT_OUT]
        # Roles are not in the dump: `vigil up` creates them, with their privileges and policies.
        options = "--format=custom --no-owner --no-privileges --no-policies --no-password"
        with _program(
            "pg_dump",
            *options.split(),
            f"--compress={COMPRESSION}",
            f"--lock-wait-timeout={LOCK_TIMEOUT}",
            f"--snapshot={self.id}",
            *left_out,
            f"--dbname={self.url}",
            stdout=subprocess.PIPE,
        ) as program:
            assert program.process.stdout is not None
            while piece := program.process.stdout.read(PART_BYTES):
                yield piece
            if program.process.wait() != 0:
                raise CommandError(f"the database cannot be dumped: {program.error()}")


@contextmanager
def open_snapshot(url: str) -> Iterator[Snapshot]:
    """A snapshot of the database, which must have Vigil's tables. Writers are not blocked. Raises CommandError.

    A migration waits until the block ends, and gives up after a minute.
    """
    with ExitStack() as stack:
        try:
            connection = stack.enter_context(
                psycopg.connect(url, application_name="vigil-backup", autocommit=True)
            )
            connection.execute("begin isolation level repeatable read read only")
            connection.execute("set local statement_timeout = 0")
            connection.execute("set local idle_in_transaction_session_timeout = 0")
            snapshot_id = _one(connection, "select pg_export_snapshot()")[0]
            manifest = _describe(connection)
        except psycopg.Error as error:
            raise CommandError(
                f"the database cannot be read: {first_line(error)}; see logs/postgres.log in the data directory"
            ) from error
        yield Snapshot(url, snapshot_id, manifest)


def first_line(error: Exception) -> str:
    return str(error).strip().partition("\n")[0]


def _describe(connection: Connection[Any]) -> Manifest:
    tables = _tables(connection)
    if "alembic_version" not in tables:
        raise CommandError("the database has no tables of Vigil: start it once with `vigil up`")
    postgres, installation, taken_at, size_bytes = _one(connection, _SERVER)
    return Manifest(
        vigil=vigil_version(),
        revision=_one(connection, "select version_num from alembic_version")[0],
        postgres=postgres,
        taken_at=taken_at.astimezone(UTC),
        installation=installation,
        database_bytes=size_bytes,
        tables=count_rows(connection),
        signed_entries=_one(connection, _SIGNED)[0] if _has_signatures(connection) else 0,
    )


def count_rows(connection: Connection[Any]) -> dict[str, int]:
    """The number of rows by table, without those that are left out of backups."""
    return {
        table: _one(
            connection, sql.SQL("select count(*) from {}").format(sql.Identifier("public", table))
        )[0]
        for table in _tables(connection)
        if table not in LEFT_OUT
    }


def postgres_major() -> int:
    """The major version of PostgreSQL that is installed for `vigil up`."""
    answer = subprocess.check_output(
        [str(postgres_binaries() / "postgres"), "--version"], text=True
    )
    return int(answer.split()[-1].partition(".")[0])


class Loader:
    """Passes a dump to pg_restore. After pg_restore has ended early, `write` ignores what follows."""

    def __init__(self, program: "_Program") -> None:
        self._program = program
        self._has_ended = False

    def write(self, data: bytes) -> None:
        assert self._program.process.stdin is not None
        if self._has_ended:
            return
        try:
            self._program.process.stdin.write(data)
        except BrokenPipeError:
            self._has_ended = True

    def finish(self) -> None:
        """Waits for the end. Raises BadBackupError if pg_restore failed."""
        assert self._program.process.stdin is not None
        try:
            self._program.process.stdin.close()
        except BrokenPipeError:
            self._has_ended = True
        if self._program.process.wait() != 0:
            raise BadBackupError(f"its database cannot be loaded: {self._program.error()}")


@contextmanager
def loading(url: str | None) -> Iterator[Loader]:
    """Loads a dump into an empty database, or only reads it if there is none."""
    target = ["--file=/dev/null"] if url is None else ["--exit-on-error", f"--dbname={url}"]
    with _program(
        "pg_restore", "--no-owner", "--no-privileges", *target, stdin=subprocess.PIPE
    ) as program:
        yield Loader(program)


@dataclass(frozen=True)
class _Program:
    process: "subprocess.Popen[bytes]"
    errors: IO[bytes]

    def error(self) -> str:
        """The first line that it wrote to stderr."""
        self.errors.seek(0)
        first_line = self.errors.readline().decode(errors="replace").strip()
        return first_line or f"exit status {self.process.returncode}"


@contextmanager
def _program(name: str, *options: str, **streams: Any) -> Iterator[_Program]:
    """Runs a program of PostgreSQL; it ends with the block, and with this process."""
    command: Sequence[str] = [str(postgres_binaries() / name), *options]
    with tempfile.TemporaryFile() as errors:
        process = subprocess.Popen(
            command,
            stderr=errors,
            env=plain_environment(),
            process_group=0,
            preexec_fn=before_exec(signal.SIGKILL),
            **{"stdin": subprocess.DEVNULL, "stdout": subprocess.DEVNULL, **streams},
        )
        try:
            yield _Program(process, errors)
        finally:
            process.kill()
            process.wait()
            for stream in (process.stdin, process.stdout):
                if stream is not None:
                    # What is still buffered for a program that has ended cannot be written.
                    with suppress(BrokenPipeError):
                        stream.close()


def _tables(connection: Connection[Any]) -> list[str]:
    return [name for (name,) in connection.execute(_TABLES)]


def _has_signatures(connection: Connection[Any]) -> bool:
    query = """select exists (select from pg_attribute
      where attrelid = to_regclass('graph_journal') and attname = 'signature')"""
    return bool(_one(connection, query)[0])


def _one(connection: Connection[Any], query: Any) -> tuple[Any, ...]:
    row = connection.execute(query).fetchone()
    assert row is not None
    return tuple(row)
