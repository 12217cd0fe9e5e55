"""Runs the database migrations. Safe while services are running, and when several processes start it at once."""

import json
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
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
from shared.version import release_of, vigil_version

SCRIPTS: Final = Path(__file__).parent / "migrations"
OLDEST_READER: Final = "0.3.0"
"""The oldest version whose services can use the tables as the newest migration leaves them.

A migration that contracts raises it to the version since which no service uses what it removes: see its `contracts`.
"""
FIRST_REVISION: Final = "0021"
"""The revision of release 0.3.0. A database of an earlier version is upgraded by that release first."""
LOCK_TIMEOUT_SECONDS: Final = 0.5
"""How long a migration may wait for a table lock: every later query waits behind it, reads too.

Shorter than PostgreSQL's deadlock timeout, so that a deadlock aborts the migration and not a service.
"""
RETRY_PAUSE_SECONDS: Final = 1.0
"""Pause between two tries, for queries that had to wait."""
MAX_WAIT_SECONDS: Final = 60.0
LOCK_POLL_SECONDS: Final = 0.2

INSPECT_SECONDS: Final = 10
"""How long `inspect` waits for a connection, and for each of its queries."""
VERSION_TABLE: Final = "alembic_version"
READ_STATS: Final = "pg_read_all_stats"
"""The role of PostgreSQL whose members see the transactions of all roles."""

# Any fixed number. The process that holds this advisory lock migrates; the others wait and find nothing to do.
_MIGRATION_LOCK = 0x7669_6769_6C


@dataclass(frozen=True)
class Upgraded:
    """The result of `upgrade`."""

    is_newer: bool = False
    """Whether a newer version has migrated the database, which this version can still use. Then nothing was changed."""
    problem: str | None = None
    """Message on an extension that the server supports but that could not be created; the rest works without it."""


def upgrade(url: str, scripts: Path = SCRIPTS) -> Upgraded:
    """Applies every pending migration, each in its own transaction.

    Raises TransientError if a table was in use for all of MAX_WAIT_SECONDS: what was applied stays, and the next call
    continues from there. Raises PermanentError, and changes nothing, if the database is older than FIRST_REVISION, or if
    a newer version of Vigil has migrated it, and this version cannot use its tables.
    """
    with _migration_lock(url) as connection:
        if _is_newer(connection, scripts):
            return Upgraded(is_newer=True)
        deadline = time.monotonic() + MAX_WAIT_SECONDS
        while (lock_error := _try_upgrade(connection, scripts)) is not None:
            if time.monotonic() > deadline:
                raise TransientError(
                    f"PostgreSQL: a table to migrate was in use for {MAX_WAIT_SECONDS:g} s;"
                    f" {_longest_transaction(connection)[0]}; wait until it ends, or end it, then run `vigil migrate` again",
                    counts=False,
                ) from lock_error
            time.sleep(RETRY_PAUSE_SECONDS)
        _record_version(connection)
        return Upgraded(problem=pgvector.provide(connection))


def config_for(connection: Connection, scripts: Path = SCRIPTS) -> Config:
    config = Config()
    config.set_main_option("script_location", str(scripts))
    config.set_main_option("path_separator", "os")
    config.attributes["connection"] = connection
    return config


@dataclass(frozen=True)
class DatabaseVersion:
    """The revision of a database, compared with this version of Vigil."""

    revision: str | None
    """None if there are no tables."""
    pending: Sequence[tuple[str, str]] = ()
    """Revision and title of each migration that is to be applied."""
    is_newer: bool = False
    """Whether a newer version has migrated the database: the revision is unknown to this one."""
    head: str | None = None
    """The newest revision that this version knows."""
    migrated_by: str | None = None
    """The version that applied the newest migration; None if it was older than 0.4.0."""
    oldest_reader: str | None = None
    """The oldest version whose services can use the tables as they are; None as above."""
    bytes: int = 0
    longest_transaction: str = ""
    longest_transaction_seconds: float = 0.0
    hides_transactions: bool = False
    """Whether there are transactions of others that this role cannot see."""
    refusal: str | None = None
    """Why this role cannot migrate the database, as far as can be seen."""

    @property
    def is_usable(self) -> bool:
        """Whether the services of this version can use the tables, although a newer one has migrated them."""
        own = release_of(vigil_version())
        oldest = release_of(self.oldest_reader or "")
        return not self.is_newer or (own is not None and oldest is not None and own >= oldest)


def inspect(url: str, scripts: Path = SCRIPTS) -> DatabaseVersion:
    """Compares the database with this version. Changes nothing and waits for no lock. Raises SQLAlchemyError."""
    engine = create_engine(
        driver_url(url), poolclass=NullPool, connect_args={"connect_timeout": INSPECT_SECONDS}
    )
    with engine.connect() as connection:
        connection.execute(text(f"set statement_timeout = '{INSPECT_SECONDS}s'"))
        connection.commit()
        found = _inspect(connection, scripts)
        size = connection.execute(text("select pg_database_size(current_database())")).scalar_one()
        description, seconds = _longest_transaction(connection)
        return replace(
            found,
            bytes=size,
            longest_transaction=description,
            longest_transaction_seconds=seconds,
            hides_transactions=_hides_transactions(connection),
            refusal=_refusal(connection),
        )


