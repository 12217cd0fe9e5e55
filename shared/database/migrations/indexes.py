"""Indexes of tables that are written to while they are made."""

from collections.abc import Sequence
from typing import Any

from alembic import op
from sqlalchemy import TextClause


def create_index_beside_writers(
    name: str, table: str, columns: Sequence[str | TextClause], **options: Any
) -> None:
    """Creates an index of a large table without blocking writers; arguments as for `op.create_index`.

    Use a migration of its own: it cannot be in a transaction, so other commands would be repeated
    where it is tried again.
    """
    with op.get_context().autocommit_block():
        # It blocks no other transaction while it waits, and a timeout would leave an invalid index behind.
        op.execute("set lock_timeout = 0")
        op.execute(f'drop index concurrently if exists "{name}"')
        op.create_index(name, table, list(columns), postgresql_concurrently=True, **options)
        op.execute("reset lock_timeout")
