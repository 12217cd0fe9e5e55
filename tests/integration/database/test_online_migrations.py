"""Migrations are applied while others read and write: they wait for a table in small pieces, and get through."""

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
from tests.support.made_up import history_with
from tests.support.waiting import until

NEW_COLUMN: Final = 'op.add_column("users", sa.Column("added_later", sa.Text(), nullable=True))'
NEW_INDEX: Final = 'create_index_beside_writers("users_added_idx", "users", ["name"])'
WAITS_AT_MOST_SECONDS: Final = 5.0
"""More than a migration may be in anybody's way, on a busy machine, and far less than the long transaction lasts."""
TURNS: Final = 3


@contextmanager
def long_transaction(url: str) -> Iterator[None]:
    """Somebody reads `users`, and does not end, as a backup would."""
    with psycopg.connect(url) as reader:
        reader.execute("select count(*) from users")
        yield


def columns_of_users(url: str) -> set[str]:
    with psycopg.connect(url) as connection:
        named = connection.execute(
            "select column_name from information_schema.columns where table_name = 'users'"
        )
        return {row[0] for row in named}


async def someone_waits_for_a_table(url: str) -> None:
    with psycopg.connect(url, autocommit=True) as connection:

        async def look() -> bool:
            waiting = (
                "select exists (select from pg_locks where not granted and relation is not null)"
            )
            (found,) = connection.execute(waiting).fetchone() or (False,)
            return bool(found)

        await until(look, what="the migration to wait for the table")


async def test_a_long_transaction_holds_up_the_migration_and_nobody_else(
    database_url: str, tmp_path: Path
) -> None:
    scripts = history_with(tmp_path, NEW_COLUMN)
    with long_transaction(database_url):
        upgrading = asyncio.create_task(asyncio.to_thread(migrate.upgrade, database_url, scripts))
        with psycopg.connect(database_url, autocommit=True) as other:
            other.execute(f"set statement_timeout = '{WAITS_AT_MOST_SECONDS:.0f}s'")
            for turn in range(TURNS):
                await someone_waits_for_a_table(database_url)
                began = time.monotonic()
                await asyncio.to_thread(read_and_write, other, turn)
                assert time.monotonic() - began < WAITS_AT_MOST_SECONDS
        assert not upgrading.done()
        assert "added_later" not in columns_of_users(database_url)
    await asyncio.wait_for(upgrading, 30)
    assert "added_later" in columns_of_users(database_url)


def read_and_write(other: psycopg.Connection[Any], turn: int) -> None:
    other.execute("select * from users").fetchall()
    other.execute(
        "insert into users (id, name) values (gen_random_uuid(), %s)", (f"somebody {turn}",)
    )


async def test_who_is_never_let_in_says_who_is_in_the_way(
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


async def test_an_index_is_made_beside_writers_and_again_where_it_was_half_made(
    database_url: str, tmp_path: Path
) -> None:
    with psycopg.connect(database_url, autocommit=True) as connection:
        connection.execute("create index users_added_idx on users (created_at)")
    scripts = history_with(tmp_path, NEW_INDEX, NEW_COLUMN)
    upgrades = [asyncio.to_thread(migrate.upgrade, database_url, scripts) for _ in range(3)]
    with long_transaction(database_url), psycopg.connect(database_url, autocommit=True) as other:
        upgrading = asyncio.gather(*upgrades)
        await someone_waits_for_an_older_one(other)
        await asyncio.to_thread(read_and_write, other, 0)
    await asyncio.wait_for(upgrading, 30)
    with psycopg.connect(database_url) as connection:
        made = connection.execute(
            "select indexdef from pg_indexes where indexname = 'users_added_idx'"
        ).fetchone()
    assert made is not None
    assert made[0].endswith("(name)")
    assert "added_later" in columns_of_users(database_url)


async def someone_waits_for_an_older_one(connection: psycopg.Connection[Any]) -> None:
    async def look() -> bool:
        waiting = (
            "select exists (select from pg_locks where not granted and locktype = 'virtualxid')"
        )
        (found,) = connection.execute(waiting).fetchone() or (False,)
        return bool(found)

    await until(look, what="the index to wait for the long transaction")
