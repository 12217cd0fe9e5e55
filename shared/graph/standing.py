"""What still stands: which nodes and edges have a page left that speaks for them, and that it stays so for a while."""

from typing import Final
from uuid import UUID

from sqlalchemy import ColumnElement
from sqlalchemy.ext.asyncio import AsyncSession

from shared.store.direct import Direct
from shared.store.tables import GraphEdge, GraphNode

STANDS: Final = "unsupported_since is null"
"""`is_supported`, for statements that are written out."""
_OF: Final = "hashtextextended('what stands ' || cast(:of_agent as text), 0)"
_HOLD_STILL: Final = Direct(f"select pg_advisory_xact_lock_shared({_OF})")
_MOVE: Final = Direct(f"select pg_advisory_xact_lock({_OF})")


def is_supported(thing: type[GraphNode] | type[GraphEdge]) -> ColumnElement[bool]:
    """Whether a page that was not retracted speaks for it; what rests on no page at all stands, too."""
    return thing.unsupported_since.is_(None)


async def hold_still(session: AsyncSession, agent_id: UUID) -> None:
    """Until the transaction ends, no retraction changes what stands: a conclusion is written on what was looked up.

    Take it before any row of the graph is locked.
    """
    await _HOLD_STILL.run(session, {"of_agent": agent_id})


async def make_move(session: AsyncSession, agent_id: UUID) -> None:
    """Waits for those who hold still, and keeps others from it until the transaction ends."""
    await _MOVE.run(session, {"of_agent": agent_id})
