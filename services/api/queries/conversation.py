"""Conversations as their owners see them."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final
from uuid import UUID

from sqlalchemy import ColumnElement, case, select
from sqlalchemy.ext.asyncio import AsyncSession

from shared.database import ids
from shared.database.pagination import Keyset, paginate
from shared.database.tables import Agent, Conversation, Memory, Message, Step
from shared.enums import Role, StepKind, StepStatus
from shared.schemas.base import CitationResponse, Page, PageRequest
from shared.schemas.conversation import (
    MemoryResponse,
    MessageResponse,
    MessageStatus,
    ToolUseResponse,
)
from shared.workflow.leases import is_retry_requested

_MESSAGES = Keyset("messages", (Message.created_at, Message.id))
_MEMORIES = Keyset("memories", (Memory.created_at, Memory.id))
RETRIED: Final = "retried"
_STATUSES: Final[Mapping[str, MessageStatus]] = {
    StepStatus.PLANNED: "waiting",
    StepStatus.PENDING: "pending",
    RETRIED: "pending",
    StepStatus.RUNNING: "writing",
    # An answer is completed before its step. Messages of older workers may be the other way round.
    StepStatus.COMPLETED: "failed",
    StepStatus.FAILED: "failed",
}
LOST: Final = "the work on this answer was deleted; ask the question again"


async def list_messages(
    session: AsyncSession, owner_id: UUID, agent_id: UUID, page_request: PageRequest
) -> Page[MessageResponse]:
    """Lists messages, newest first. Raises InvalidCursorError."""
    statement = select(Message).where(_owned_conversation(owner_id, agent_id))
    page_slice = await paginate(session, statement, _MESSAGES, page_request)
    views = await _views(session, agent_id, [row[0] for row in page_slice.rows])
    return Page(items=views, next=page_slice.next)


async def find_message(
    session: AsyncSession, owner_id: UUID, agent_id: UUID, message_id: UUID
) -> MessageResponse | None:
    """Returns the message, or None where the owner's agent has no such message."""
    row = await session.scalar(
        select(Message)
        .where(_owned_conversation(owner_id, agent_id), Message.id == message_id)
        .execution_options(populate_existing=True)
    )
    return None if row is None else (await _views(session, agent_id, [row]))[0]


async def list_memories(
    session: AsyncSession,
    owner_id: UUID,
    agent_id: UUID,
    page_request: PageRequest,
    *,
    forgotten: bool,
) -> Page[MemoryResponse]:
    """Lists memories, newest first: the active or the forgotten ones. Raises InvalidCursorError."""
    owned_agent = select(Agent.id).where(Agent.id == agent_id, Agent.owner_id == owner_id)
    forgotten_at = Memory.forgotten_at
    statement = select(Memory).where(
        Memory.agent_id == owned_agent.scalar_subquery(),
        forgotten_at.is_not(None) if forgotten else forgotten_at.is_(None),
    )
    page_slice = await paginate(session, statement, _MEMORIES, page_request)
    return page_slice.page(MemoryResponse.model_validate)


def step_id_of_turn(agent_id: UUID, turn: int) -> UUID:
    """Returns the id of the step that answers the turn."""
    return ids.step_id(agent_id, StepKind.CONVERSE, turn)


def answer_status(*, is_complete: bool, step: str | None) -> MessageStatus:
    """Returns the status of an answer from its completion and its step's status; None without a step."""
    if is_complete:
        return "complete"
    return "failed" if step is None else _STATUSES[step]


def step_status() -> ColumnElement[str | None]:
    """Selects the status of a step, or RETRIED where it failed and a retry is requested."""
    return case((is_retry_requested(), RETRIED), else_=Step.status)


def _owned_conversation(owner_id: UUID, agent_id: UUID) -> ColumnElement[bool]:
    owned_conversation = (
        select(Conversation.id)
        .join(Agent, Agent.id == Conversation.agent_id)
        .where(Agent.id == agent_id, Agent.owner_id == owner_id)
    )
    return Message.conversation_id == owned_conversation.scalar_subquery()


async def _views(
    session: AsyncSession, agent_id: UUID, rows: Sequence[Message]
) -> list[MessageResponse]:
    turns = {row.id: row.turn for row in rows if row.turn and row.role == Role.AGENT}
    steps = await _steps(session, [step_id_of_turn(agent_id, turn) for turn in turns.values()])
    return [
        _view(row, steps.get(step_id_of_turn(agent_id, turns[row.id]), _NO_STEP))
        if row.id in turns
        else _view(row, None)
        for row in rows
    ]


@dataclass(frozen=True)
class _StepFacts:
    """The columns of a step that its answer shows."""

    status: str | None
    error: str | None


_NO_STEP: Final = _StepFacts(None, LOST)


async def _steps(session: AsyncSession, step_ids: Sequence[UUID]) -> dict[UUID, _StepFacts]:
    rows = await session.execute(
        select(Step.id, step_status(), Step.error).where(Step.id.in_(step_ids))
    )
    return {step_id: _StepFacts(status, error) for step_id, status, error in rows}


def _view(row: Message, step: _StepFacts | None) -> MessageResponse:
    """Builds the view of a message. `step` is None for messages that are no answers."""
    is_complete = step is None or row.completed_at is not None
    kind = "answer" if step else "advice" if row.role == Role.AGENT else "question"
    return MessageResponse.model_validate(
        {
            "id": row.id,
            "kind": kind,
            "role": row.role,
            "turn": row.turn,
            "status": answer_status(is_complete=is_complete, step=step.status if step else None),
            "content": row.content,
            "tool_uses": [ToolUseResponse.model_validate(item) for item in row.tool_uses],
            "citations": [CitationResponse.model_validate(citation) for citation in row.citations],
            "error": None if is_complete or step is None else step.error,
            "node_id": row.node_id,
            "created_at": row.created_at,
            "completed_at": row.completed_at if step else row.created_at,
        }
    )
