"""The journal of a merge: what it moved, so that it can be undone.

Rows are JSON in their state before the merge: ids and times as text, bytes in hex.
"""

from collections.abc import Mapping
from datetime import datetime
from typing import Any
from uuid import UUID

from pydantic import BaseModel
from sqlalchemy import Table

from shared.tools import Json


class MovedEvidence(BaseModel):
    row: Json
    to: UUID
    """Its new id, which is derived from what the evidence is about."""
    was_there: bool
    """Whether the same evidence existed there already."""
    verdict: Json | None = None
    """If so, what a model had found in the evidence that was removed, if anything."""

    @property
    def claims(self) -> Json:
        claims: Json = self.row["claims"]
        return claims


class PreviousState(BaseModel):
    """What a merge changes of a row that remains."""

    properties: Json
    seal: str | None
    updated_at: datetime


class MovedEdge(BaseModel):
    row: Json
    to: UUID | None
    """Its new id; None for an edge between the two nodes, which merges of earlier versions removed."""
    before: PreviousState | None = None
    """State of the edge that existed there; None if there was none."""
    added: Json = {}
    """Properties without evidence that the existing edge took over."""
    evidence: list[MovedEvidence]
    touched_at: datetime | None = None
    """`updated_at` of the target edge after the merge."""


class MergeJournal(BaseModel):
    names: list[str]
    """Keys."""
    before: PreviousState
    """State of the node that was kept."""
    added: Json
    evidence: list[MovedEvidence]
    edges: list[MovedEdge]

    @property
    def edge_redirects(self) -> dict[UUID, UUID]:
        """New edge id by old edge id."""
        return {UUID(edge.row["id"]): edge.to for edge in self.edges if edge.to is not None}


def as_json(row: Mapping[str, Any]) -> Json:
    return {name: _to_json(value) for name, value in row.items()}


def as_row(table: Table, row: Json) -> dict[str, Any]:
    """The journal row as values for the present columns of the table."""
    return {
        column.name: _from_json(column.type.python_type, row[column.name])
        for column in table.columns
        if column.name in row
    }


def _to_json(value: Any) -> Any:
    if isinstance(value, UUID):
        return str(value)
    if isinstance(value, datetime):
        return value.isoformat()
    return value.hex() if isinstance(value, bytes) else value


def _from_json(python_type: type, value: Any) -> Any:
    if value is None:
        return None
    if python_type is UUID:
        return UUID(value)
    if python_type is datetime:
        return datetime.fromisoformat(value)
    return bytes.fromhex(value) if python_type is bytes else value
