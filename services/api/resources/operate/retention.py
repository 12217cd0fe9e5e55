"""What is deleted when it is old: limits, sizes, and what was deleted."""

from collections.abc import Iterable
from typing import Final
from uuid import UUID

from sqlalchemy import func, literal, select, text

from services.api.reading import columns_of
from shared.database.tables import PrunedIterations, Retention
from shared.database.transaction import Transaction
from shared.enums import RetentionKind
from shared.schemas.operations import (
    RetainedKind,
    RetainedTable,
    RetentionResponse,
)
from shared.workflow.retention import DESCRIPTIONS, KNOWLEDGE

_SIZES: Final = text("""
select relname as name, n_live_tup as rows, pg_total_relation_size(relid) as bytes
from pg_stat_user_tables where relname = any(cast(:tables as text[]))
""")


async def read_retention(session: Transaction) -> RetentionResponse:
    statement = select(*columns_of(Retention, RetainedKind))
    rows = {row["kind"]: row for row in (await session.execute(statement)).mappings()}
    tables = {name for described in DESCRIPTIONS.values() for name in described.tables}
    sizes = {
        row.name: RetainedTable.model_validate(row)
        for row in await session.execute(_SIZES, {"tables": [*tables, *KNOWLEDGE]})
    }

    def sized(names: Iterable[str]) -> list[RetainedTable]:
        return [sizes[name] for name in names if name in sizes]

    kinds = []
    for kind, described in DESCRIPTIONS.items():
        row = dict(rows.get(kind, _UNKNOWN))
        if row["days"] is None and row["max_bytes"] is None:
            row["next_at"] = None
        facts = {
            "kind": kind,
            "label": described.label,
            "contents": described.contents,
            "is_known": kind in rows,
            "tables": sized(described.tables),
        }
        kinds.append(RetainedKind.model_validate(row | facts))
    return RetentionResponse(kinds=kinds, kept=sized(KNOWLEDGE))


_UNKNOWN: Final = {**dict.fromkeys(RetainedKind.model_fields), "last_rows": 0, "all_rows": 0}


async def days_of(session: Transaction, kind: RetentionKind) -> float | None:
    """After how many days the kind is deleted; None: never, or no scheduler has pruned yet."""
    days: float | None = await session.scalar(select(Retention.days).where(Retention.kind == kind))
    return days


async def is_limited_in_size(session: Transaction, kind: RetentionKind) -> bool:
    """Whether the oldest of the kind may be deleted before its time."""
    limit = select(Retention.max_bytes).where(Retention.kind == kind)
    return await session.scalar(limit) is not None


async def is_pruned(session: Transaction, agent_id: UUID, number: int) -> bool:
    """Whether the iteration was deleted because of its age. The caller has checked that the agent is the owner's."""
    found = select(literal(1)).where(
        PrunedIterations.agent_id == agent_id,
        func.coalesce(PrunedIterations.numbers.op("@>")(number), False),
    )
    return await session.scalar(found) is not None
