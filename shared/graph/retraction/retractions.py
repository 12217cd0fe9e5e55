"""Pages that turn out not to be believed: said at once, and undone at once; what follows is worked off in batches.

`sources.retracted_at` is the truth, by which every fold counts. That what rests on a source is to be folded anew stands
in `retractions.due_at`, with a mark in `retracted_sources` of how far that has come: whoever is killed in between, the
next goes on from there. `shared.graph.retraction.propagation` does that work.
"""

from collections.abc import Collection, Sequence
from typing import Final
from uuid import UUID, uuid4

from sqlalchemy import func, select, update
from sqlalchemy.ext.asyncio import AsyncSession

from shared.database.tables import RetractedSource, Retraction, Source
from shared.errors import VigilError
from shared.graph.scope import Scope
from shared.workflow.iterations import clock

BEFORE_ALL: Final = UUID(int=0)
"""Less than any id that is given."""


class NoSuchSourceError(VigilError):
    """The agent has read nothing there."""


async def retract(session: AsyncSession, scope: Scope, reference: str, because: str) -> UUID:
    """The id of the retraction of `reference`: a URL, for all versions of it that are kept, or a source's id.

    What is retracted so already stays as it is, and its retraction is given again; versions that were read since are a
    retraction of their own. Raises NoSuchSourceError.
    """
    await _one_at_a_time(session, scope)
    source_id = _as_id(reference)
    sources = await _sources(session, scope, reference, source_id)
    if not sources:
        raise NoSuchSourceError(f"nothing was read at {reference!r}")
    standing = await _standing(session, sources, source_id)
    left = [each for each in sources if each not in standing]
    if not left:
        return standing[next(iter(sources))]
    now = await clock(session)
    made = Retraction(
        id=uuid4(),
        agent_id=scope.agent_id,
        url=sources[left[0]],
        source_id=source_id,
        because=because,
        created_at=now,
        due_at=now,
    )
    session.add(made)
    await session.flush()
    session.add_all(
        RetractedSource(retraction_id=made.id, source_id=each, is_due=True, through=None)
        for each in left
    )
    await session.flush()
    await _mark(session, left)
    return made.id


async def restore(session: AsyncSession, scope: Scope, retraction_id: UUID) -> bool:
    """Undoes a retraction; once is enough. False where the agent has none of that id."""
    await _one_at_a_time(session, scope)
    retraction = await session.scalar(
        select(Retraction)
        .where(Retraction.id == retraction_id, Retraction.agent_id == scope.agent())
        .with_for_update()
        .execution_options(populate_existing=True)
    )
    if retraction is None:
        return False
    if retraction.restored_at is None:
        retraction.restored_at = retraction.due_at = await clock(session)
        await session.flush()
        await _begin_anew(session, retraction.id)
    return True


async def _begin_anew(session: AsyncSession, retraction_id: UUID) -> None:
    sources = await session.scalars(
        update(RetractedSource)
        .where(RetractedSource.retraction_id == retraction_id)
        .values(is_due=True, through=None)
        .returning(RetractedSource.source_id)
        .execution_options(synchronize_session=False)
    )
    await _mark(session, sources.all())


async def _mark(session: AsyncSession, sources: Sequence[UUID]) -> None:
    """Writes into the sources what follows from the retractions that stand; the first of several says why."""
    held = (
        select(Retraction.created_at, Retraction.because)
        .join(RetractedSource, RetractedSource.retraction_id == Retraction.id)
        .where(RetractedSource.source_id == Source.id, Retraction.restored_at.is_(None))
        .order_by(Retraction.created_at, Retraction.id)
        .limit(1)
    )
    for each in sorted(sources):
        await session.execute(
            update(Source)
            .where(Source.id == each)
            .values(
                retracted_at=held.with_only_columns(Retraction.created_at).scalar_subquery(),
                retracted_because=held.with_only_columns(Retraction.because).scalar_subquery(),
            )
            .execution_options(synchronize_session=False)
        )


async def _sources(
    session: AsyncSession, scope: Scope, reference: str, source_id: UUID | None
) -> dict[UUID, str]:
    """The URLs of those that are meant, by their ids; the one read last first."""
    meant = Source.url == reference if source_id is None else Source.id == source_id
    rows = await session.execute(
        select(Source.id, Source.url)
        .where(Source.agent_id == scope.agent(), meant)
        .order_by(Source.fetched_at.desc(), Source.id)
    )
    return {row.id: row.url for row in rows}


async def _standing(
    session: AsyncSession, sources: Collection[UUID], source_id: UUID | None
) -> dict[UUID, UUID]:
    """By source the retraction of this kind, of a URL or of a version, under which it is."""
    of_kind = (
        Retraction.source_id.is_(None) if source_id is None else Retraction.source_id == source_id
    )
    rows = await session.execute(
        select(RetractedSource.source_id, Retraction.id)
        .join(Retraction, Retraction.id == RetractedSource.retraction_id)
        .where(RetractedSource.source_id.in_(sources), of_kind, Retraction.restored_at.is_(None))
    )
    return {row.source_id: row.id for row in rows}


async def _one_at_a_time(session: AsyncSession, scope: Scope) -> None:
    """Two retractions can be of the same source: each must see the other."""
    number = func.hashtextextended(f"retractions {scope.agent_id}", 0)
    await session.execute(select(func.pg_advisory_xact_lock(number)))


def _as_id(reference: str) -> UUID | None:
    try:
        return UUID(reference)
    except ValueError:
        return None
