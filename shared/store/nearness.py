"""Whether this server can tell how near two vectors are: with pgvector, and only then is there a search by meaning.

It stands beside the history of migrations, not in it. That history is the same on every server, and done once; a server
that is given pgvector later has what belongs to it made by the next migrating.
"""

from typing import Final

from sqlalchemy import Connection, TextClause, text
from sqlalchemy.exc import ProgrammingError
from sqlalchemy.ext.asyncio import AsyncSession

from shared.store.tables.meaning import AS_VECTOR

OLDEST: Final = "0.8"
"""Of pgvector: from here on it goes on through its index until enough of one agent's are found."""
INDEX: Final = "node_embeddings_near_idx"

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


def provide(connection: Connection) -> None:
    """Makes pgvector and its index where the server has it, and lets us; else nothing. May be done beside writers."""
    connection.commit()
    by_itself = connection.execution_options(isolation_level="AUTOCOMMIT")
    if not _is(by_itself, _TABLES_ARE) or not _is(by_itself, _TO_BE_HAD):
        return
    if not _extended(by_itself) or _is(by_itself, _WHOLE):
        return
    # What is made beside writers waits for them and holds up nobody.
    by_itself.execute(text("set lock_timeout = 0"))
    by_itself.execute(text(f"drop index concurrently if exists {INDEX}"))
    by_itself.execute(
        text(
            f"create index concurrently {INDEX} on node_embeddings"
            f" using hnsw (({AS_VECTOR}) vector_cosine_ops)"
        )
    )


def _extended(connection: Connection) -> bool:
    """False where this role may not make the extension, or an old one is there: a search by meaning is then off."""
    try:
        connection.execute(text("create extension if not exists vector"))
    except ProgrammingError:
        return False
    return _is(connection, _THERE)


def _is(connection: Connection, asked: TextClause) -> bool:
    return bool(connection.execute(asked).scalar_one())
