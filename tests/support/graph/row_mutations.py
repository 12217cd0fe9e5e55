"""Changes of single rows by something that is not Vigil: any column of any table of a graph, rows added and rows deleted."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import date, datetime, timedelta
from decimal import Decimal
from random import Random
from typing import Any, Final, cast
from uuid import UUID, uuid4

import psycopg
from sqlalchemy import (
    Boolean,
    Column,
    ColumnElement,
    Table,
    UniqueConstraint,
    delete,
    insert,
    select,
    text,
    update,
)
from sqlalchemy.dialects.postgresql import ARRAY, INT4MULTIRANGE, JSONB, Range

from shared.database.tables import (
    CallDay,
    Citation,
    ConclusionProof,
    ConclusionVerdict,
    Doubt,
    EntailmentVerdict,
    Evidence,
    GraphEdge,
    GraphEdgeType,
    GraphHead,
    GraphJournal,
    GraphMerge,
    GraphMove,
    GraphName,
    GraphNode,
    GraphNodeType,
    Position,
    PrunedIterations,
    RetractedSource,
    Retraction,
    Source,
)
from shared.database.transaction import Transaction
from shared.enums import CallKind, Entailment, SentenceKind, SentenceVerdict
from shared.graph.conclusions.citations import Kind
from tests.support.graph.random_rows import Chance

COVERED: Final[Sequence[type[Any]]] = (
    GraphNode,
    GraphEdge,
    GraphNodeType,
    GraphEdgeType,
    GraphName,
    Source,
    Evidence,
    GraphMerge,
    GraphMove,
    Retraction,
    RetractedSource,
    Citation,
    Doubt,
    ConclusionProof,
    ConclusionVerdict,
    EntailmentVerdict,
    Position,
    PrunedIterations,
    CallDay,
)
JOURNAL: Final[Sequence[type[Any]]] = (GraphHead, GraphJournal)
NOT_COVERED: Final = {
    ("graph_merges", "made_by"),  # forgotten with the user
    ("graph_journal", "signature"),  # checked with a key only
    ("entailment_verdicts", "applied_at"),  # says only that nothing is to do
}
OWNERS: Final = ("agent_id", "conclusion_id", "retraction_id")
"""Columns that say to which graph a row belongs."""
PERMITTED: Final = {
    "entailment_verdicts.verdict": [each.value for each in Entailment],
    "conclusion_verdicts.kind": [each.value for each in SentenceKind],
    "conclusion_verdicts.verdict": [each.value for each in SentenceVerdict],
    "call_days.kind": [each.value for each in CallKind],
    "conclusion_proofs.kind": [each.value for each in Kind],
}
"""The values of columns that permit few."""
ATTEMPTS: Final = 20
"""A value may be refused by a constraint."""


@dataclass(frozen=True)
class RowMutation:
    """`column` is changed; None adds a row, or deletes one."""

    table: Table
    column: str | None
    is_deletion: bool = False

    def __str__(self) -> str:
        if self.column:
            return f"change {self.table.name}.{self.column}"
        return f"{'delete from' if self.is_deletion else 'insert into'} {self.table.name}"


def row_mutations(tables: Sequence[type[Any]]) -> list[RowMutation]:
    mutations = []
    for model in tables:
        table = cast("Table", model.__table__)
        mutations.append(RowMutation(table, None, is_deletion=True))
        if model not in (
            GraphHead,
            PrunedIterations,
        ):  # a second one would be that of another graph
            mutations.append(RowMutation(table, None))
        mutations += [
            RowMutation(table, column.name)
            for column in table.columns
            if (table.name, column.name) not in NOT_COVERED
        ]
    return mutations


class NoRowError(Exception):
    """The graph has no row of the table."""


async def mutate(
    session: Transaction, random: Random, agent_id: UUID, mutation: RowMutation
) -> None:
    """Apply `mutation` to a random row, as another program would: with the triggers of the journal or without them.

    Raises NoRowError.
    """
    await session.execute(text("set local application_name = 'psql'"))
    rows = list(
        (
            await session.execute(
                select(mutation.table)
                .where(_is_of(mutation.table, agent_id))
                .order_by(*_key_of(mutation.table))
            )
        ).mappings()
    )
    if mutation.column in ("node_id", "edge_id"):  # evidence is of one of the two
        rows = [row for row in rows if row[mutation.column] is not None]
    if not rows:
        raise NoRowError
    for attempt in range(ATTEMPTS):
        role = random.choice(["origin", "replica"]) if attempt < ATTEMPTS // 2 else "replica"
        try:
            async with session.savepoint():
                await session.execute(text(f"set local session_replication_role = {role}"))
                await _apply(session, random, mutation, dict(random.choice(rows)))
                await session.execute(text("select close_graph_journal()"))
            break
        except (psycopg.IntegrityError, psycopg.DataError):
            continue
    else:
        raise AssertionError(f"{mutation}: every value was refused")
    await session.execute(text("set local session_replication_role = origin"))


def _is_of(table: Table, agent_id: UUID) -> ColumnElement[bool]:
    if "agent_id" in table.columns:
        return table.c.agent_id == agent_id
    if "conclusion_id" in table.columns:
        return table.c.conclusion_id.in_(select(GraphNode.id).where(GraphNode.agent_id == agent_id))
    return table.c.retraction_id.in_(select(Retraction.id).where(Retraction.agent_id == agent_id))


async def _apply(
    session: Transaction, random: Random, mutation: RowMutation, row: dict[str, Any]
) -> None:
    table = mutation.table
    if mutation.column is None and not mutation.is_deletion:
        await session.execute(insert(table).values(_another(random, table, row)))
        return
    key = [column.is_not_distinct_from(row[column.name]) for column in _key_of(table)]
    if mutation.column is None:
        await session.execute(delete(table).where(*key))
        return
    column = table.columns[mutation.column]
    value = _different(random, column, row[column.name])
    while repr(value) == repr(row[column.name]):
        value = _different(random, column, row[column.name])
    await session.execute(update(table).where(*key).values({column.name: value}))


def _keys_of(table: Table) -> list[Sequence[Column[Any]]]:
    unique = [each for each in table.constraints if isinstance(each, UniqueConstraint)]
    keys = [list(table.primary_key.columns), *(list(each.columns) for each in unique)]
    return [key for key in keys if key]


def _key_of(table: Table) -> Sequence[Column[Any]]:
    """The primary key, or the only key of a table without one."""
    return _keys_of(table)[0]


def _another(random: Random, table: Table, row: dict[str, Any]) -> dict[str, Any]:
    """A copy of the row with another key."""
    keys = _keys_of(table)
    copy = dict(row)
    for key in keys:
        column = random.choice([column for column in key if column.name not in OWNERS])
        copy[column.name] = _different(random, column, row[column.name])
    return copy


def _different(random: Random, column: Column[Any], value: Any) -> Any:
    """Another value of the column."""
    if value is not None and column.nullable and random.random() < 0.3:
        return None
    if (permitted := PERMITTED.get(str(column))) is not None:
        return random.choice(permitted)
    chance = Chance(cast("Transaction", None), random, uuid4())
    if isinstance(column.type, ARRAY):
        return _different_list(random, column.type.item_type.python_type, list(value or ()))
    if isinstance(column.type, Boolean):
        return not value
    if isinstance(column.type, INT4MULTIRANGE):
        first = random.randrange(100)
        return [Range(first, first + random.randrange(1, 9))]
    kind = column.type.python_type
    if isinstance(column.type, JSONB):
        return (
            chance.different_value(value or {})
            if isinstance(value, list)
            else (chance.change_properties(value or {}))
        )
    if kind is datetime:
        moment = value or datetime(2026, 1, 1).astimezone()
        return moment + random.choice([-1, 1]) * timedelta(
            microseconds=random.choice([1, 10**6, 10**11])
        )
    return _another_value(random, chance, kind, value)


def _another_value(random: Random, chance: Chance, kind: type, value: Any) -> Any:
    if kind is UUID:
        return UUID(int=random.getrandbits(128))
    if kind is date:
        return value + timedelta(days=random.choice([-1, 1]))
    if kind is Decimal:
        return value + random.choice([-1, 1]) * Decimal("0.00000001")
    if kind is int:
        return (value or 0) + random.choice([-1, 1, 10_000])
    if kind is bytes:
        changed = bytearray(value or bytes(32))
        changed[random.randrange(len(changed))] ^= 1 << random.randrange(8)
        return bytes(changed)
    assert kind is str, kind
    return chance.edit_text(value or "").replace("\0", "")


def _different_list(random: Random, kind: type, values: list[Any]) -> list[Any]:
    chance = Chance(cast("Transaction", None), random, uuid4())
    index = random.randrange(len(values)) if values else 0
    variants = [[*values, _another_value(random, chance, kind, None)]]
    if values:
        variants.append(values[:index] + values[index + 1 :])
        changed = _another_value(random, chance, kind, values[index])
        variants.append([*values[:index], changed, *values[index + 1 :]])
    return random.choice(variants)
