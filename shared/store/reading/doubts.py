"""Why a conclusion is in doubt: which page that it rests on is not believed any more, and why not."""

from datetime import datetime
from uuid import UUID

from sqlalchemy import func, select
from sqlalchemy.ext.asyncio import AsyncSession

from shared.store.reading.view import View
from shared.store.tables import Agent, Doubt, Source


class DoubtView(View):
    """A page because of which a conclusion is in doubt."""

    since: datetime
    source_id: UUID
    url: str
    title: str | None
    because: str | None


async def of_conclusion(
    session: AsyncSession, owner_id: UUID, agent_id: UUID, conclusion_id: UUID
) -> list[DoubtView]:
    """The oldest first; none where it is not in doubt, or is not this agent's of the owner's."""
    rows = await session.execute(
        select(func.min(Doubt.since), Source.id, Source.url, Source.title, Source.retracted_because)
        .join(Source, Source.id == Doubt.source_id)
        .join(Agent, Agent.id == Source.agent_id)
        .where(
            Agent.id == agent_id,
            Agent.owner_id == owner_id,
            Doubt.conclusion_id == conclusion_id,
            Doubt.cleared_at.is_(None),
        )
        .group_by(Source.id)
        .order_by(func.min(Doubt.since), Source.id)
    )
    return [
        DoubtView(since=since, source_id=source_id, url=url, title=title, because=because)
        for since, source_id, url, title, because in rows
    ]
