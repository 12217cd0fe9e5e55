"""The newest conclusions of an agent, without what they cite: for a page that is read again whenever one comes."""

from datetime import datetime
from typing import Final
from uuid import UUID

from sqlalchemy import select, union_all
from sqlalchemy.ext.asyncio import AsyncSession

from shared.graph import doubts
from shared.graph.concluded import WORD_OF
from shared.graph.scope import Scope
from shared.store.reading.view import View
from shared.store.tables import GraphNode


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
