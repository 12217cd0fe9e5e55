"""Whether this server can tell how near two vectors are: with pgvector, and only then is there a search by meaning.

It stands beside the history of migrations, not in it. That history is the same on every server, and done once; a server
that is given pgvector later has what belongs to it made by the next migrating.
"""

from typing import Final

from psycopg.errors import DeadlockDetected, LockNotAvailable
from sqlalchemy import Connection, TextClause, text
from sqlalchemy.exc import DBAPIError, OperationalError
from sqlalchemy.ext.asyncio import AsyncSession

from shared.database.tables.graph import AS_VECTOR

OLDEST: Final = "0.8"
"""Of pgvector: from here on it goes on through its index until enough of one agent's are found."""
INDEX: Final = "node_embeddings_near_idx"
PATIENCE_SECONDS: Final = 60.0
"""How long its index waits for whoever is in a transaction."""

_RECENT: Final = (
    "string_to_array({version}, '.')::int[] >= string_to_array('" + OLDEST + "', '.')::int[]"
)
THERE: Final = (
    "select exists (select from pg_extension where extname = 'vector'"
    f" and {_RECENT.format(version='extversion')})"
)
"""Whether it is, as SQL."""
_THERE: Final = text(THERE)
_TO_BE_HAD: Final = text(
    "select exists (select from pg_available_extension_versions where name = 'vector'"
    f" and {_RECENT.format(version='version')})"
)
_TABLES_ARE: Final = text("select to_regclass('node_embeddings') is not null")
_WHOLE: Final = text(
    f"select exists (select from pg_index where indexrelid = to_regclass('{INDEX}') and indisvalid)"
)


async def is_there(session: AsyncSession) -> bool:
    return bool(await session.scalar(_THERE))


def provide(connection: Connection) -> str | None:
    """Makes pgvector and its index where the server has it, and lets us; else nothing. May be done beside writers.

    What the server has and could not be made, in words; None where nothing is lacking.
    """
    connection.commit()
    by_itself = connection.execution_options(isolation_level="AUTOCOMMIT")
    if not _is(by_itself, _TABLES_ARE) or not _is(by_itself, _TO_BE_HAD):
        return None
    return _extended(by_itself) or _indexed(by_itself)


def _extended(connection: Connection) -> str | None:
    try:
        connection.execute(text("create extension if not exists vector"))
    except DBAPIError as error:
        if error.connection_invalidated:
            raise
        return f"search by meaning is off, the extension vector cannot be made: {_said(error)}"
    if _is(connection, _THERE):
        return None
    return (
        f"search by meaning is off, the extension vector is older than {OLDEST}:"
        " `alter extension vector update`, then migrate again"
    )


def _indexed(connection: Connection) -> str | None:
    if _is(connection, _WHOLE):
        return None
    # What is made beside writers holds up nobody; but it waits for all who have begun before it.
    connection.execute(text(f"set lock_timeout = {PATIENCE_SECONDS * 1000:.0f}"))
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
            "search by meaning goes without its index, and is slow among very many nodes: somebody was in a transaction"
            f" for more than {PATIENCE_SECONDS:g} s; migrate again when that has ended"
        )
    return None


def _said(error: DBAPIError) -> str:
    return str(error.orig).strip().partition("\n")[0]


def _is(connection: Connection, asked: TextClause) -> bool:
    return bool(connection.execute(asked).scalar_one())
