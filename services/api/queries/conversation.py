"""A conversation as its owner sees it."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final
from uuid import UUID

from sqlalchemy import ColumnElement, case, select
from sqlalchemy.ext.asyncio import AsyncSession

from shared.database import ids
from shared.database.pagination import Keyset, slice_of
from shared.database.tables import Agent, Conversation, Memory, Message, Step
from shared.enums import Role, StepKind, StepStatus
from shared.schemas.base import CitationView, Page, Wanted
from shared.schemas.conversation import LookView, MemoryView, MessageStatus, MessageView
from shared.workflow.leases import to_be_retried

_MESSAGES = Keyset("messages", (Message.created_at, Message.id))
_MEMORIES = Keyset("memories", (Memory.created_at, Memory.id))
RETRIED: Final = "retried"
_STATUSES: Final[Mapping[str, MessageStatus]] = {
    StepStatus.PLANNED: "waiting",
    StepStatus.PENDING: "pending",
    RETRIED: "pending",
    StepStatus.RUNNING: "writing",
    # The answer is completed before its step is; here is one whose message an older worker wrote.
    StepStatus.COMPLETED: "failed",
    StepStatus.FAILED: "failed",
}
LOST: Final = "the work on this answer is not there any more; ask again"


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


def status_of(*, is_complete: bool, step: str | None) -> MessageStatus:
    """How an answer is doing, by its own completion and the standing of its step; None where there is no step."""
    if is_complete:
        return "complete"
    return "failed" if step is None else _STATUSES[step]


def standing() -> ColumnElement[str | None]:
    """The status of a step, or RETRIED where it failed and is to be tried again."""
    return case((to_be_retried(), RETRIED), else_=Step.status)


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
    turns = {row.id: row.turn for row in rows if row.turn and row.role == Role.AGENT}
    steps = await _steps(session, [step_of(agent_id, turn) for turn in turns.values()])
    return [
        _view(row, steps.get(step_of(agent_id, turns[row.id]), _GONE))
        if row.id in turns
        else _view(row, None)
        for row in rows
    ]


@dataclass(frozen=True)
class _StepFacts:
    """What of a step its answer shows."""

    standing: str | None
    error: str | None


_GONE: Final = _StepFacts(None, LOST)


async def _steps(session: AsyncSession, step_ids: Sequence[UUID]) -> dict[UUID, _StepFacts]:
    found = await session.execute(
        select(Step.id, standing(), Step.error).where(Step.id.in_(step_ids))
    )
    return {step_id: _StepFacts(stands, error) for step_id, stands, error in found}


def _view(row: Message, step: _StepFacts | None) -> MessageView:
    """`step` is None for what is no answer."""
    is_complete = step is None or row.completed_at is not None
    kind = "answer" if step else "advice" if row.role == Role.AGENT else "question"
    return MessageView.model_validate(
        {
            "id": row.id,
            "kind": kind,
            "role": row.role,
            "turn": row.turn,
            "status": status_of(is_complete=is_complete, step=step.standing if step else None),
            "content": row.content,
            "looked": [LookView.model_validate(each) for each in row.looked],
            "citations": [CitationView.model_validate(each) for each in row.citations],
            "error": None if is_complete or step is None else step.error,
            "node_id": row.node_id,
            "created_at": row.created_at,
            "completed_at": row.completed_at if step else row.created_at,
        }
    )
