"""What an agent was told by its owner and keeps: wishes and facts, each once."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final
from uuid import UUID

from sqlalchemy import bindparam, func, select, update
from sqlalchemy.dialects.postgresql import insert
from sqlalchemy.ext.asyncio import AsyncSession

from shared.database import ids
from shared.database.statements import Direct
from shared.database.tables import Memory
from shared.enums import MemoryKind
from shared.errors import VigilError

MAX_ACTIVE = 200
MAX_CHARACTERS = 500

_ACTIVE: Final = Direct(
    select(Memory.kind, Memory.content)
    .where(Memory.agent_id == bindparam("of_agent"), Memory.forgotten_at.is_(None))
    .order_by(Memory.created_at.desc(), Memory.id)
    .limit(MAX_ACTIVE)
)


@dataclass(frozen=True)
class Kept:
    """What a memory says."""

    kind: str
    content: str


class TooManyMemoriesError(VigilError):
    """So many are remembered that one has to be forgotten first."""


async def remember(
    session: AsyncSession,
    agent_id: UUID,
    kind: MemoryKind,
    content: str,
    *,
    message_id: UUID | None = None,
) -> UUID:
    """The memory's id. The same thing said again is the same memory; one that was forgotten is active again.

    Raises TooManyMemoriesError.
    """
    memory_id = ids.memory_id(agent_id, kind, content.casefold())
    known = select(Memory.id).where(Memory.id == memory_id, Memory.forgotten_at.is_(None))
    if await session.scalar(known) is not None:
        return memory_id
    active = select(func.count()).where(Memory.agent_id == agent_id, Memory.forgotten_at.is_(None))
    if (await session.scalar(active) or 0) >= MAX_ACTIVE:
        raise TooManyMemoriesError
    told = insert(Memory).values(
        id=memory_id, agent_id=agent_id, kind=kind, content=content, message_id=message_id
    )
    await session.execute(
        told.on_conflict_do_update(
            index_elements=[Memory.id],
            set_={"forgotten_at": None, "message_id": message_id},
        )
    )
    return memory_id


async def forget(session: AsyncSession, agent_id: UUID, memory_id: UUID) -> bool:
    """Whether the agent has such a memory. The first forgetting counts; the row stays."""
    found = await session.scalar(
        update(Memory)
        .where(Memory.id == memory_id, Memory.agent_id == agent_id)
        .values(forgotten_at=func.coalesce(Memory.forgotten_at, func.clock_timestamp()))
        .returning(Memory.id)
        .execution_options(synchronize_session=False)
    )
    return found is not None


async def active(session: AsyncSession, agent_id: UUID) -> Sequence[Kept]:
    """What is remembered, the newest first."""
    return [Kept(*row) for row in await _ACTIVE.rows(session, {"of_agent": agent_id})]


def lines(found: Sequence[Kept]) -> list[str]:
    """As they read in a prompt, one line each."""
    return [f"- {memory.kind}: {' '.join(memory.content.split())}" for memory in found]
