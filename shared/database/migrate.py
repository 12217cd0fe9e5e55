"""Runs the database migrations. Safe while services are running, and when several processes start it at once."""

import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

from alembic import command
from alembic.config import Config
from alembic.runtime.migration import MigrationContext
from alembic.script import ScriptDirectory
from psycopg.errors import DeadlockDetected, LockNotAvailable
from sqlalchemy import Connection, NullPool, create_engine, text
from sqlalchemy.exc import OperationalError

from shared.database import pgvector
from shared.database.engine import driver_url
from shared.errors import PermanentError, TransientError
from shared.version import vigil_version

SCRIPTS: Final = Path(__file__).parent / "migrations"
LOCK_TIMEOUT_SECONDS: Final = 0.5
"""How long a migration may wait for a table lock: every later query waits behind it, reads too.

Shorter than PostgreSQL's deadlock timeout, so that a deadlock aborts the migration and not a service.
"""
RETRY_PAUSE_SECONDS: Final = 1.0
"""Pause between two tries, for queries that had to wait."""
MAX_WAIT_SECONDS: Final = 60.0
LOCK_POLL_SECONDS: Final = 0.2

# Any fixed number. The process that holds this advisory lock migrates; the others wait and find nothing to do.
_MIGRATION_LOCK = 0x7669_6769_6C


def upgrade(url: str, scripts: Path = SCRIPTS) -> str | None:
    """Applies every pending migration, each in its own transaction.

    Returns a message about what the server supports but could not be created, if anything; everything else works
    without it.

    Raises TransientError if a table was in use for all of MAX_WAIT_SECONDS: what was applied stays, and the next call
    continues from there. Raises PermanentError, and changes nothing, if a newer version of Vigil has migrated the
    database.
    """
    with _migration_lock(url) as connection:
        _refuse_newer(connection, scripts)
        deadline = time.monotonic() + MAX_WAIT_SECONDS
        while (lock_error := _try_upgrade(connection, scripts)) is not None:
            if time.monotonic() > deadline:
                raise TransientError(
                    f"PostgreSQL: a table to migrate was in use for {MAX_WAIT_SECONDS:g} s;"
                    f" {_longest_transaction(connection)}; wait until it ends, or end it, then run `vigil migrate` again",
                    counts=False,
                ) from lock_error
            time.sleep(RETRY_PAUSE_SECONDS)
        return pgvector.provide(connection)


def autogenerate(url: str, message: str) -> None:
    """Writes a new migration file for the difference between the models and the database at `url`."""
    with _migration_lock(url) as connection:
        command.revision(config_for(connection), message, autogenerate=True)


def config_for(connection: Connection, scripts: Path = SCRIPTS) -> Config:
    config = Config()
    config.set_main_option("script_location", str(scripts))
    config.set_main_option("path_separator", "os")
    config.attributes["connection"] = connection
    return config


def _refuse_newer(connection: Connection, scripts: Path) -> None:
    history = ScriptDirectory.from_config(config_for(connection, scripts))
    revisions_of_history = {script.revision for script in history.walk_revisions()}
    unknown_revisions = [
        revision
        for revision in MigrationContext.configure(connection).get_current_heads()
        if revision not in revisions_of_history
    ]
    connection.rollback()
    if unknown_revisions:
        raise PermanentError(
            "newer_data",
            f"the database is at revision {', '.join(unknown_revisions)}, but Vigil {vigil_version()} knows revisions up to "
            f"{history.get_current_head()}: a newer version has used it. Nothing was changed. Run that "
            "version or a later one, or restore a backup made by this version",
        )


def _try_upgrade(connection: Connection, scripts: Path) -> OperationalError | None:
    """The lock error that stopped the upgrade, or None if all migrations are applied."""
    try:
        command.upgrade(config_for(connection, scripts), "head")
    except OperationalError as error:
        connection.rollback()
        if not isinstance(error.orig, LockNotAvailable | DeadlockDetected):
            raise
        return error
    return None


@contextmanager
def _migration_lock(url: str) -> Iterator[Connection]:
    options = f"-c lock_timeout={LOCK_TIMEOUT_SECONDS * 1000:.0f}ms"
    # The journal of a graph names who has changed it by this name.
    arguments = {"options": options, "application_name": "vigil-migrate"}
    engine = create_engine(driver_url(url), poolclass=NullPool, connect_args=arguments)
    with engine.connect() as connection:
        # Polled instead of waited for: CREATE INDEX CONCURRENTLY waits for every earlier statement,
        # and would wait for a blocked lock statement too.
        while not _try_lock(connection):
            time.sleep(LOCK_POLL_SECONDS)
        yield connection  # closing it releases the lock


def _try_lock(connection: Connection) -> bool:
    result = connection.execute(text("select pg_try_advisory_lock(:key)"), {"key": _MIGRATION_LOCK})
    locked = bool(result.scalar_one())
    connection.commit()
    return locked


def _longest_transaction(connection: Connection) -> str:
    """A description of the longest running transaction."""
    row = connection.execute(
        text(
            "select pid, application_name, extract(epoch from clock_timestamp() - xact_start)"
            " from pg_stat_activity where xact_start is not null and pid <> pg_backend_pid()"
            " and datname = current_database() order by xact_start limit 1"
        )
    ).one_or_none()
    if row is None:
        return "no other transaction is open now"
    pid, name, seconds = row
    return (
        f"the longest transaction is that of process {pid} ({name or 'unnamed'}), {seconds:.0f} s"
    )
