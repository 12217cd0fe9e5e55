"""The newest conclusions and the investigation requests of an agent."""

from datetime import datetime
from typing import Final
from uuid import UUID

from sqlalchemy import and_, not_, select, union_all
from sqlalchemy.ext.asyncio import AsyncSession

from shared.database.pagination import Keyset, paginate
from shared.database.tables import Agent, GraphNode, InvestigationRequest
from shared.graph.conclusions.queries import VERDICT_PROPERTIES
from shared.graph.retraction import doubts
from shared.graph.scope import GraphScope
from shared.schemas.base import Page, PageRequest, ResponseModel
from shared.schemas.conclusions import InvestigationRequestResponse


class LatestConclusion(ResponseModel):
    """`word` is the verdict:

    `observation` or `pattern` of an analysis, `BUY`, `SELL` or `HOLD` of advice.
    """

    id: UUID
    word: str
    name: str
    summary: str
    updated_at: datetime
    doubted_since: datetime | None


COLUMNS: Final = (
    GraphNode.id,
    GraphNode.type,
    GraphNode.name,
    GraphNode.properties,
    GraphNode.updated_at,
)


async def newest_conclusions(
    session: AsyncSession, scope: GraphScope, limit: int
) -> list[LatestConclusion]:
    """Returns the newest advice and analyses. Each type is queried by itself, to use its index."""
    of_kinds = [
        select(*COLUMNS)
        .where(GraphNode.agent_id == scope.owned_agent_id(), GraphNode.type == kind)
        .order_by(GraphNode.updated_at.desc(), GraphNode.id.desc())
        .limit(limit)
        .subquery()
        for kind in VERDICT_PROPERTIES
    ]
    united = union_all(*(select(of_kind) for of_kind in of_kinds)).subquery()
    newest = select(united).order_by(united.c.updated_at.desc(), united.c.id.desc()).limit(limit)
    rows = (await session.execute(newest)).all()
    doubted_since = await doubts.doubted_since(session, [row.id for row in rows]) if rows else {}
    return [
        LatestConclusion(
            id=row.id,
            word=row.properties[VERDICT_PROPERTIES[row.type]],
            name=row.name,
            summary=row.properties["summary"],
            updated_at=row.updated_at,
            doubted_since=doubted_since.get(row.id),
        )
        for row in rows
    ]


_NEWEST = Keyset(
    "investigation-requests", (InvestigationRequest.created_at, InvestigationRequest.id)
)
_IS_OPEN = and_(
    InvestigationRequest.answered_at.is_(None), InvestigationRequest.dropped_at.is_(None)
)


async def list_investigation_requests(
    session: AsyncSession,
    owner_id: UUID,
    agent_id: UUID,
    page_request: PageRequest,
    *,
    is_open: bool | None = None,
) -> Page[InvestigationRequestResponse]:
    """Lists investigation requests, newest first; with `is_open`, the open or the closed ones.

    Raises InvalidCursorError.
    """
    owned_agent = select(Agent.id).where(Agent.id == agent_id, Agent.owner_id == owner_id)
    of_agent = InvestigationRequest.agent_id == owned_agent.scalar_subquery()
    statement = select(InvestigationRequest).where(of_agent)
    if is_open is not None:
        statement = statement.where(_IS_OPEN if is_open else not_(_IS_OPEN))
    page_slice = await paginate(session, statement, _NEWEST, page_request)
    return page_slice.page(InvestigationRequestResponse.model_validate)
