"""The databases of tests: used again if emptying them is enough, replaced otherwise."""

import psycopg
import pytest

from tests.support.databases import DatabasePool
from tests.support.engines import Postgres

_OID = "select oid from pg_database where datname = current_database()"
_INSERT_OWNER = "insert into users (id, name) values (gen_random_uuid(), 'someone')"


def _query(url: str, *statements: str) -> list[tuple[object, ...]]:
    """Runs the statements; returns the rows of the last one."""
    with psycopg.connect(url) as connection:
        for statement in statements:
            cursor = connection.execute(statement)
        return cursor.fetchall()


@pytest.fixture
def pool(database_pool: DatabasePool) -> DatabasePool:
    return database_pool


_ATTEMPTS = 3
"""Autovacuum comes once a minute, so that it spoils one of them at most."""


def test_a_database_is_emptied_and_used_again_under_another_name(
    pool: DatabasePool, postgres: Postgres
) -> None:
    for _ in range(_ATTEMPTS):
        name = pool.take()
        first = _query(postgres.url(name), _INSERT_OWNER, _OID)
        pool.give_back(name)
        again = pool.take()
        assert again != name
        if is_same := _query(postgres.url(again), _OID) == first:
            break
        # Autovacuum has analysed it meanwhile, so that it was replaced.
        pool.give_back(again)

    assert is_same, "it is the same database"
    assert _query(postgres.url(again), "select from users") == []
    pool.give_back(again)


def test_the_pool_connects_again_if_the_server_has_ended_its_connection(
    pool: DatabasePool, postgres: Postgres
) -> None:
    """Else all later tests of the process would fail."""
    pid = pool._server.info.backend_pid
    first = pool.take()
    _query(postgres.url("postgres"), f"select pg_terminate_backend({pid}, 5000)")
    second = pool.take()
    assert _query(postgres.url(second), "select from users") == []
    pool.give_back(first)
    pool.give_back(second)


@pytest.mark.parametrize(
    "statement",
    ["create table extra (id int)", "drop table inbox_items cascade", "analyze"],
)
def test_a_database_that_differs_in_more_than_its_rows_is_replaced(
    statement: str, pool: DatabasePool, postgres: Postgres
) -> None:
    name = pool.take()
    first = _query(postgres.url(name), statement, _OID)
    pool.give_back(name)

    again = pool.take()

    assert _query(postgres.url(again), _OID) != first
    pool.give_back(again)


def test_a_database_that_a_test_closed_or_dropped_is_replaced(
    pool: DatabasePool, postgres: Postgres
) -> None:
    closed, dropped = pool.take(), pool.take()
    with psycopg.connect(postgres.dsn, autocommit=True) as server:
        server.execute(f"alter database {closed} allow_connections false")
        server.execute(f"drop database {dropped}")

    pool.give_back(closed)
    pool.give_back(dropped)

    with psycopg.connect(postgres.dsn) as server:
        left = server.execute(
            "select from pg_database where datname = any(%s)", [[closed, dropped]]
        )
        assert left.fetchall() == []
