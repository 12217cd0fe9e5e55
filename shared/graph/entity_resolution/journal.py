"""The journal of a merge: what it moved, so that it can be undone.

Rows stand as JSON, as they were before: ids and moments as text, bytes in hex.
"""

from collections.abc import Iterable, Mapping
from datetime import datetime
from typing import Any
from uuid import UUID

from pydantic import BaseModel
from sqlalchemy import Table
from sqlalchemy.ext.asyncio import AsyncSession

from shared.database.tables import GraphMerge
from shared.graph.projection import EDGES, NODES, claimed_of, lock
from shared.graph.retraction import doubts
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


async def move(session: AsyncSession, made: GraphMerge, moved: Moved) -> None:
    await doubts.carry(session, {made.gone_id: made.kept_id} | _edges(moved))


async def move_back(session: AsyncSession, made: GraphMerge, moved: Moved) -> None:
    """Where all things are again as they were: what only the merge had borne out is in doubt again."""
    edges = _edges(moved)
    nodes_there = await lock(session, NODES, [made.gone_id, made.kept_id])
    edges_there = await lock(session, EDGES, [*edges, *edges.values()])
    await doubts.give_back(session, [made.gone_id, *edges], made.made_at)
    gone = {there: edge for edge, there in edges.items() if there not in edges_there}
    await doubts.carry(session, gone)
    claimed = await claimed_of(session, NODES, nodes_there)
    claimed |= await claimed_of(session, EDGES, edges_there)
    await doubts.weigh(session, claimed)


def _edges(moved: Moved) -> dict[UUID, UUID]:
    """By its id before, where each is since."""
    return {UUID(edge.row["id"]): edge.to for edge in moved.edges if edge.to is not None}
