"""Fences of units of work."""

from typing import Final

from shared.database.statements import BoundQuery, CompiledStatement

EVERYONE: Final = BoundQuery(CompiledStatement("select 1"), {}, lambda _: None)
"""Everyone may write."""
