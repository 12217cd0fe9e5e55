"""The history of migrations ends exactly where the models are."""

from alembic import command
from alembic.autogenerate import compare_metadata
from alembic.runtime.migration import MigrationContext
from sqlalchemy import create_engine, inspect

from shared.store import migrate
from shared.store.database import driver_url
from shared.store.tables import Base


def test_migrations_equal_models(database_url: str) -> None:
    engine = create_engine(driver_url(database_url))
    with engine.connect() as connection:
        context = MigrationContext.configure(connection, opts={"compare_server_default": True})
        assert compare_metadata(context, Base.metadata) == []
    engine.dispose()


def test_migrating_twice_changes_nothing(database_url: str) -> None:
    migrate.upgrade(database_url)
    migrate.upgrade(database_url)


def test_the_history_can_be_undone_and_done_again(database_url: str) -> None:
    engine = create_engine(driver_url(database_url))
    with engine.begin() as connection:
        command.downgrade(migrate.config_for(connection), "base")
        assert inspect(connection).get_table_names() == ["alembic_version"]
    engine.dispose()
    migrate.upgrade(database_url)
