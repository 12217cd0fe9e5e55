"""The hashes that stand beside what a chain is made of, for whoever wants to compare them himself."""

from collections.abc import Collection
from uuid import UUID

from sqlalchemy import LargeBinary, Select, null, select
from sqlalchemy.ext.asyncio import AsyncSession

from shared.store.reading.view import View
from shared.store.tables import Agent, Evidence, GraphEdge, GraphNode, Source


class HashView(View):
    """In hex."""

    seal: str | None
    """Of the row; None of what was written before there were seals."""
    text_sha256: str | None
    """Of a page's text, or of the quote's bytes; None where there is neither."""


async def of_links(
    session: AsyncSession, owner_id: UUID, agent_id: UUID, ids: Collection[UUID]
) -> dict[UUID, HashView]:
    """Of those of these nodes, edges, quotes and pages that are the owner's agent's."""
    nothing = null().cast(LargeBinary)
    owned = select(Agent.id).where(Agent.id == agent_id, Agent.owner_id == owner_id)
    mine = owned.scalar_subquery()
    statements: list[Select[UUID, bytes | None, bytes | None]] = [
        select(GraphNode.id, GraphNode.seal, nothing).where(
            GraphNode.id.in_(ids), GraphNode.agent_id == mine
        ),
        select(GraphEdge.id, GraphEdge.seal, nothing).where(
            GraphEdge.id.in_(ids), GraphEdge.agent_id == mine
        ),
        select(Evidence.id, Evidence.seal, Evidence.quote_sha256).where(
            Evidence.id.in_(ids), Evidence.agent_id == mine
        ),
        select(Source.id, Source.seal, Source.sha256).where(
            Source.id.in_(ids), Source.agent_id == mine
        ),
    ]
    found: dict[UUID, HashView] = {}
    for statement in statements:
        for link_id, seal, text in await session.execute(statement):
            found[link_id] = HashView(seal=_hex(seal), text_sha256=_hex(text))
    return found


def _hex(digest: bytes | None) -> str | None:
    return None if digest is None else digest.hex()
