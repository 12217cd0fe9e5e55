"""Many rows at once into a table, by PostgreSQL's COPY."""

from collections.abc import Mapping, Sequence
from typing import Any

from psycopg import AsyncConnection, sql
from psycopg.types.json import Jsonb
from sqlalchemy.ext.asyncio import AsyncSession


async def copy_rows(session: AsyncSession, table: str, rows: Sequence[Mapping[str, Any]]) -> None:
    """In the session's transaction; all rows have the same columns. Raises psycopg.Error where PostgreSQL refuses.

    Only the tables' owner can, where row-level security bounds the others.
    """
    if not rows:
        return
    connection = await (await session.connection()).get_raw_connection()
    driver = connection.driver_connection
    assert isinstance(driver, AsyncConnection)
    columns = list(rows[0])
    statement = sql.SQL("copy {} ({}) from stdin").format(
        sql.Identifier(table), sql.SQL(", ").join(map(sql.Identifier, columns))
    )
    async with driver.cursor() as cursor, cursor.copy(statement) as copy:
        for row in rows:
            await copy.write_row([_plain(row[column]) for column in columns])


def _plain(value: Any) -> Any:
    return Jsonb(value) if isinstance(value, dict | list) else value
