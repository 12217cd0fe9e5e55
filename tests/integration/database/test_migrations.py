"""The migrations produce exactly the tables of the models."""

from pathlib import Path
from typing import Final
from uuid import uuid4

import psycopg
import pytest
from alembic.autogenerate import compare_metadata
from alembic.runtime.migration import MigrationContext
from alembic.script import ScriptDirectory
from sqlalchemy import create_engine, text

from shared.database import migrate
from shared.database.engine import driver_url
from shared.database.tables import Base
from shared.errors import PermanentError
from shared.version import release_of, vigil_version
from tests.support.engines import Postgres
from tests.support.migration_factory import history_with


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
