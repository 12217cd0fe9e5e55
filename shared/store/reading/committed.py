"""What a conclusion commits itself to, as people see it."""

from datetime import UTC, date, datetime
from typing import Any

from sqlalchemy.ext.asyncio import AsyncSession

from shared.store.iterations import clock
from shared.store.reading.commitment_shapes import CommitmentView
from shared.store.reading.view import Json


async def today(session: AsyncSession) -> date:
    """The database's day (UTC)."""
    now: datetime = await clock(session)
    return now.astimezone(UTC).date()


def committed(properties: Json | None, day: date) -> dict[str, Any]:
    """The fields of CommitmentView, as they are on `day`; older conclusions have some or none of them."""
    told = properties or {}
    until = _date(told.get("horizon"))
    return CommitmentView(
        confidence=told.get("confidence"),
        horizon=until,
        invalidation=told.get("invalidation"),
        expired=until is not None and until < day,
    ).model_dump()


def _date(written: Any) -> date | None:
    """What is no date was written by nobody of ours, and is no reason to show nothing at all."""
    try:
        return date.fromisoformat(written)
    except (TypeError, ValueError):
        return None
