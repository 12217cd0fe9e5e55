"""Rows of the graph as they stand, whole: whatever columns a table has, a merge moves and puts back all of them."""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final, cast
from uuid import UUID

from sqlalchemy import ColumnElement, Table, exists, insert, select, update
from sqlalchemy.ext.asyncio import AsyncSession

from shared.graph.merging.journal import Before, as_json, as_row
from shared.store.tables import Evidence, GraphEdge, GraphName, GraphNode
from shared.tools import Json

NODES: Final = cast("Table", GraphNode.__table__)
EDGES: Final = cast("Table", GraphEdge.__table__)
EVIDENCE: Final = cast("Table", Evidence.__table__)
NAMES: Final = cast("Table", GraphName.__table__)

Row = Mapping[str, Any]


async def rows_of(session: AsyncSession, table: Table, *where: ColumnElement[bool]) -> list[Row]:
    """In the order of their ids."""
    found = await session.execute(select(table).where(*where).order_by(table.c.id))
    return [dict(row) for row in found.mappings()]


async def put_back(session: AsyncSession, table: Table, kept: Json) -> None:
    await session.execute(insert(table).values(as_row(table, kept)))


def before(row: Row) -> Before:
    plain = as_json(row)
    return Before(
        properties=plain["properties"], seal=plain["seal"], updated_at=plain["updated_at"]
    )


async def as_before(session: AsyncSession, table: Table, row_id: UUID, was: Before) -> None:
    """Gives a row that says again what it said `before` the moment that it had then, and no seal where it had none.

    Not where what it says now is borne out by more than then: it was folded, and its seal is of all that evidence.
    """
    seal = None if was.seal is None else bytes.fromhex(was.seal)
    bears_out = EVIDENCE.c.node_id if table is NODES else EVIDENCE.c.edge_id
    is_as_then = ~exists().where(bears_out == row_id) if seal is None else table.c.seal == seal
    await session.execute(
        update(table)
        .where(table.c.id == row_id, is_as_then)
        .values(seal=seal, updated_at=was.updated_at)
    )


async def with_properties(
    session: AsyncSession, table: Table, row_id: UUID, properties: Json
) -> None:
    await session.execute(update(table).where(table.c.id == row_id).values(properties=properties))


def unproven(properties: Json, evidence: Iterable[Row]) -> Json:
    """The properties that no evidence speaks of."""
    spoken_of = {name for each in evidence for name in each["claims"]}
    return {name: value for name, value in properties.items() if name not in spoken_of}


def left_behind(properties: Json, was: Json, added: Json, claimed: Iterable[str]) -> Json:
    """The properties of the one that stays, before its own evidence is folded into them.

    Without those that were `added` and are as they were, and without what the evidence that leaves had `claimed`; there
    it says what it said before.
    """
    taken = set(claimed) | {name for name, value in added.items() if properties.get(name) == value}
    own = {name: value for name, value in properties.items() if name not in taken}
    return own | {name: was[name] for name in taken if name in was}


def of_each(rows: Sequence[Row], column: str) -> dict[UUID, list[Row]]:
    """`rows` by what stands in `column`."""
    found: dict[UUID, list[Row]] = {}
    for row in rows:
        found.setdefault(row[column], []).append(row)
    return found
