"""Capture of the statements sent to PostgreSQL."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any
from unittest.mock import patch

from psycopg import AsyncCursor

Statements = list[tuple[str, Any]]


@contextmanager
def captured_statements() -> Iterator[Statements]:
    """Capture every statement sent to PostgreSQL, with its parameters."""
    statements: Statements = []
    execute = AsyncCursor.execute

    async def record(self: Any, query: Any, params: Any = None, **options: Any) -> Any:
        statements.append((query.decode() if isinstance(query, bytes) else query, params))
        return await execute(self, query, params, **options)

    with patch.object(AsyncCursor, "execute", record):
        yield statements
