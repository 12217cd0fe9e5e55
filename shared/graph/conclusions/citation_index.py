"""Which conclusions cite a node or edge, looked up without reading a text.

The texts are the truth; the table `citations` is written with them. Conclusions that are older than it are found by
having none, for each cites at least one thing, and are entered before they are asked for.
"""

from collections.abc import Collection, Iterable, Sequence
from typing import Final
from uuid import UUID

from sqlalchemy import exists, select
from sqlalchemy.ext.asyncio import AsyncSession

from shared.database.statements import Direct
from shared.database.tables import Citation as CitationRow
from shared.database.tables import GraphNode
from shared.graph import labels
from shared.graph.conclusions.citations import Citation, Kind, parse
from shared.graph.entity_resolution import redirects
from shared.graph.labels import Named
from shared.graph.scope import Scope
from shared.graph.types import RESERVED_TYPES
from shared.schemas.provenance import CitingView
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
    earlier = (await redirects.earlier_ids(session, [cited_id])).get(cited_id, [])
    rows = await session.execute(
        select(GraphNode.id, GraphNode.type, GraphNode.name, GraphNode.created_at)
        .join(CitationRow, CitationRow.conclusion_id == GraphNode.id)
        .where(GraphNode.agent_id == scope.agent(), CitationRow.cited_id.in_([cited_id, *earlier]))
        .distinct()
        .order_by(GraphNode.created_at.desc(), GraphNode.id)
        .limit(MOST_TOLD)
    )
    return [CitingView(id=row.id, type=row.type, name=row.name) for row in rows]


async def _without(
    session: AsyncSession, agent_id: UUID, after: UUID
) -> Sequence[tuple[UUID, Json]]:
    kept = exists().where(CitationRow.conclusion_id == GraphNode.id)
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


async def named(
    session: AsyncSession, scope: Scope, citations: Iterable[Citation]
) -> dict[Citation, Named]:
    """What is cited, by type and name; what this graph has not, or has only as the other kind, is left out."""
    wanted = list(citations)
    ids = {kind: {each.id for each in wanted if each.kind == kind} for kind in Kind}
    whose = scope.owner_id, scope.agent_id
    found = {
        Kind.NODE: await labels.nodes_named(session, *whose, ids[Kind.NODE]),
        Kind.EDGE: await labels.edges_named(session, *whose, ids[Kind.EDGE]),
    }
    return {each: found[each.kind][each.id] for each in wanted if each.id in found[each.kind]}
