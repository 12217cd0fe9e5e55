"""What is known of a session for as long as its innermost transaction lasts."""

from typing import Any, Final, NamedTuple

from sqlalchemy.ext.asyncio import AsyncSession
from sqlalchemy.orm import SessionTransaction

_KNOWN: Final = "within"
"""Where a session keeps it."""


class _Within(NamedTuple):
    transaction: SessionTransaction | None
    known: dict[Any, Any]


def within(session: AsyncSession) -> dict[Any, Any]:
    """Empty when a transaction begins, and in each savepoint; and again behind one: what was undone is known to nobody."""
    innermost = _innermost(session)
    held: _Within | None = session.info.get(_KNOWN)
    if held is None or held.transaction is not innermost:
        held = session.info[_KNOWN] = _Within(innermost, {})
    return held.known


def _innermost(session: AsyncSession) -> SessionTransaction | None:
    inside = session.sync_session
    return inside.get_nested_transaction() or inside.get_transaction()
