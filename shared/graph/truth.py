"""When the facts of nodes and edges were true, as far as their evidence knows."""

from collections.abc import Collection
from dataclasses import dataclass
from datetime import datetime
from uuid import UUID

from sqlalchemy import select, true
from sqlalchemy.ext.asyncio import AsyncSession
from sqlalchemy.orm import InstrumentedAttribute

from shared.graph.around import each_of
from shared.store.tables import Evidence, Source


@dataclass(frozen=True)
class Truth:
    """Of the evidence that is true latest: since when, or of which day it tells, and until when where it says so."""

    as_of: datetime
    until: datetime | None


async def of_nodes(session: AsyncSession, ids: Collection[UUID]) -> dict[UUID, Truth]:
    return await _latest(session, Evidence.node_id, ids)


async def of_edges(session: AsyncSession, ids: Collection[UUID]) -> dict[UUID, Truth]:
    return await _latest(session, Evidence.edge_id, ids)


async def _latest(
    session: AsyncSession, thing: InstrumentedAttribute[UUID | None], ids: Collection[UUID]
) -> dict[UUID, Truth]:
    """By id; nothing of those that no evidence stands for. What was retracted does not count."""
    if not ids:
        return {}
    each = each_of(ids)
    latest = (
        select(Evidence.as_of, Evidence.valid_to)
        .join(Source, Source.id == Evidence.source_id)
        .where(thing == each.c.id, Source.retracted_at.is_(None))
        .order_by(Evidence.as_of.desc())
        .limit(1)
        .correlate(each)
        .lateral()
    )
    rows = await session.execute(
        select(each.c.id, latest.c.as_of, latest.c.valid_to).select_from(each).join(latest, true())
    )
    return {thing_id: Truth(as_of, until) for thing_id, as_of, until in rows}
