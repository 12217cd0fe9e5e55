"""What is sent to Postgres, by SQLAlchemy or past it."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any
from unittest.mock import patch

from psycopg import AsyncCursor

Sent = list[tuple[str, Any]]


@contextmanager
def listened() -> Iterator[Sent]:
    """Every statement that goes to Postgres, with its values."""
    sent: Sent = []
    execute = AsyncCursor.execute

    async def hear(self: Any, query: Any, params: Any = None, **options: Any) -> Any:
        sent.append((query.decode() if isinstance(query, bytes) else query, params))
        return await execute(self, query, params, **options)

    with patch.object(AsyncCursor, "execute", hear):
        yield sent
