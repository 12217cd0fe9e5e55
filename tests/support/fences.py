"""Fences of units of work, and a statement that fails."""

from typing import Final

from shared.database.statements import BoundQuery, CompiledStatement

EVERYONE: Final = BoundQuery(CompiledStatement("select 1"), {}, lambda _: None)
"""Everyone may write."""
FAILURE: Final = BoundQuery(
    CompiledStatement("select 1 / cast(:zero as integer)"), {"zero": 0}, lambda _: None
)
