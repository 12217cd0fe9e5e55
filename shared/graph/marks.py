"""What rests on one page: its quotes in the order of its text, each with the node or edge that it speaks of."""

from typing import Final
from uuid import UUID

from sqlalchemy import select
from sqlalchemy.ext.asyncio import AsyncSession

from shared.graph.scope import Scope
from shared.store.reading import graph
from shared.store.reading.mark_shapes import MarksView, MarkView
from shared.store.tables import Evidence

MOST_TOLD: Final = 500


async def of_source(session: AsyncSession, scope: Scope, source_id: UUID) -> MarksView:
    """Those that stand first in it, MOST_TOLD at most; none where the agent has no such source."""
    rows = (
        await session.scalars(
            select(Evidence)
            .where(Evidence.agent_id == scope.agent(), Evidence.source_id == source_id)
            .order_by(Evidence.first_byte, Evidence.end_byte, Evidence.id)
            .limit(MOST_TOLD + 1)
        )
    ).all()
    told = rows[:MOST_TOLD]
    things = [each.node_id or each.edge_id for each in told]
    names = await graph.named(
        session, scope.owner_id, scope.agent_id, [each for each in things if each is not None]
    )
    marks = [
        MarkView(
            evidence_id=each.id,
            first_byte=each.first_byte,
            end_byte=each.end_byte,
            kind="edge" if each.node_id is None else "node",
            thing_id=thing,
            type=names[thing].type,
            name=names[thing].name,
            claims=each.claims,
        )
        for each, thing in zip(told, things, strict=True)
        if thing is not None and thing in names
    ]
    return MarksView(items=marks, cut=len(rows) > MOST_TOLD)
