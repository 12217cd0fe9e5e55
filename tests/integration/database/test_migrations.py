"""The migrations produce exactly the tables of the models."""

import pytest
from alembic import command
from alembic.autogenerate import compare_metadata
from alembic.runtime.migration import MigrationContext
from sqlalchemy import create_engine, inspect, text

from shared.database import migrate
from shared.database.engine import driver_url
from shared.database.tables import Base
from shared.errors import PermanentError


def test_migrations_equal_models(database_url: str) -> None:
    engine = create_engine(driver_url(database_url))
    with engine.connect() as connection:
        context = MigrationContext.configure(connection, opts={"compare_server_default": True})
        assert compare_metadata(context, Base.metadata) == []
    engine.dispose()


def test_migrating_twice_changes_nothing(database_url: str) -> None:
    migrate.upgrade(database_url)
    migrate.upgrade(database_url)


def test_all_migrations_can_be_downgraded_and_applied_again(database_url: str) -> None:
    engine = create_engine(driver_url(database_url))
    with engine.begin() as connection:
        command.downgrade(migrate.config_for(connection), "base")
        assert inspect(connection).get_table_names() == ["alembic_version"]
    engine.dispose()
    migrate.upgrade(database_url)


def test_a_database_of_a_newer_version_is_refused_and_left_unchanged(database_url: str) -> None:
    engine = create_engine(driver_url(database_url))
    with engine.begin() as connection:
        connection.execute(text("update alembic_version set version_num = '9999'"))
    with pytest.raises(
        PermanentError, match=r"revision 9999, but Vigil \S+ knows .* newer"
    ) as error:
        migrate.upgrade(database_url)
    assert (error.value.code, "\n" in str(error.value)) == ("newer_data", False)
    with engine.connect() as connection:
        assert connection.scalar(text("select version_num from alembic_version")) == "9999"
    engine.dispose()
