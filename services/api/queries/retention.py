"""What is deleted when it is old: limits, sizes, and what was deleted."""

from collections.abc import Iterable
from typing import Final
from uuid import UUID

from sqlalchemy import func, literal, select, text
from sqlalchemy.ext.asyncio import AsyncSession

from shared.database.tables import PrunedIterations, Retention
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


async def read_retention(session: AsyncSession) -> RetentionResponse:
    rows = {row.kind: row for row in await session.scalars(select(Retention))}
    tables = {name for described in DESCRIPTIONS.values() for name in described.tables}
    sizes = {
        row.name: RetainedTable.model_validate(row)
        for row in await session.execute(_SIZES, {"tables": [*tables, *KNOWLEDGE]})
    }

    def sized(names: Iterable[str]) -> list[RetainedTable]:
        return [sizes[name] for name in names if name in sizes]

    kinds = []
    for kind, described in DESCRIPTIONS.items():
        row = rows.get(kind)
        kinds.append(
            RetainedKind(
                kind=kind,
                label=described.label,
                contents=described.contents,
                is_known=row is not None,
                days=row.days if row else None,
                max_bytes=row.max_bytes if row else None,
                bytes=row.bytes if row else None,
                tables=sized(described.tables),
                oldest_at=row.oldest_at if row else None,
                pruned_at=row.pruned_at if row else None,
                last_rows=row.last_rows if row else 0,
                all_rows=row.all_rows if row else 0,
                ended_at=row.ended_at if row else None,
                next_at=row.next_at if row and _has_limit(row) else None,
            )
        )
    return RetentionResponse(kinds=kinds, kept=sized(KNOWLEDGE))


def _has_limit(row: Retention) -> bool:
    return row.days is not None or row.max_bytes is not None


async def days_of(session: AsyncSession, kind: RetentionKind) -> float | None:
    """After how many days the kind is deleted; None: never, or no scheduler has pruned yet."""
    days: float | None = await session.scalar(select(Retention.days).where(Retention.kind == kind))
    return days


async def is_limited_in_size(session: AsyncSession, kind: RetentionKind) -> bool:
    """Whether the oldest of the kind may be deleted before its time."""
    limit = select(Retention.max_bytes).where(Retention.kind == kind)
    return await session.scalar(limit) is not None


async def is_pruned(session: AsyncSession, agent_id: UUID, number: int) -> bool:
    """Whether the iteration was deleted because of its age. The caller has checked that the agent is the owner's."""
    found = select(literal(1)).where(
        PrunedIterations.agent_id == agent_id,
        func.coalesce(PrunedIterations.numbers.op("@>")(number), False),
    )
    return await session.scalar(found) is not None
