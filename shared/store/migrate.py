"""Brings a database to the newest tables. One process at a time; any number may try."""

from collections.abc import Callable
from pathlib import Path

from alembic import command
from alembic.config import Config
from sqlalchemy import Connection, create_engine, text

from shared.store.database import driver_url

# Any fixed number: whoever holds this advisory lock migrates, the others wait and find it done.
_MIGRATION_LOCK = 0x7669_6769_6C


def upgrade(url: str) -> None:
    """Applies every migration that `url` lacks, in one transaction: it ends all done or not begun."""
    _with_lock(url, lambda config: command.upgrade(config, "head"))


def autogenerate(url: str, message: str) -> None:
    """Writes a new migration file for what the tables have and the database at `url` lacks."""
    _with_lock(url, lambda config: command.revision(config, message, autogenerate=True))


def config_for(connection: Connection) -> Config:
    config = Config()
    config.set_main_option("script_location", str(Path(__file__).parent / "migrations"))
    config.set_main_option("path_separator", "os")
    config.attributes["connection"] = connection
    return config


def _with_lock(url: str, run: Callable[[Config], object]) -> None:
    engine = create_engine(driver_url(url))
    try:
        with engine.begin() as connection:
            connection.execute(text("select pg_advisory_xact_lock(:key)"), {"key": _MIGRATION_LOCK})
            run(config_for(connection))
    finally:
        engine.dispose()
