"""Capture of the statements sent to PostgreSQL."""

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any
from unittest.mock import patch

from psycopg import AsyncCursor, Connection, Cursor, RawCursor

from shared.database.pipelined import BoundStatement, PipelinedConnection

Statements = list[tuple[str, Any]]
_OF_TRANSACTIONS = ("begin", "commit", "rollback", "savepoint", "release")


@contextmanager
def captured_statements() -> Iterator[Statements]:
    """Capture every statement sent to PostgreSQL, with its parameters, except for those that begin and end transactions."""
    statements: Statements = []
    execute, run = AsyncCursor.execute, PipelinedConnection._run

    def add(sql: Any, values: Any) -> None:
        statement = sql.decode() if isinstance(sql, bytes) else sql
        if not statement.startswith(_OF_TRANSACTIONS):
            statements.append((statement, values))

    async def record(self: Any, query: Any, params: Any = None, **options: Any) -> Any:
        add(query, params)
        return await execute(self, query, params, **options)

    async def record_all(self: Any, together: Sequence[BoundStatement], **options: Any) -> Any:
        for sql, values in together:
            add(sql, values)
        return await run(self, together, **options)

    with (
        patch.object(AsyncCursor, "execute", record),
        patch.object(PipelinedConnection, "_run", record_all),
    ):
        yield statements


def explain(connection: Connection, statement: str, values: Any) -> str:
    """PostgreSQL's plan of a captured statement."""
    # Compiled statements have numbered placeholders, those of SQLAlchemy named ones.
    is_named = isinstance(values, Mapping)
    cursor = Cursor(connection) if is_named else RawCursor(connection)
    rows = cursor.execute(f"explain {statement}".encode(), values)
    return "\n".join(row[0] for row in rows)
