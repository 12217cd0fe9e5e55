"""What stands beside a graph because of pages that are not believed: who may restore them, and what is in doubt."""

from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any
from uuid import UUID, uuid4

from sqlalchemy import func, select
from sqlalchemy.dialects.postgresql import aggregate_order_by
from sqlalchemy.ext.asyncio import AsyncSession

from shared.graph.scope import Scope
from shared.graph.transfer.copying import copy_rows
from shared.graph.transfer.lines import DoubtLine
from shared.graph.transfer.map import Arrived
from shared.store import ids
from shared.store.tables import Doubt, RetractedSource, Retraction, Source

Doubted = Sequence[tuple[UUID, DoubtLine]]
"""By the new id of the conclusion, with the old ones of what it rests on."""


async def keep_retractions(session: AsyncSession, scope: Scope) -> None:
    """Of all pages that have arrived retracted, gone through already; those of one address and moment are one."""
    rows = await session.execute(
        select(
            Source.url,
            Source.retracted_at,
            func.coalesce(Source.retracted_because, ""),
            func.array_agg(aggregate_order_by(Source.id, Source.id)),
        )
        .where(Source.agent_id == scope.agent(), Source.retracted_at.is_not(None))
        .group_by(Source.url, Source.retracted_at, Source.retracted_because)
    )
    for url, moment, because, sources in rows.all():
        assert moment is not None
        made = _retraction(scope, url, moment, because)
        session.add(made)
        await session.flush()
        of_it = {"retraction_id": made.id, "is_due": False, "through": None}
        session.add_all(RetractedSource(source_id=each, **of_it) for each in sources)
    await session.flush()


def _retraction(scope: Scope, url: str, moment: datetime, because: str) -> Retraction:
    return Retraction(
        id=uuid4(), agent_id=scope.agent_id, url=url, because=because, created_at=moment
    )


async def keep_doubts(session: AsyncSession, arrived: Arrived, doubted: Doubted) -> None:
    """But of what is not there: an edge between two nodes goes when they are made one, and doubts of it do not."""
    told = [each for _, each in doubted]
    old = {each.thing_id for each in told} | {each.source_id for each in told}
    new_ids = await arrived.new_ids(old)
    rows = [
        _row(conclusion, each, new_ids)
        for conclusion, each in doubted
        if {each.thing_id, each.source_id} <= new_ids.keys()
    ]
    await copy_rows(session, Doubt.__tablename__, rows)


def _row(conclusion: UUID, told: DoubtLine, new_ids: Mapping[UUID, UUID]) -> dict[str, Any]:
    thing, source = new_ids[told.thing_id], new_ids[told.source_id]
    return {
        "id": ids.doubt_id(conclusion, thing, source),
        "conclusion_id": conclusion,
        "thing_id": thing,
        "source_id": source,
        "since": told.since,
    }
