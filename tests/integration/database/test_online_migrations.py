"""Migrations run while others read and write: they wait for a table in short attempts, and succeed."""

import asyncio
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final

import psycopg
import pytest

from shared.database import migrate
from shared.errors import TransientError
from tests.support.migration_factory import history_with
from tests.support.waiting import wait_until

NEW_COLUMN: Final = 'op.add_column("users", sa.Column("added_later", sa.Text(), nullable=True))'
NEW_INDEX: Final = 'create_index_beside_writers("users_added_idx", "users", ["name"])'
MAX_BLOCKED_SECONDS: Final = 5.0
"""Longer than a migration may block others on a busy machine, and far shorter than the long transaction."""
TURNS: Final = 3


@contextmanager
def long_transaction(url: str) -> Iterator[None]:
    """A transaction that has read `users` and stays open, as a backup does."""
    with psycopg.connect(url) as reader:
        reader.execute("select count(*) from users")
        yield


def columns_of_users(url: str) -> set[str]:
    with psycopg.connect(url) as connection:
        rows = connection.execute(
            "select column_name from information_schema.columns where table_name = 'users'"
        )
        return {row[0] for row in rows}


async def wait_for_table_lock_request(url: str) -> None:
    with psycopg.connect(url, autocommit=True) as connection:

        async def is_waiting() -> bool:
            query = (
                "select exists (select from pg_locks where not granted and relation is not null)"
            )
            (exists,) = connection.execute(query).fetchone() or (False,)
            return bool(exists)

        await wait_until(is_waiting, what="the migration to wait for the table")


async def test_a_long_transaction_delays_the_migration_and_no_other_connection(
    database_url: str, tmp_path: Path
) -> None:
    scripts = history_with(tmp_path, NEW_COLUMN)
    with long_transaction(database_url):
        upgrading = asyncio.create_task(asyncio.to_thread(migrate.upgrade, database_url, scripts))
        with psycopg.connect(database_url, autocommit=True) as other:
            other.execute(f"set statement_timeout = '{MAX_BLOCKED_SECONDS:.0f}s'")
            for turn in range(TURNS):
                await wait_for_table_lock_request(database_url)
                began = time.monotonic()
                await asyncio.to_thread(read_and_write, other, turn)
                assert time.monotonic() - began < MAX_BLOCKED_SECONDS
        assert not upgrading.done()
        assert "added_later" not in columns_of_users(database_url)
    await asyncio.wait_for(upgrading, 30)
    assert "added_later" in columns_of_users(database_url)


def read_and_write(other: psycopg.Connection[Any], turn: int) -> None:
    other.execute("select * from users").fetchall()
    other.execute(
        "insert into users (id, name) values (gen_random_uuid(), %s)", (f"somebody {turn}",)
    )


async def test_a_migration_that_gets_no_lock_names_the_blocking_transaction(
    database_url: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(migrate, "MAX_WAIT_SECONDS", 0.1)
    scripts = history_with(tmp_path, NEW_COLUMN)
    with (
        long_transaction(database_url),
        pytest.raises(
            TransientError, match=r"in use for 0\.1 s; the longest transaction is that of"
        ),
    ):
        await asyncio.to_thread(migrate.upgrade, database_url, scripts)


async def test_an_index_is_built_concurrently_and_replaces_an_existing_one(
    database_url: str, tmp_path: Path
) -> None:
    with psycopg.connect(database_url, autocommit=True) as connection:
        connection.execute("create index users_added_idx on users (created_at)")
    scripts = history_with(tmp_path, NEW_INDEX, NEW_COLUMN)
    upgrades = [asyncio.to_thread(migrate.upgrade, database_url, scripts) for _ in range(3)]
    with long_transaction(database_url), psycopg.connect(database_url, autocommit=True) as other:
        upgrading = asyncio.gather(*upgrades)
        await wait_for_transaction_lock_request(other)
        await asyncio.to_thread(read_and_write, other, 0)
    await asyncio.wait_for(upgrading, 30)
    with psycopg.connect(database_url) as connection:
        index_row = connection.execute(
            "select indexdef from pg_indexes where indexname = 'users_added_idx'"
        ).fetchone()
    assert index_row is not None
    assert index_row[0].endswith("(name)")
    assert "added_later" in columns_of_users(database_url)


async def wait_for_transaction_lock_request(connection: psycopg.Connection[Any]) -> None:
    async def is_waiting() -> bool:
        query = "select exists (select from pg_locks where not granted and locktype = 'virtualxid')"
        (exists,) = connection.execute(query).fetchone() or (False,)
        return bool(exists)

    await wait_until(is_waiting, what="the index to wait for the long transaction")
