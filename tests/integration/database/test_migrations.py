"""Migrations: the tables of the models, beside readers and writers, and without a superuser."""

import asyncio
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final
from uuid import uuid4

import psycopg
import pytest
import yaml
from alembic.autogenerate import compare_metadata
from alembic.runtime.migration import MigrationContext
from alembic.script import ScriptDirectory
from sqlalchemy import create_engine, text

from cli.local.postgres import EmbeddedPostgres
from shared.database import migrate, roles
from shared.database.engine import driver_url, with_login
from shared.database.grants import GRANTS, role_name
from shared.database.tables import Base
from shared.errors import PermanentError, TransientError
from shared.version import release_of, vigil_version
from tests.support.engines import Postgres
from tests.support.migration_factory import history_with
from tests.support.paths import ROOT
from tests.support.waiting import wait_until


def test_migrations_equal_models(database_url: str) -> None:
    engine = create_engine(driver_url(database_url))
    with engine.connect() as connection:
        context = MigrationContext.configure(connection, opts={"compare_server_default": True})
        assert compare_metadata(context, Base.metadata) == []
    engine.dispose()


def test_migrating_twice_changes_nothing(database_url: str) -> None:
    before = catalog(database_url)
    migrate.upgrade(database_url)
    assert catalog(database_url) == before


def catalog(database_url: str) -> list[tuple[str, ...]]:
    """The rows of the tables in which PostgreSQL describes columns, constraints, functions and triggers, each with the
    transaction that wrote it.
    """
    names = ("class", "attribute", "constraint", "proc", "trigger", "type")
    selects = [f"select '{name}', xmin::text, ctid::text from pg_{name}" for name in names]
    with psycopg.connect(database_url) as connection:
        return connection.execute(" union all ".join(selects) + " order by 1, 3").fetchall()


def test_a_database_from_before_the_first_revision_is_refused_and_left_unchanged(
    database_url: str,
) -> None:
    with psycopg.connect(database_url) as connection:
        connection.execute("update alembic_version set version_num = '0020'")
    with pytest.raises(PermanentError, match="run `vigil migrate` of that release") as error:
        migrate.upgrade(database_url)
    found = migrate.inspect(database_url)
    assert (error.value.code, found.revision, found.is_newer) == ("older_data", "0020", False)
    assert found.refusal == str(error.value)


NEWER: Final = '{"migrated_by": "99.1.0", "oldest_reader": "99.0.0"}'
COMPATIBLE: Final = '{"migrated_by": "99.1.0", "oldest_reader": "0.3.0"}'


def make_newer(database_url: str, comment: str | None) -> None:
    """Make the database one of a newer version; without a comment, of one that records nothing."""
    engine = create_engine(driver_url(database_url))
    with engine.begin() as connection:
        connection.execute(text("update alembic_version set version_num = '9999'"))
        literal = "null" if comment is None else f"'{comment}'"
        connection.exec_driver_sql(f"comment on table alembic_version is {literal}")
    engine.dispose()


@pytest.mark.parametrize(
    "comment",
    [None, NEWER, "do not touch", "[1]", '{"oldest_reader": 3}'],
    ids=["nothing recorded", "too new", "a text", "a list", "a number"],
)
def test_a_database_of_a_newer_version_is_refused_and_left_unchanged(
    database_url: str, comment: str | None
) -> None:
    make_newer(database_url, comment)
    with pytest.raises(
        PermanentError, match=r"revision 9999, but Vigil \S+ knows .* newer"
    ) as error:
        migrate.upgrade(database_url)
    assert (error.value.code, "\n" in str(error.value)) == ("newer_data", False)
    engine = create_engine(driver_url(database_url))
    with engine.connect() as connection:
        assert connection.scalar(text("select version_num from alembic_version")) == "9999"
    engine.dispose()


def test_a_database_of_a_newer_version_that_this_one_can_use_is_left_unchanged(
    database_url: str,
) -> None:
    make_newer(database_url, COMPATIBLE)
    assert migrate.upgrade(database_url) == migrate.Upgraded(is_newer=True)
    found = migrate.inspect(database_url)
    assert (found.revision, found.is_newer, found.is_usable) == ("9999", True, True)
    assert (found.migrated_by, found.pending) == ("99.1.0", [])


