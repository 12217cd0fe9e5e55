"""Data directories with rows, the commands `vigil backup` and `vigil restore`, and what a database contains."""

import os
import subprocess
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final

import psycopg
from alembic import command
from psycopg import Connection, sql
from sqlalchemy import create_engine

from cli.backup.manifest import LEFT_OUT
from cli.local.data_directory import DataDirectory
from cli.local.postgres import EmbeddedPostgres
from shared.database import migrate
from shared.database.engine import driver_url
from tests.support.cli.running import running_installation
from tests.support.paths import ROOT
from tests.support.warm_processes import run_vigil

DATABASE: Final = "vigil"
SECONDS: Final = 120.0

_DIGEST: Final = """
select count(*), md5(coalesce(string_agg(row, '' order by row), ''))
from (select md5(to_jsonb(each)::text) as row from {table} as each) as rows
"""
_TABLES: Final = "select tablename from pg_tables where schemaname = 'public' order by 1"
_USER: Final = """
insert into users (id, name, operator) values (gen_random_uuid(), %(name)s, false) returning id
"""
_ROWS: Final = (
    """insert into api_tokens (id, user_id, name, digest, scopes)
      values (gen_random_uuid(), %(id)s, 'reports', %(secret)s, '["read"]')""",
    """insert into sessions (id, user_id, digest, browser, ends_at)
      values (gen_random_uuid(), %(id)s, %(secret)s, 'Firefox', now() + interval '1 day')""",
    """insert into sign_in_links (id, user_id, digest, expires_at)
      values (gen_random_uuid(), %(id)s, %(secret)s, now() + interval '1 day')""",
    """insert into idempotency_keys (owner_id, key, request_hash, status, body)
      select %(id)s, n::text, md5(n::text), 200, decode(repeat(md5(n::text), 60), 'hex')
      from generate_series(1, %(count)s) as n""",
)


def digest_tables(connection: Connection[Any]) -> dict[str, tuple[int, str]]:
    """The number of rows of each table and a digest of them, without what a restore leaves out."""
    tables = [name for (name,) in connection.execute(_TABLES) if name not in LEFT_OUT]
    return {table: _digest(connection, table) for table in tables}


def _digest(connection: Connection[Any], table: str) -> tuple[int, str]:
    query = sql.SQL(_DIGEST).format(table=sql.Identifier(table))
    row = connection.execute(query).fetchone()
    assert row is not None
    return row[0], row[1]


def create_database(postgres: EmbeddedPostgres, *, revision: str = "head", rows: int = 200) -> None:
    """Creates Vigil's database, migrated up to the revision, with a user who has a token, a session and a link."""
    with psycopg.connect(postgres.dsn, autocommit=True) as connection:
        connection.execute(f"create database {DATABASE}")
    engine = create_engine(driver_url(postgres.url(DATABASE)))
    with engine.connect() as connection_of_engine:
        command.upgrade(migrate.config_for(connection_of_engine), revision)
    engine.dispose()
    with psycopg.connect(postgres.url(DATABASE)) as connection:
        insert_rows(connection, "ada", rows)


def insert_rows(connection: Connection[Any], user: str, count: int = 200) -> None:
    """Adds a user with a token, a session, a link and `count` responses."""
    row = connection.execute(_USER, {"name": user}).fetchone()
    assert row is not None
    for statement in _ROWS:
        connection.execute(statement, {"id": row[0], "secret": user.encode(), "count": count})


@contextmanager
def running_source(root: Path, **options: Any) -> Iterator[tuple[DataDirectory, EmbeddedPostgres]]:
    """A data directory whose PostgreSQL runs, and which is announced as a running installation."""
    directory = DataDirectory(root)
    directory.create()
    postgres = EmbeddedPostgres(directory.postgres, directory.logs / "postgres.log")
    postgres.start()
    try:
        create_database(postgres, **options)
        running = running_installation().model_copy(update={"database_url": postgres.url(DATABASE)})
        with directory.locked(), directory.announced(running):
            yield directory, postgres
    finally:
        postgres.stop()


@contextmanager
def started(root: Path) -> Iterator[Connection[Any]]:
    """A connection to the database of a data directory that does not run."""
    postgres = EmbeddedPostgres(root / "postgres", root / "logs" / "postgres.log")
    postgres.start()
    try:
        with psycopg.connect(postgres.url(DATABASE)) as connection:
            yield connection
    finally:
        postgres.stop()


def start_vigil(
    *arguments: str | Path, cwd: Path, variables: Mapping[str, str] | None = None, **streams: Any
) -> "subprocess.Popen[bytes]":
    """Starts the command in an interpreter of its own, with further variables of the environment."""
    return subprocess.Popen(
        [sys.executable, "-m", "cli", *map(str, arguments)],
        cwd=cwd,
        env={**_environment(cwd), **(variables or {})},
        **{"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, **streams},
    )


def vigil(*arguments: str | Path, cwd: Path, stdin: bytes | None = None) -> tuple[int, str, str]:
    """Runs the command. Returns its exit code, stdout and stderr."""
    if stdin is None:
        result = run_vigil(
            [*map(str, arguments)], _environment(cwd), timeout_seconds=SECONDS, directory=cwd
        )
        return result.returncode, result.stdout, result.stderr
    process = start_vigil(*arguments, cwd=cwd, stdin=subprocess.PIPE)
    out, errors = process.communicate(stdin, timeout=SECONDS)
    return process.returncode, out.decode(), errors.decode()


def _environment(home: Path) -> dict[str, str]:
    return {"PATH": os.environ["PATH"], "PYTHONPATH": str(ROOT), "HOME": str(home)}
