"""Investigation requests page by page."""

from uuid import UUID

from sqlalchemy import and_, not_, select
from sqlalchemy.ext.asyncio import AsyncSession

from shared.store.reading.investigation_shapes import InvestigationRequestView
from shared.store.reading.keyset import Keyset, slice_of
from shared.store.reading.page import Page, Wanted
from shared.store.tables import Agent, InvestigationRequest

_NEWEST = Keyset(
    "investigation-requests", (InvestigationRequest.created_at, InvestigationRequest.id)
)
_IS_OPEN = and_(
    InvestigationRequest.answered_at.is_(None), InvestigationRequest.dropped_at.is_(None)
)


async def of_agent(
    session: AsyncSession,
    owner_id: UUID,
    agent_id: UUID,
    wanted: Wanted,
    *,
    is_open: bool | None = None,
) -> Page[InvestigationRequestView]:
    """The newest first; those that are open, or that are not, where it is given. Raises BadCursorError."""
    owned = select(Agent.id).where(Agent.id == agent_id, Agent.owner_id == owner_id)
    of_agent = InvestigationRequest.agent_id == owned.scalar_subquery()
    statement = select(InvestigationRequest).where(of_agent)
    if is_open is not None:
        statement = statement.where(_IS_OPEN if is_open else not_(_IS_OPEN))
    found = await slice_of(session, statement, _NEWEST, wanted)
    return found.page(InvestigationRequestView.model_validate)
