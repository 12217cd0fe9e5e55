"""A conversation as its owner sees it."""

from collections.abc import Iterable, Mapping, Sequence
from uuid import UUID

from sqlalchemy import ColumnElement, select
from sqlalchemy.ext.asyncio import AsyncSession

from shared.store import ids
from shared.store.reading.conversation_shapes import (
    LookView,
    MemoryView,
    MessageStatus,
    MessageView,
)
from shared.store.reading.keyset import Keyset, slice_of
from shared.store.reading.page import Page, Wanted
from shared.store.reading.shapes import CitationView
from shared.store.tables import Agent, Conversation, Memory, Message, Step
from shared.store.words import Role, StepKind, StepStatus

_MESSAGES = Keyset("messages", (Message.created_at, Message.id))
_MEMORIES = Keyset("memories", (Memory.created_at, Memory.id))
_UNDER_WAY: Mapping[StepStatus, MessageStatus] = {
    StepStatus.PLANNED: "waiting",
    StepStatus.PENDING: "pending",
    StepStatus.RUNNING: "writing",
}
LOST = "the work on this answer is not there any more; ask again"


async def messages(
    session: AsyncSession, owner_id: UUID, agent_id: UUID, wanted: Wanted
) -> Page[MessageView]:
    """The newest first. Raises BadCursorError."""
    statement = select(Message).where(_of(owner_id, agent_id))
    found = await slice_of(session, statement, _MESSAGES, wanted)
    views = await _views(session, agent_id, [row[0] for row in found.rows])
    return Page(items=views, next=found.next)


async def find(
    session: AsyncSession, owner_id: UUID, agent_id: UUID, message_id: UUID
) -> MessageView | None:
    """None where this agent of the owner's has no such message."""
    row = await session.scalar(
        select(Message)
        .where(_of(owner_id, agent_id), Message.id == message_id)
        .execution_options(populate_existing=True)
    )
    return None if row is None else (await _views(session, agent_id, [row]))[0]


async def memories(
    session: AsyncSession, owner_id: UUID, agent_id: UUID, wanted: Wanted, *, forgotten: bool
) -> Page[MemoryView]:
    """The newest first; those that were forgotten, or those that were not. Raises BadCursorError."""
    owned = select(Agent.id).where(Agent.id == agent_id, Agent.owner_id == owner_id)
    at = Memory.forgotten_at
    statement = select(Memory).where(
        Memory.agent_id == owned.scalar_subquery(),
        at.is_not(None) if forgotten else at.is_(None),
    )
    found = await slice_of(session, statement, _MEMORIES, wanted)
    return found.page(MemoryView.model_validate)


def step_of(agent_id: UUID, turn: int) -> UUID:
    """The id of the step that answers that turn."""
    return ids.step_id(agent_id, StepKind.CONVERSE, turn)


def status_of(*, is_complete: bool, step: Step | None) -> tuple[MessageStatus, str | None]:
    """How an answer is doing, and the error that it failed on or is tried again after."""
    if is_complete:
        return "complete", None
    if step is None:
        return "failed", LOST
    if step.status == StepStatus.FAILED and not _to_be_retried(step):
        return "failed", step.error
    return _UNDER_WAY.get(StepStatus(step.status), "pending"), step.error


def _to_be_retried(step: Step) -> bool:
    asked, ended = step.retry_requested_at, step.ended_at
    return asked is not None and ended is not None and asked > ended


def _of(owner_id: UUID, agent_id: UUID) -> ColumnElement[bool]:
    owned = (
        select(Conversation.id)
        .join(Agent, Agent.id == Conversation.agent_id)
        .where(Agent.id == agent_id, Agent.owner_id == owner_id)
    )
    return Message.conversation_id == owned.scalar_subquery()


async def _views(
    session: AsyncSession, agent_id: UUID, rows: Sequence[Message]
) -> list[MessageView]:
    steps = await _steps(session, (step_of(agent_id, row.turn) for row in rows if row.turn))
    return [
        _view(row, steps.get(step_of(agent_id, row.turn)) if row.turn else None) for row in rows
    ]


async def _steps(session: AsyncSession, step_ids: Iterable[UUID]) -> dict[UUID, Step]:
    found = await session.scalars(
        select(Step).where(Step.id.in_(set(step_ids))).execution_options(populate_existing=True)
    )
    return {step.id: step for step in found}


def _view(row: Message, step: Step | None) -> MessageView:
    is_answer = row.role == Role.AGENT and row.turn is not None
    status, error = status_of(is_complete=not is_answer or row.completed_at is not None, step=step)
    kind = "answer" if is_answer else "advice" if row.role == Role.AGENT else "question"
    return MessageView.model_validate(
        {
            "id": row.id,
            "kind": kind,
            "role": row.role,
            "turn": row.turn,
            "status": status,
            "content": row.content,
            "looked": [LookView.model_validate(each) for each in row.looked],
            "citations": [CitationView.model_validate(each) for each in row.citations],
            "error": error,
            "node_id": row.node_id,
            "created_at": row.created_at,
            "completed_at": row.completed_at if is_answer else row.created_at,
        }
    )