def test_a_migration_records_who_can_use_the_tables(database_url: str) -> None:
    found = migrate.inspect(database_url)
    assert found.revision == found.head
    assert found.pending == []
    assert (found.migrated_by, found.oldest_reader) == (vigil_version(), migrate.OLDEST_READER)
    assert found.bytes > 0


def test_pending_migrations_are_listed_oldest_first(database_url: str, tmp_path: Path) -> None:
    scripts = history_with(tmp_path, 'op.execute("analyze users")', 'op.execute("analyze users")')
    before = migrate.inspect(database_url, scripts)
    assert [revision for revision, _ in before.pending] == ["made_up_0", "made_up_1"]
    migrate.upgrade(database_url, scripts)
    assert migrate.inspect(database_url, scripts).pending == []


def test_a_database_without_tables(postgres: Postgres) -> None:
    name = f"empty_{uuid4().hex}"
    with psycopg.connect(postgres.dsn, autocommit=True) as connection:
        connection.execute(f"create database {name}".encode())
        try:
            found = migrate.inspect(postgres.url(name))
        finally:
            connection.execute(f"drop database {name} with (force)".encode())
    assert (found.revision, found.is_newer, found.is_usable) == (None, False, True)
    assert found.pending[0][0] == migrate.FIRST_REVISION


def test_a_contracting_migration_raises_the_oldest_reader() -> None:
    """Versions that still use what a migration removes must not find that they can run."""
    history = ScriptDirectory(str(migrate.SCRIPTS)).walk_revisions()
    contracts = [getattr(script.module, "contracts", "") for script in history]
    oldest = release_of(migrate.OLDEST_READER)
    assert oldest is not None
    assert [since for since in contracts if since and (release_of(since) or oldest) > oldest] == []


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


CLUSTER = ROOT / "deploy" / "kubernetes" / "components" / "cloudnative-pg" / "cluster.yaml"


def test_the_owner_of_the_kubernetes_cluster_can_migrate_and_create_roles(tmp_path: Path) -> None:
    """Roles belong to the whole server, so this test has its own."""
    initdb = yaml.safe_load(CLUSTER.read_text())["spec"]["bootstrap"]["initdb"]
    server = EmbeddedPostgres(tmp_path / "data", tmp_path / "log", durable=False).start()
    try:
        with psycopg.connect(server.url("postgres"), autocommit=True) as superuser:
            owner, database = initdb["owner"], initdb["database"]
            for statement in (
                f"create role {owner} login password 'owner'",
                *initdb["postInitSQL"],
                f"create database {database} owner {owner}",
            ):
                superuser.execute(statement.encode())
        url = server.url(database)
        with psycopg.connect(url, autocommit=True) as superuser:
            for statement in initdb["postInitApplicationSQL"]:
                superuser.execute(statement.encode())
        owner_url = with_login(url, role=owner, password="owner")
        passwords = {service: f"password of {service}" for service in GRANTS}
        for _ in ("first", "again"):
            assert migrate.upgrade(owner_url).problem is None
            roles.apply(owner_url, passwords)
        _assert_open_transactions_are_seen(url, owner, owner_url)
        with psycopg.connect(owner_url) as connection:
            powers = (
                "select rolname, rolsuper or rolbypassrls from pg_roles where rolname like 'vigil%'"
            )
            assert dict(connection.execute(powers).fetchall()) == {
                owner: False,
                **{role_name(service): False for service in GRANTS},
            }
    finally:
        server.stop()


def _assert_open_transactions_are_seen(url: str, owner: str, owner_url: str) -> None:
    """Those of the services, which a migration waits for. `vigil upgrade --check` says so to an owner without that right."""
    scheduler = with_login(url, role=role_name("scheduler"), password="password of scheduler")
    with psycopg.connect(scheduler) as working:
        working.execute("select 1")
        found = migrate.inspect(owner_url)
        assert not found.hides_transactions
        assert f"process {working.info.backend_pid}" in found.longest_transaction
        with psycopg.connect(url, autocommit=True) as superuser:
            superuser.execute(f"revoke pg_read_all_stats from {owner}".encode())
        found = migrate.inspect(owner_url)
        assert found.hides_transactions
        assert "cannot see" in found.longest_transaction
