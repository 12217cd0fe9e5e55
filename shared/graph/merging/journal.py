"""What a merge has moved, as it is kept with it: enough to put everything back where it was.

Rows stand as JSON, as they were before: ids and moments as text, bytes in hex.
"""

from collections.abc import Iterable, Mapping
from datetime import datetime
from typing import Any
from uuid import UUID

from pydantic import BaseModel
from sqlalchemy import Table

from shared.tools import Json


class MovedEvidence(BaseModel):
    row: Json
    to: UUID
    """Its id since: that of a span follows from what it is of."""
    was_there: bool
    """Whether the same had been said there already."""

    @property
    def claims(self) -> Json:
        claims: Json = self.row["claims"]
        return claims


class Before(BaseModel):
    """What a merge changes of a row that stays."""

    properties: Json
    seal: str | None
    updated_at: datetime


class MovedEdge(BaseModel):
    row: Json
    to: UUID | None
    """Its id since; None of one that would begin and end at the same node."""
    before: Before | None = None
    """Of the edge that was there already; None where there was none."""
    added: Json = {}
    """Properties without evidence that the one that was there has taken over."""
    evidence: list[MovedEvidence]
    touched_at: datetime | None = None
    """`updated_at` of the edge behind the merge."""


class Moved(BaseModel):
    names: list[str]
    """Keys."""
    before: Before
    """Of the node that was kept."""
    added: Json
    evidence: list[MovedEvidence]
    edges: list[MovedEdge]


def claimed(moved: Iterable[MovedEvidence]) -> set[str]:
    """The names of the properties that it speaks of."""
    return {name for each in moved for name in each.claims}


def as_json(row: Mapping[str, Any]) -> Json:
    return {name: _plain(value) for name, value in row.items()}


def as_row(table: Table, kept: Json) -> dict[str, Any]:
    """`kept` as values for the columns that the table has now."""
    return {
        column.name: _value(column.type.python_type, kept[column.name])
        for column in table.columns
        if column.name in kept
    }


def _plain(value: Any) -> Any:
    if isinstance(value, UUID):
        return str(value)
    if isinstance(value, datetime):
        return value.isoformat()
    return value.hex() if isinstance(value, bytes) else value


def _value(kind: type, plain: Any) -> Any:
    if plain is None:
        return None
    if kind is UUID:
        return UUID(plain)
    if kind is datetime:
        return datetime.fromisoformat(plain)
    return bytes.fromhex(plain) if kind is bytes else plain
