"""Brings a database to the newest tables while others work on it. One process at a time; any number may try."""

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
"""How long a migration may wait for a table: all who come after it wait behind it, readers too.

Shorter than Postgres's own look for deadlocks, so that it is the migration that gives way, and not an actor.
"""
LET_OTHERS_SECONDS: Final = 1.0
"""Between two tries, for those who had to wait."""
PATIENCE_SECONDS: Final = 60.0
LOOK_AGAIN_SECONDS: Final = 0.2

# Any fixed number: whoever holds this advisory lock migrates, the others wait and find it done.
_MIGRATION_LOCK = 0x7669_6769_6C


def upgrade(url: str, scripts: Path = SCRIPTS) -> str | None:
    """Applies every migration that `url` lacks, each in a transaction of its own. Returns what the server has and could
    not be made, in words: all else works without it.

    Raises TransientError where somebody has had a table in use for all of PATIENCE_SECONDS; what was applied until then
    stays, and the next call goes on from there. Raises PermanentError, and changes nothing, where a newer version of
    Vigil has migrated the database.
    """
    with _alone(url) as connection:
        _refuse_newer(connection, scripts)
        deadline = time.monotonic() + PATIENCE_SECONDS
        while (busy := _try(connection, scripts)) is not None:
            if time.monotonic() > deadline:
                raise TransientError(
                    f"PostgreSQL: a table that is to be changed was in use for {PATIENCE_SECONDS:g} s;"
                    f" {_longest(connection)}; wait for its end or end it, then migrate again",
                    counts=False,
                ) from busy
            time.sleep(LET_OTHERS_SECONDS)
        return pgvector.provide(connection)


def autogenerate(url: str, message: str) -> None:
    """Writes a new migration file for what the tables have and the database at `url` lacks."""
    with _alone(url) as connection:
        command.revision(config_for(connection), message, autogenerate=True)


def config_for(connection: Connection, scripts: Path = SCRIPTS) -> Config:
    config = Config()
    config.set_main_option("script_location", str(scripts))
    config.set_main_option("path_separator", "os")
    config.attributes["connection"] = connection
    return config


def _refuse_newer(connection: Connection, scripts: Path) -> None:
    history = ScriptDirectory.from_config(config_for(connection, scripts))
    known = {script.revision for script in history.walk_revisions()}
    unknown = [
        revision
        for revision in MigrationContext.configure(connection).get_current_heads()
        if revision not in known
    ]
    connection.rollback()
    if unknown:
        raise PermanentError(
            "newer_data",
            f"the database is at revision {', '.join(unknown)}, but Vigil {vigil_version()} knows revisions up to "
            f"{history.get_current_head()}: a newer version has used it. Nothing was changed; run that version or a "
            "later one, or restore a backup made by this version",
        )


def _try(connection: Connection, scripts: Path) -> OperationalError | None:
    """None when all is applied, and else how a table was refused."""
    try:
        command.upgrade(config_for(connection, scripts), "head")
    except OperationalError as error:
        connection.rollback()
        if not isinstance(error.orig, LockNotAvailable | DeadlockDetected):
            raise
        return error
    return None


@contextmanager
def _alone(url: str) -> Iterator[Connection]:
    options = f"-c lock_timeout={LOCK_TIMEOUT_SECONDS * 1000:.0f}ms"
    engine = create_engine(driver_url(url), poolclass=NullPool, connect_args={"options": options})
    with engine.connect() as connection:
        # Asked again and again and not waited for: an index that is made beside writers waits for every statement
        # that has begun before it, and would wait for this one.
        while not _locked(connection):
            time.sleep(LOOK_AGAIN_SECONDS)
        yield connection  # whose end is the lock's


def _locked(connection: Connection) -> bool:
    asked = connection.execute(text("select pg_try_advisory_lock(:key)"), {"key": _MIGRATION_LOCK})
    locked = bool(asked.scalar_one())
    connection.commit()
    return locked


def _longest(connection: Connection) -> str:
    """Who has been in a transaction for longest, in words."""
    found = connection.execute(
        text(
            "select pid, application_name, extract(epoch from clock_timestamp() - xact_start)"
            " from pg_stat_activity where xact_start is not null and pid <> pg_backend_pid()"
            " and datname = current_database() order by xact_start limit 1"
        )
    ).one_or_none()
    if found is None:
        return "nobody has an open transaction now"
    pid, name, seconds = found
    return (
        f"the longest transaction is that of process {pid} ({name or 'unnamed'}), {seconds:.0f} s"
    )
