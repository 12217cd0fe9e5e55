"""Pages that an agent has read, found by a part of their address or title among those fetched last."""

from collections.abc import Collection
from typing import Final
from uuid import UUID

from sqlalchemy import or_, select, text
from sqlalchemy.ext.asyncio import AsyncSession

from shared.graph import evidence
from shared.graph.scope import OWNED_SQL, Scope
from shared.store.reading.evidence_shapes import SourceView
from shared.store.tables import Source

LOOKED_THROUGH: Final = 5_000
"""Pages; so a search costs the same however many were read."""
TOLD_AT_MOST: Final = 100
MOST_COUNTED: Final = 1_000
"""Quotes of one page."""


async def holding(
    session: AsyncSession, scope: Scope, part: str, *, retracted: bool | None = None
) -> list[SourceView]:
    """Those fetched last first, TOLD_AT_MOST of them."""
    recent = (
        select(Source.id)
        .where(Source.agent_id == scope.agent())
        .order_by(Source.fetched_at.desc(), Source.id.desc())
        .limit(LOOKED_THROUGH)
        .subquery()
    )
    statement = (
        select(*evidence.SOURCE_COLUMNS)
        .join(recent, recent.c.id == Source.id)
        .where(
            or_(
                Source.url.icontains(part, autoescape=True),
                Source.title.icontains(part, autoescape=True),
            )
        )
    )
    if retracted is not None:
        statement = statement.where(Source.retracted_at.is_not(None) == retracted)
    rows = await session.execute(
        statement.order_by(Source.fetched_at.desc(), Source.id.desc()).limit(TOLD_AT_MOST)
    )
    return [evidence.source_view(*row) for row in rows]


async def quotes_of(session: AsyncSession, scope: Scope, ids: Collection[UUID]) -> dict[UUID, int]:
    """How many quotes rest on each page, counted up to MOST_COUNTED."""
    rows = await session.execute(
        text(_QUOTES), {**scope.bound, "ids": list(ids), "most": MOST_COUNTED}
    )
    return {row[0]: row[1] for row in rows}


_QUOTES: Final = (
    "select id, (select count(*) from (select from evidence where source_id = sources.id limit :most)"
    f" counted) from sources where agent_id = {OWNED_SQL} and id = any(cast(:ids as uuid[]))"
)
