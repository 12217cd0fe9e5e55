"""The newest conclusions and the investigation requests of an agent."""

from datetime import datetime
from typing import Final
from uuid import UUID

from sqlalchemy import and_, not_, select, union_all
from sqlalchemy.ext.asyncio import AsyncSession

from shared.database.pagination import Keyset, slice_of
from shared.database.tables import Agent, GraphNode, InvestigationRequest
from shared.graph.conclusions.queries import WORD_OF
from shared.graph.retraction import doubts
from shared.graph.scope import Scope
from shared.schemas.base import Page, View, Wanted
from shared.schemas.conclusions import InvestigationRequestView


class LatestView(View):
    """`word` is `observation` or `pattern`, or `BUY`, `SELL`, `HOLD`."""

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


async def conclusions(session: AsyncSession, scope: Scope, limit: int) -> list[LatestView]:
    """Advice and analyses together, the newest first; each kind is read by itself, as its index has it."""
    of_kinds = [
        select(*COLUMNS)
        .where(GraphNode.agent_id == scope.agent(), GraphNode.type == kind)
        .order_by(GraphNode.updated_at.desc(), GraphNode.id.desc())
        .limit(limit)
        .subquery()
        for kind in WORD_OF
    ]
    both = union_all(*(select(each) for each in of_kinds)).subquery()
    newest = select(both).order_by(both.c.updated_at.desc(), both.c.id.desc()).limit(limit)
    rows = (await session.execute(newest)).all()
    doubted = await doubts.since(session, [row.id for row in rows]) if rows else {}
    return [
        LatestView(
            id=row.id,
            word=row.properties[WORD_OF[row.type]],
            name=row.name,
            summary=row.properties["summary"],
            updated_at=row.updated_at,
            doubted_since=doubted.get(row.id),
        )
        for row in rows
    ]


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
