"""The journal of a merge: what it moved, so that it can be undone.

Rows are JSON in their state before the merge: ids and times as text, bytes in hex.
"""

from collections.abc import Iterable, Mapping
from datetime import datetime
from typing import Any
from uuid import UUID

from pydantic import BaseModel
from sqlalchemy import Table
from sqlalchemy.ext.asyncio import AsyncSession

from shared.database.tables import GraphMerge
from shared.graph.projection import EDGES, NODES, load_claims, lock_elements
from shared.graph.retraction import doubts
from shared.tools import Json


class MovedEvidence(BaseModel):
    row: Json
    to: UUID
    """Its new id, which is derived from what the evidence is about."""
    was_there: bool
    """Whether the same evidence existed there already."""

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
    """Its new id; None if it would have joined a node with itself."""
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


def claimed_properties(moved: Iterable[MovedEvidence]) -> set[str]:
    """Names of the properties that this evidence supports."""
    return {name for evidence in moved for name in evidence.claims}


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


async def transfer_doubts(
    session: AsyncSession, merge: GraphMerge, merge_journal: MergeJournal
) -> None:
    await doubts.transfer_doubts(
        session, {merge.merged_id: merge.kept_id} | _edge_redirects(merge_journal)
    )


async def restore_doubts(
    session: AsyncSession, merge: GraphMerge, merge_journal: MergeJournal
) -> None:
    """After the nodes are separate again: what only the merge supported is in doubt again."""
    edges = _edge_redirects(merge_journal)
    node_ids = await lock_elements(session, NODES, [merge.merged_id, merge.kept_id])
    edge_ids = await lock_elements(session, EDGES, [*edges, *edges.values()])
    await doubts.reopen_doubts(session, [merge.merged_id, *edges], merge.made_at)
    removed = {new_id: old_id for old_id, new_id in edges.items() if new_id not in edge_ids}
    await doubts.transfer_doubts(session, removed)
    claims = await load_claims(session, NODES, node_ids)
    claims |= await load_claims(session, EDGES, edge_ids)
    await doubts.reevaluate_doubts(session, claims)


def _edge_redirects(merge_journal: MergeJournal) -> dict[UUID, UUID]:
    """New edge id by old edge id."""
    return {UUID(edge.row["id"]): edge.to for edge in merge_journal.edges if edge.to is not None}
