"""How a right in Postgres is said, as plain values; `shared.store.grants` says whose they are."""

from dataclasses import dataclass
from typing import Final

ALL: Final = ("*",)
"""Every column."""

Columns = tuple[str, ...]


@dataclass(frozen=True)
class Rows:
    """The rows whose `column` holds one of `values`, or, where `but`, none of them."""

    column: str
    values: tuple[str, ...]
    but: bool = False


@dataclass(frozen=True)
class Filled:
    """The rows whose `column` holds anything."""

    column: str


@dataclass(frozen=True)
class Grant:
    """What one role may do with one table. Empty columns: nothing of that kind.

    `inserts`, `updates` and `deletes` bound the rows that may be written; None bounds nothing.
    """

    select: Columns = ()
    insert: Columns = ()
    update: Columns = ()
    delete: bool = False
    inserts: Rows | None = None
    updates: Rows | None = None
    deletes: Rows | Filled | None = None


READ: Final = Grant(select=ALL)


def role_of(name: str) -> str:
    """The Postgres role of an actor."""
    return f"vigil_{name}"
