"""Retraction of sources: takes effect at once, is undone at once, and is propagated in batches.

`sources.retracted_at` is authoritative for every projection. `retractions.due_at` says that a propagation is pending,
and `retracted_sources` stores its progress, so that it continues after a crash. `shared.graph.retraction.propagation`
does that work.
"""

from collections.abc import Collection, Sequence
from typing import Final
from uuid import UUID, uuid4

from sqlalchemy import select, update
from sqlalchemy.ext.asyncio import AsyncSession

from shared.database.tables import RetractedSource, Retraction, Source
from shared.errors import VigilError
from shared.graph.scope import GraphScope, take_exclusive_retraction_lock
from shared.workflow.iterations import database_time

FIRST_CURSOR: Final = UUID(int=0)
"""Less than any id in use."""


class NoSuchSourceError(VigilError):
    """The agent has not read any such page."""


async def retract_source(
    session: AsyncSession, scope: GraphScope, reference: str, reason: str
) -> UUID:
    """Retract a source and return the id of the retraction.

    `reference` is a URL, meaning all its stored versions, or a source id. If all of them are retracted this way
    already, the existing retraction is returned; versions read since then get a retraction of their own. Raises
    NoSuchSourceError.
    """
    # Two retractions can concern the same source: each must see the other.
    await take_exclusive_retraction_lock(session, scope.agent_id)
    source_id = _parse_id(reference)
    sources = await _find_sources(session, scope, reference, source_id)
    if not sources:
        raise NoSuchSourceError(f"no page was read at {reference!r}")
    active = await _active_retractions(session, sources, source_id)
    remaining = [version_id for version_id in sources if version_id not in active]
    if not remaining:
        return active[next(iter(sources))]
    now = await database_time(session)
    retraction = Retraction(
        id=uuid4(),
        agent_id=scope.agent_id,
        url=sources[remaining[0]],
        source_id=source_id,
        reason=reason,
        created_at=now,
        due_at=now,
    )
    session.add(retraction)
    await session.flush()
    session.add_all(
        RetractedSource(
            retraction_id=retraction.id, source_id=version_id, is_due=True, through=None
        )
        for version_id in remaining
    )
    await session.flush()
    await _update_sources(session, remaining)
    return retraction.id


async def restore_source(session: AsyncSession, scope: GraphScope, retraction_id: UUID) -> bool:
    """Undo a retraction; repeating it has no effect. Returns False if the agent has none of that id."""
    await take_exclusive_retraction_lock(session, scope.agent_id)
    retraction = await session.scalar(
        select(Retraction)
        .where(Retraction.id == retraction_id, Retraction.agent_id == scope.owned_agent_id())
        .with_for_update()
        .execution_options(populate_existing=True)
    )
    if retraction is None:
        return False
    if retraction.restored_at is None:
        retraction.restored_at = retraction.due_at = await database_time(session)
        await session.flush()
        sources = await session.scalars(
            update(RetractedSource)
            .where(RetractedSource.retraction_id == retraction_id)
            .values(is_due=True, through=None)
            .returning(RetractedSource.source_id)
            .execution_options(synchronize_session=False)
        )
        await _update_sources(session, sources.all())
    return True


async def _update_sources(session: AsyncSession, source_ids: Sequence[UUID]) -> None:
    """Write the effect of the active retractions to the sources; the oldest one gives the reason."""
    active = (
        select(Retraction.created_at, Retraction.reason)
        .join(RetractedSource, RetractedSource.retraction_id == Retraction.id)
        .where(RetractedSource.source_id == Source.id, Retraction.restored_at.is_(None))
        .order_by(Retraction.created_at, Retraction.id)
        .limit(1)
    )
    for source_id in sorted(source_ids):
        await session.execute(
            update(Source)
            .where(Source.id == source_id)
            .values(
                retracted_at=active.with_only_columns(Retraction.created_at).scalar_subquery(),
                retraction_reason=active.with_only_columns(Retraction.reason).scalar_subquery(),
            )
            .execution_options(synchronize_session=False)
        )


async def _find_sources(
    session: AsyncSession, scope: GraphScope, reference: str, source_id: UUID | None
) -> dict[UUID, str]:
    """URL by id of the referenced sources, the most recently fetched first."""
    is_referenced = Source.url == reference if source_id is None else Source.id == source_id
    rows = await session.execute(
        select(Source.id, Source.url)
        .where(Source.agent_id == scope.owned_agent_id(), is_referenced)
        .order_by(Source.fetched_at.desc(), Source.id)
    )
    return {row.id: row.url for row in rows}


async def _active_retractions(
    session: AsyncSession, sources: Collection[UUID], source_id: UUID | None
) -> dict[UUID, UUID]:
    """By source its active retraction of the same kind: of a URL or of one version."""
    is_of_kind = (
        Retraction.source_id.is_(None) if source_id is None else Retraction.source_id == source_id
    )
    rows = await session.execute(
        select(RetractedSource.source_id, Retraction.id)
        .join(Retraction, Retraction.id == RetractedSource.retraction_id)
        .where(RetractedSource.source_id.in_(sources), is_of_kind, Retraction.restored_at.is_(None))
    )
    return {row.source_id: row.id for row in rows}


def _parse_id(reference: str) -> UUID | None:
    try:
        return UUID(reference)
    except ValueError:
        return None
