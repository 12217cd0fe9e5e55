"""Memories: preferences and facts that an agent's owner stated. Each is stored once."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final
from uuid import UUID

from sqlalchemy import bindparam, func, select, update

from shared.database import ids
from shared.database.statements import BoundQuery, CompiledStatement, Executor
from shared.database.tables import Memory
from shared.database.transaction import Transaction
from shared.enums import MemoryKind
from shared.errors import VigilError

MAX_ACTIVE = 200
MAX_MEMORY_CHARS = 500

_ACTIVE: Final = CompiledStatement(
    select(Memory.kind, Memory.content)
    .where(Memory.agent_id == bindparam("of_agent"), Memory.forgotten_at.is_(None))
    .order_by(Memory.created_at.desc(), Memory.id)
    .limit(MAX_ACTIVE)
)

_COUNT: Final = CompiledStatement("""
select count(*) as count, coalesce(bool_or(id = :of_memory), false) as is_active
from memories where agent_id = :of_agent and forgotten_at is null
""")
_REMEMBER: Final = CompiledStatement("""
insert into memories (id, agent_id, kind, content, message_id)
values (:id, :agent_id, :kind, :content, :message_id)
on conflict (id) do update set forgotten_at = null, message_id = excluded.message_id
""")


@dataclass(frozen=True)
class MemoryContent:
    """The content of a memory."""

    kind: str
    content: str


class TooManyMemoriesError(VigilError):
    """The agent has MAX_ACTIVE memories. One must be forgotten first."""


async def remember(
    transaction: Executor,
    agent_id: UUID,
    kind: MemoryKind,
    content: str,
    *,
    message_id: UUID | None = None,
) -> UUID:
    """Stores a memory and returns its id. The same content is the same memory; a forgotten one becomes active again.

    Raises TooManyMemoriesError.
    """
    memory_id = ids.memory_id(agent_id, kind, content.casefold())
    found = await _COUNT.row(transaction, {"of_agent": agent_id, "of_memory": memory_id})
    if found.is_active:
        return memory_id
    if found.count >= MAX_ACTIVE:
        raise TooManyMemoriesError
    values = {
        "id": memory_id,
        "agent_id": agent_id,
        "kind": kind,
        "content": content,
        "message_id": message_id,
    }
    await _REMEMBER.run(transaction, values)
    return memory_id


async def forget(transaction: Transaction, agent_id: UUID, memory_id: UUID) -> bool:
    """Deactivates a memory and returns whether the agent has it. The row stays, with the first time of forgetting."""
    forgotten_id = await transaction.scalar(
        update(Memory)
        .where(Memory.id == memory_id, Memory.agent_id == agent_id)
        .values(forgotten_at=func.coalesce(Memory.forgotten_at, func.clock_timestamp()))
        .returning(Memory.id)
    )
    return forgotten_id is not None


def list_active(agent_id: UUID) -> BoundQuery[Sequence[MemoryContent]]:
    """Returns the active memories, newest first."""
    return BoundQuery(
        _ACTIVE, {"of_agent": agent_id}, lambda rows: [MemoryContent(*row) for row in rows]
    )


def format_lines(memories: Sequence[MemoryContent]) -> list[str]:
    """Formats memories for a prompt, one line each."""
    return [f"- {memory.kind}: {' '.join(memory.content.split())}" for memory in memories]
