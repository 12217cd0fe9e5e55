"""Evidence moved from one thing to another: its id and its seal hold what it is of, and are made anew."""

from collections.abc import Mapping, Sequence
from typing import Any
from uuid import UUID

from sqlalchemy import bindparam, delete, select, update
from sqlalchemy.dialects.postgresql import insert
from sqlalchemy.ext.asyncio import AsyncSession

from shared.graph.merging.journal import MovedEvidence, as_json, as_row
from shared.graph.merging.rows import EVIDENCE
from shared.graph.proof import seals
from shared.store import ids

Row = Mapping[str, Any]


async def move(
    session: AsyncSession, rows: Sequence[Row], column: str, to: UUID
) -> list[MovedEvidence]:
    """To the node or edge `to`; `column` is `node_id` or `edge_id`."""
    if not rows:
        return []
    new = [_id_of(row, to) for row in rows]
    there = set(await session.scalars(select(EVIDENCE.c.id).where(EVIDENCE.c.id.in_(new))))
    moved = [
        MovedEvidence(row=as_json(row), to=new_id, was_there=new_id in there)
        for row, new_id in zip(rows, new, strict=True)
    ]
    await _delete(
        session, [row["id"] for row, each in zip(rows, moved, strict=True) if each.was_there]
    )
    changes = [
        {"old": row["id"], "new": each.to, "thing": to, "sealed": _sealed(row, column, each.to, to)}
        for row, each in zip(rows, moved, strict=True)
        if not each.was_there
    ]
    if changes:
        changed: dict[str, Any] = {
            "id": bindparam("new"),
            column: bindparam("thing"),
            "seal": bindparam("sealed"),
        }
        connection = await session.connection()
        await connection.execute(
            update(EVIDENCE).where(EVIDENCE.c.id == bindparam("old")).values(changed), changes
        )
    return moved


async def move_back(session: AsyncSession, moved: Sequence[MovedEvidence]) -> None:
    """To where it was; what it was of is there again."""
    await _delete(session, [each.to for each in moved if not each.was_there])
    if moved:
        rows = [as_row(EVIDENCE, each.row) for each in moved]
        connection = await session.connection()
        await connection.execute(insert(EVIDENCE).on_conflict_do_nothing(), rows)


async def _delete(session: AsyncSession, gone: Sequence[UUID]) -> None:
    if gone:
        await session.execute(delete(EVIDENCE).where(EVIDENCE.c.id.in_(gone)))


def _id_of(row: Row, thing: UUID) -> UUID:
    says = seals.canonical([row["claims"], row["valid_from"], row["valid_to"]])
    return ids.evidence_id(thing, row["source_id"], row["first_byte"], row["end_byte"], says)


def _sealed(row: Row, column: str, evidence_id: UUID, thing: UUID) -> bytes:
    """What was changed behind Vigil's back keeps a seal that does not fit, and is found there too."""
    was: bytes = row["seal"]
    return (
        _seal_of(row, evidence_id, thing) if was == _seal_of(row, row["id"], row[column]) else was
    )


def _seal_of(row: Row, evidence_id: UUID, thing: UUID) -> bytes:
    return seals.of_evidence(
        evidence_id=evidence_id,
        agent_id=row["agent_id"],
        thing_id=thing,
        source_id=row["source_id"],
        first_byte=row["first_byte"],
        end_byte=row["end_byte"],
        quote_sha256=row["quote_sha256"],
        claims=row["claims"],
        valid_from=row["valid_from"],
        valid_to=row["valid_to"],
        as_of=row["as_of"],
        learned_at=row["learned_at"],
    )
