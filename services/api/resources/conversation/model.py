"""Conversations as their owners see them."""

from collections.abc import Mapping, Sequence
from typing import Any, Final
from uuid import UUID

from sqlalchemy import ColumnElement, Select, and_, case, select

from services.api.auth.dependencies import OwnedAgent
from services.api.http.dependencies import Page, PageQuery
from services.api.reading import columns_of, paginate_rows, read_page
from shared.database import ids
from shared.database.pagination import Keyset
from shared.database.tables import Agent, Conversation, Memory, Message, Step
from shared.database.transaction import Transaction
from shared.enums import Role, StepKind, StepStatus
from shared.schemas.conversation import MemoryResponse, MessageResponse, MessageStatus

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


async def list_messages(access: OwnedAgent, page_request: PageQuery) -> Page[MessageResponse]:
    """Lists messages, newest first: questions, answers as far as they are written, and advice."""
    session, agent_id = access.session, access.agent.id
    statement = _select_messages(access.owner_id, agent_id)
    rows, following = await paginate_rows(session, statement, _MESSAGES, page_request)
    return Page(items=await _views(session, agent_id, rows), next=following)


async def find_message(
    session: Transaction, owner_id: UUID, agent_id: UUID, message_id: UUID
) -> MessageResponse | None:
    """Returns the message, or None where the owner's agent has no such message."""
    statement = _select_messages(owner_id, agent_id).where(Message.id == message_id)
    rows = (await session.execute(statement)).mappings()
    views = await _views(session, agent_id, [dict(row) for row in rows])
    return views[0] if views else None


async def list_memories(
    access: OwnedAgent, page_request: PageQuery, forgotten: bool = False
) -> Page[MemoryResponse]:
    """Lists memories, newest first; with `forgotten`, the forgotten ones."""
    statement = select(*columns_of(Memory, MemoryResponse)).where(
        Memory.agent_id == access.scope.owned_agent_id(),
        Memory.forgotten_at.is_not(None) if forgotten else Memory.forgotten_at.is_(None),
    )
    return await read_page(access.session, MemoryResponse, statement, _MEMORIES, page_request)


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
    is_retry_requested = and_(
        Step.status == StepStatus.FAILED, Step.retry_requested_at > Step.ended_at
    )
    return case((is_retry_requested, RETRIED), else_=Step.status)


_MESSAGE: Final = columns_of(Message, MessageResponse)


def _select_messages(owner_id: UUID, agent_id: UUID) -> Select[*tuple[Any, ...]]:
    owned_conversation = (
        select(Conversation.id)
        .join(Agent, Agent.id == Conversation.agent_id)
        .where(Agent.id == agent_id, Agent.owner_id == owner_id)
    )
    return select(*_MESSAGE).where(Message.conversation_id == owned_conversation.scalar_subquery())


async def _views(
    session: Transaction, agent_id: UUID, rows: Sequence[Mapping[str, Any]]
) -> list[MessageResponse]:
    turns = [row["turn"] for row in rows if row["turn"] and row["role"] == Role.AGENT]
    steps_by_turn = {turn: step_id_of_turn(agent_id, turn) for turn in turns}
    found = await session.execute(
        select(Step.id, step_status(), Step.error).where(Step.id.in_(steps_by_turn.values()))
    )
    steps = {step_id: (status, error) for step_id, status, error in found}
    views = []
    for row in rows:
        facts: dict[str, Any] = {"status": "complete", "error": None}
        if row["role"] != Role.AGENT:
            facts |= {"kind": "question", "completed_at": row["created_at"]}
        elif not row["turn"]:
            facts |= {"kind": "advice", "completed_at": row["created_at"]}
        else:
            status, error = steps.get(steps_by_turn[row["turn"]], (None, LOST))
            is_complete = row["completed_at"] is not None
            facts["kind"] = "answer"
            facts["status"] = answer_status(is_complete=is_complete, step=status)
            facts["error"] = None if is_complete else error
        views.append(MessageResponse.model_validate({**row, **facts}))
    return views
