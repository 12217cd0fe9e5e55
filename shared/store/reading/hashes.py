"""The hashes that stand beside what a chain is made of, for whoever wants to compare them himself."""

from collections.abc import Collection
from typing import Any
from uuid import UUID

from sqlalchemy import ColumnElement, LargeBinary, Select, bindparam, null, select
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
    statements = (
        _hashes(GraphNode.id, GraphNode.seal, nothing).where(GraphNode.agent_id == mine),
        _hashes(GraphEdge.id, GraphEdge.seal, nothing).where(GraphEdge.agent_id == mine),
        _hashes(Evidence.id, Evidence.seal, Evidence.quote_sha256).where(Evidence.agent_id == mine),
        _hashes(Source.id, Source.seal, Source.sha256).where(Source.agent_id == mine),
    )
    found: dict[UUID, HashView] = {}
    for statement in statements:
        for link_id, seal, text in await session.execute(statement, {"ids": list(ids)}):
            found[link_id] = HashView(seal=_hex(seal), text_sha256=_hex(text))
    return found


def _hashes(
    link_id: ColumnElement[UUID],
    seal: ColumnElement[bytes | None] | ColumnElement[bytes],
    text: ColumnElement[bytes | None] | ColumnElement[bytes],
) -> Select[Any]:
    return select(link_id, seal, text).where(link_id.in_(bindparam("ids", expanding=True)))


def _hex(digest: bytes | None) -> str | None:
    return None if digest is None else digest.hex()
