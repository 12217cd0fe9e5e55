"""Which conclusions cite a node or edge, looked up without reading a text.

The texts are the truth; the table `citations` is written with them. Conclusions that are older than it are found by
having none, for each cites at least one thing, and are entered before they are asked for.
"""

from collections.abc import Collection, Sequence
from typing import Final
from uuid import UUID

from sqlalchemy import exists, select
from sqlalchemy.ext.asyncio import AsyncSession

from shared.graph.citations import parse
from shared.graph.scope import Scope
from shared.graph.type_names import RESERVED_TYPES
from shared.store.direct import Direct
from shared.store.reading import moves
from shared.store.reading.retraction_shapes import CitingView
from shared.store.tables import Citation, GraphNode
from shared.tools import Json

READ_AT_ONCE: Final = 500
MOST_TOLD: Final = 50
# Nothing said of what is there already, or it would ask for the right to read.
_KEEP: Final = Direct(
    "insert into citations (conclusion_id, cited_id)"
    " select :conclusion_id, unnest(cast(:cited as uuid[])) on conflict do nothing"
)


async def keep(session: AsyncSession, conclusion_id: UUID, cited: Collection[UUID]) -> None:
    """What a new conclusion cites."""
    if cited:
        given = {"conclusion_id": conclusion_id, "cited": sorted(set(cited))}
        await _KEEP.run(session, given)


async def keep_older(session: AsyncSession, agent_id: UUID) -> int:
    """Enters what the agent's conclusions cite of which nothing was kept; how many those were."""
    after, entered = UUID(int=0), 0
    while rows := await _without(session, agent_id, after):
        for conclusion_id, told in rows:
            await keep(session, conclusion_id, cited_in(told))
        after, entered = rows[-1][0], entered + len(rows)
    return entered


def cited_in(told: Json) -> list[UUID]:
    """By a conclusion's properties."""
    return parse(str(told.get("content", "")), str(told.get("summary", ""))).ids()


async def citing(session: AsyncSession, scope: Scope, cited_id: UUID) -> list[CitingView]:
    """The agent's conclusions that cite it, or what was merged into it; the newest MOST_TOLD of them."""
    earlier = (await moves.earlier_ids(session, [cited_id])).get(cited_id, [])
    rows = await session.execute(
        select(GraphNode.id, GraphNode.type, GraphNode.name, GraphNode.created_at)
        .join(Citation, Citation.conclusion_id == GraphNode.id)
        .where(GraphNode.agent_id == scope.agent(), Citation.cited_id.in_([cited_id, *earlier]))
        .distinct()
        .order_by(GraphNode.created_at.desc(), GraphNode.id)
        .limit(MOST_TOLD)
    )
    return [CitingView(id=row.id, type=row.type, name=row.name) for row in rows]


async def _without(
    session: AsyncSession, agent_id: UUID, after: UUID
) -> Sequence[tuple[UUID, Json]]:
    kept = exists().where(Citation.conclusion_id == GraphNode.id)
    rows = await session.execute(
        select(GraphNode.id, GraphNode.properties)
        .where(
            GraphNode.agent_id == agent_id,
            GraphNode.type.in_(RESERVED_TYPES),
            GraphNode.id > after,
            ~kept,
        )
        .order_by(GraphNode.id)
        .limit(READ_AT_ONCE)
    )
    return [(row.id, row.properties) for row in rows]