def _inspect(connection: Connection, scripts: Path) -> DatabaseVersion:
    history = ScriptDirectory.from_config(config_for(connection, scripts))
    known = [
        (script.revision, script.doc.partition("\n")[0]) for script in history.walk_revisions()
    ]
    heads = MigrationContext.configure(connection).get_current_heads()
    comment = connection.execute(
        text("select obj_description(to_regclass('alembic_version'), 'pg_class')")
    ).scalar_one()
    connection.rollback()
    revision = min(heads, default=None)
    revisions = [each for each, _ in known]
    is_older = revision is not None and revision < FIRST_REVISION
    is_newer = revision is not None and revision not in revisions and not is_older
    newest_first = (
        known
        if revision is None or is_older
        else known[: 0 if is_newer else revisions.index(revision)]
    )
    versions = _parse_versions(comment)
    return DatabaseVersion(
        revision,
        newest_first[::-1],
        is_newer,
        history.get_current_head(),
        versions.get("migrated_by"),
        versions.get("oldest_reader"),
    )


def _parse_versions(comment: str | None) -> dict[str, str]:
    """The versions that `_record_version` wrote. Empty if the comment is missing or has another form."""
    try:
        versions = json.loads(comment or "")
    except ValueError:
        return {}
    if not isinstance(versions, dict):
        return {}
    return {name: value for name, value in versions.items() if isinstance(value, str)}


def _is_newer(connection: Connection, scripts: Path) -> bool:
    """Whether a newer version has migrated the database. Raises PermanentError if this one cannot upgrade or use it."""
    found = _inspect(connection, scripts)
    if found.revision is not None and found.revision < FIRST_REVISION:
        raise PermanentError("older_data", _describe_older(found.revision))
    if found.is_usable:
        return found.is_newer
    by = f" (Vigil {found.migrated_by})" if found.migrated_by else ""
    raise PermanentError(
        "newer_data",
        f"the database is at revision {found.revision}, but Vigil {vigil_version()} knows revisions up to {found.head}:"
        f" a newer version{by} has used it. Nothing was changed. Run that version or a later one, or restore a backup made"
        " by this version",
    )


def _describe_older(revision: str) -> str:
    return (
        f"the database is at revision {revision}, from before release {OLDEST_READER}. Nothing was changed. Install"
        f" Vigil {OLDEST_READER}, run `vigil migrate` of that release, then upgrade to this version"
    )


def _record_version(connection: Connection) -> None:
    """Records who has migrated the database, and who can use it, for older versions that find revisions they do not know."""
    versions = {"migrated_by": vigil_version(), "oldest_reader": OLDEST_READER}
    comment = json.dumps(versions)
    present = connection.execute(
        text("select obj_description('alembic_version'::regclass, 'pg_class')")
    ).scalar_one()
    if present != comment:
        # A statement of the schema takes no parameters.
        connection.exec_driver_sql(f"comment on table alembic_version is {_quoted(comment)}")
    connection.commit()


def _quoted(literal: str) -> str:
    return "'" + literal.replace("'", "''") + "'"


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


def _longest_transaction(connection: Connection) -> tuple[str, float]:
    """A description of the longest running transaction that this role sees, and its seconds."""
    row = connection.execute(
        text(
            "select pid, application_name, extract(epoch from clock_timestamp() - xact_start)"
            " from pg_stat_activity where xact_start is not null and pid <> pg_backend_pid()"
            " and datname = current_database() order by xact_start limit 1"
        )
    ).one_or_none()
    if row is None:
        if _hides_transactions(connection):
            return (
                f"this role cannot see other roles' transactions, for which it needs {READ_STATS}",
                0.0,
            )
        return "no other transaction is open now", 0.0
    pid, name, seconds = row
    description = (
        f"the longest transaction is that of process {pid} ({name or 'unnamed'}), {seconds:.0f} s"
    )
    return description, float(seconds)


def _refusal(connection: Connection) -> str | None:
    from shared.database.tables import Base

    state = connection.execute(
        _MIGRATABLE, {"tables": [*Base.metadata.tables, VERSION_TABLE]}
    ).one()
    if state.is_read_only:
        return "the server is read-only, as a standby is"
    if state.foreign_tables:
        return f"this role does not own the tables: {state.foreign_tables}"
    if not state.can_create:
        return "this role may not create tables in the schema public"
    heads = MigrationContext.configure(connection).get_current_heads()
    if heads and heads[0] < FIRST_REVISION:
        return _describe_older(heads[0])
    if len(heads) > 1:
        return f"the table {VERSION_TABLE} has {len(heads)} rows instead of one"
    if not heads and state.own_tables:
        return (
            f"it has tables ({state.own_tables}), and {VERSION_TABLE} does not say of which version"
        )
    return None


_MIGRATABLE: Final = text("""
select current_setting('transaction_read_only') = 'on' as is_read_only,
  coalesce(has_schema_privilege(cast(to_regnamespace('public') as oid), 'create'), false) as can_create,
  string_agg(relname, ', ' order by relname) filter (where relname <> 'alembic_version') as own_tables,
  string_agg(relname, ', ' order by relname) filter (where not pg_has_role(relowner, 'usage')) as foreign_tables
from pg_class
where relnamespace = to_regnamespace('public') and relkind in ('r', 'p') and relname = any(:tables)
""")


def _hides_transactions(connection: Connection) -> bool:
    """Whether PostgreSQL hides the transactions of some roles from this one."""
    hidden = connection.execute(
        text(
            "select exists (select from pg_stat_activity where datname = current_database()"
            " and usesysid is not null and not pg_has_role(usesysid, 'usage')"
            " and not pg_has_role(:read_stats, 'usage'))"
        ),
        {"read_stats": READ_STATS},
    )
    return bool(hidden.scalar_one())
