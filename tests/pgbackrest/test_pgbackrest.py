"""Backups of a cluster's PostgreSQL by pgBackRest, with the configuration in docs/operations/backup.md."""

from collections.abc import Iterator

import psycopg
import pytest

from shared.database import migrate
from tests.support.archived_postgres import ArchivedPostgres, archived_postgres, missing
from tests.support.backup import DATABASE, digest_tables, insert_rows

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(missing() is not None, reason=missing() or ""),
]

Rows = dict[str, tuple[int, str]]


@pytest.fixture
def server() -> Iterator[ArchivedPostgres]:
    with archived_postgres() as server:
        with psycopg.connect(server.url("postgres"), autocommit=True) as connection:
            connection.execute(f"create database {DATABASE}")
        migrate.upgrade(server.url(DATABASE))
        yield server


def test_the_last_committed_state_is_restored(server: ArchivedPostgres) -> None:
    server.pgbackrest("backup", "--type=full")
    add_rows(server, "ada")
    server.pgbackrest("backup", "--type=incr")
    add_rows(server, "grace")
    rows = load_rows(server)
    archive(server)
    server.destroy()
    server.pgbackrest("restore")
    server.start()
    assert load_rows(server) == rows
    add_rows(server, "edith")  # it has ended its recovery and accepts writes
    server.pgbackrest("backup", "--type=full")


def test_the_state_at_a_moment_is_restored(server: ArchivedPostgres) -> None:
    server.pgbackrest("backup", "--type=full")
    add_rows(server, "ada")
    rows = load_rows(server)
    with psycopg.connect(server.url(DATABASE), autocommit=True) as connection:
        moment = connection.execute("select clock_timestamp()::text").fetchone()
        assert moment is not None
    add_rows(server, "mistake")
    assert load_rows(server) != rows
    archive(server)
    server.stop()
    server.pgbackrest(
        "restore", "--delta", "--type=time", f"--target={moment[0]}", "--target-action=promote"
    )
    server.start()
    assert load_rows(server) == rows
    add_rows(server, "grace")


def add_rows(server: ArchivedPostgres, name: str) -> None:
    with psycopg.connect(server.url(DATABASE)) as connection:
        insert_rows(connection, name)


def load_rows(server: ArchivedPostgres) -> Rows:
    with psycopg.connect(server.url(DATABASE)) as connection:
        return digest_tables(connection)


def archive(server: ArchivedPostgres) -> None:
    """Lets the server archive what it has written, and waits for it."""
    server.pgbackrest("check")
