"""The optional pgvector extension; without it there is no semantic search.

It is not part of the migration history, which is the same on every server and runs once. If a server gets pgvector
later, the next `vigil migrate` creates what belongs to it.
"""

from typing import Final

from psycopg.errors import DeadlockDetected, LockNotAvailable
from sqlalchemy import Connection, TextClause, text
from sqlalchemy.exc import DBAPIError, OperationalError

from shared.database.statements import CompiledStatement, Executor
from shared.database.tables.graph import AS_VECTOR

MIN_VERSION: Final = "0.8"
"""Minimum version of pgvector: from here on, index scans continue until enough rows pass the filter."""
INDEX: Final = "node_embeddings_near_idx"
LOCK_TIMEOUT_SECONDS: Final = 60.0
"""How long the index build waits for open transactions."""

_IS_RECENT: Final = (
    "string_to_array({version}, '.')::int[] >= string_to_array('" + MIN_VERSION + "', '.')::int[]"
)
IS_INSTALLED_SQL: Final = (
    "select exists (select from pg_extension where extname = 'vector'"
    f" and {_IS_RECENT.format(version='extversion')})"
)
"""SQL that tells whether pgvector is available."""
_IS_INSTALLED: Final = text(IS_INSTALLED_SQL)
_IS_INSTALLABLE: Final = text(
    "select exists (select from pg_available_extension_versions where name = 'vector'"
    f" and {_IS_RECENT.format(version='version')})"
)
_TABLES_EXIST: Final = text("select to_regclass('node_embeddings') is not null")
_INDEX_IS_VALID: Final = text(
    f"select exists (select from pg_index where indexrelid = to_regclass('{INDEX}') and indisvalid)"
)


_IS_INSTALLED_COMPILED: Final = CompiledStatement(IS_INSTALLED_SQL)


async def is_installed(transaction: Executor) -> bool:
    """Whether pgvector is available in this database."""
    return bool(await _IS_INSTALLED_COMPILED.value(transaction))


def provide(connection: Connection) -> str | None:
    """Creates the extension and its index if the server allows it. Safe while others write.

    Returns a message if the server has the extension but something could not be created, else None.
    """
    connection.commit()
    autocommit = connection.execution_options(isolation_level="AUTOCOMMIT")
    if not _check(autocommit, _TABLES_EXIST) or not _check(autocommit, _IS_INSTALLABLE):
        return None
    return _create_extension(autocommit) or _create_index(autocommit)


def _create_extension(connection: Connection) -> str | None:
    try:
        connection.execute(text("create extension if not exists vector"))
    except DBAPIError as error:
        if error.connection_invalidated:
            raise
        reason = str(error.orig).strip().partition("\n")[0]
        return f"embedding search is off because the extension vector cannot be created: {reason}"
    if _check(connection, _IS_INSTALLED):
        return None
    return (
        f"semantic search is off, the extension vector is older than {MIN_VERSION}:"
        " `alter extension vector update`, then migrate again"
    )


def _create_index(connection: Connection) -> str | None:
    if _check(connection, _INDEX_IS_VALID):
        return None
    # A concurrent build blocks no writer, but it waits for all earlier transactions.
    connection.execute(text(f"set lock_timeout = {LOCK_TIMEOUT_SECONDS * 1000:.0f}"))
    try:
        connection.execute(text(f"drop index concurrently if exists {INDEX}"))
        connection.execute(
            text(
                f"create index concurrently {INDEX} on node_embeddings"
                f" using hnsw (({AS_VECTOR}) vector_cosine_ops)"
            )
        )
    except OperationalError as error:
        if not isinstance(error.orig, LockNotAvailable | DeadlockDetected):
            raise
        return (
            "embedding search has no index and is slow in large graphs, because a transaction was open for more than"
            f" {LOCK_TIMEOUT_SECONDS:g} s; run `vigil migrate` again when it has ended"
        )
    return None


def _check(connection: Connection, statement: TextClause) -> bool:
    return bool(connection.execute(statement).scalar_one())
