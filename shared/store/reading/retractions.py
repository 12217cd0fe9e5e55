"""The pages that are not believed."""

from typing import Final
from uuid import UUID

from sqlalchemy import ScalarSelect, Select, func, select
from sqlalchemy.ext.asyncio import AsyncSession

from shared.store.reading.keyset import Keyset, slice_of
from shared.store.reading.page import Page, Wanted
from shared.store.reading.retraction_shapes import RetractionView
from shared.store.tables import Agent, Doubt, Evidence, GraphNode, RetractedSource, Retraction
from shared.store.words import ADVICE_TYPE, ANALYSIS_TYPE

BEFORE_ALL: Final = UUID(int=0)
"""Less than any id that is given."""
_NEWEST = Keyset("retractions", (Retraction.created_at, Retraction.id))


async def of_agent(
    session: AsyncSession,
    owner_id: UUID,
    agent_id: UUID,
    wanted: Wanted,
    *,
    standing: bool | None = None,
    source: str | None = None,
) -> Page[RetractionView]:
    """The newest first. `source` is a URL or a source's id."""
    statement = _retractions(owner_id, agent_id)
    if standing is not None:
        statement = statement.where(Retraction.restored_at.is_(None) == standing)
    if source is not None:
        meant = Retraction.url == source
        if (source_id := _as_id(source)) is not None:
            meant = Retraction.source_id == source_id
        statement = statement.where(meant)
    return (await slice_of(session, statement, _NEWEST, wanted)).page(_view)


async def find(
    session: AsyncSession, owner_id: UUID, agent_id: UUID, retraction_id: UUID
) -> RetractionView | None:
    """None where the agent has none of that id."""
    statement = _retractions(owner_id, agent_id).where(Retraction.id == retraction_id)
    found = (
        await session.execute(statement.execution_options(populate_existing=True))
    ).one_or_none()
    return None if found is None else _view(*found)


def _retractions(owner_id: UUID, agent_id: UUID) -> Select[Retraction, int, int, int, int]:
    counted = (
        select(func.count())
        .where(RetractedSource.retraction_id == Retraction.id)
        .correlate(Retraction)
        .scalar_subquery()
    )
    in_doubt = (_in_doubt(ANALYSIS_TYPE), _in_doubt(ADVICE_TYPE))
    return select(Retraction, counted, _left(), *in_doubt).where(
        Retraction.agent_id == _owned(owner_id, agent_id)
    )


def _left() -> ScalarSelect[int]:
    done = func.coalesce(RetractedSource.through, BEFORE_ALL)
    return (
        select(func.count(Evidence.id))
        .join(RetractedSource, RetractedSource.source_id == Evidence.source_id)
        .where(
            RetractedSource.retraction_id == Retraction.id,
            RetractedSource.is_due,
            Evidence.id > done,
        )
        .correlate(Retraction)
        .scalar_subquery()
    )


def _in_doubt(type_name: str) -> ScalarSelect[int]:
    return (
        select(func.count(Doubt.conclusion_id.distinct()))
        .join(RetractedSource, RetractedSource.source_id == Doubt.source_id)
        .join(GraphNode, GraphNode.id == Doubt.conclusion_id)
        .where(
            RetractedSource.retraction_id == Retraction.id,
            Doubt.cleared_at.is_(None),
            GraphNode.type == type_name,
        )
        .correlate(Retraction)
        .scalar_subquery()
    )


def _owned(owner_id: UUID, agent_id: UUID) -> ScalarSelect[UUID]:
    """The agent's id; null where it is not the owner's."""
    owned = select(Agent.id).where(Agent.id == agent_id, Agent.owner_id == owner_id)
    return owned.scalar_subquery()


def _view(row: Retraction, counted: int, left: int, analyses: int, advice: int) -> RetractionView:
    return RetractionView(
        id=row.id,
        url=row.url,
        source_id=row.source_id,
        because=row.because,
        created_at=row.created_at,
        restored_at=row.restored_at,
        is_pending=row.due_at is not None,
        left=left,
        sources=counted,
        analyses=analyses,
        advice=advice,
    )


def _as_id(reference: str) -> UUID | None:
    try:
        return UUID(reference)
    except ValueError:
        return None
