"""Conversations as their owners see them: messages, answers, and memories."""

from collections.abc import Mapping, Sequence
from typing import Annotated, Any, Final
from uuid import UUID

from pydantic import BaseModel, ConfigDict
from sqlalchemy import ColumnElement, Select, and_, case, select, update

from services.api.auth.dependencies import AgentAccess, OwnedAgent
from services.api.http.dependencies import Page, PageQuery, PublishAfterCommit
from services.api.http.problem_details import ConflictError, NotFoundError
from services.api.http.texts import length_in_schema, trimmed
from services.api.reading import columns_of, paginate_rows, read_page
from shared import derived_events
from shared.agents import conversations, memories
from shared.agents.conversations import MAX_OPEN_TURNS, TooManyOpenTurns
from shared.agents.memories import TooManyMemoriesError
from shared.database import ids
from shared.database.pagination import Keyset
from shared.database.tables import Agent, Conversation, DeadLetter, Memory, Message, Step
from shared.database.transaction import Transaction
from shared.enums import MemoryKind, Role, StepKind, StepStatus
from shared.schemas.conversation import (
    ConversationTurn,
    MemoryResponse,
    MessageResponse,
    MessageStatus,
)
from shared.workflow import dead_letters
from shared.workflow.dead_letters import MODEL_RESPONSE_CODES
from shared.workflow.iterations import database_time

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


MAX_MESSAGE_CHARS: Final = 8_000


class NewMessage(BaseModel):
    """A message to the agent."""

    model_config = ConfigDict(extra="forbid")

    content: Annotated[str, trimmed(MAX_MESSAGE_CHARS), length_in_schema(1, MAX_MESSAGE_CHARS)]


async def ask_question(
    access: AgentAccess, content: str, afterwards: PublishAfterCommit
) -> ConversationTurn:
    """Adds a turn to the conversation, and requests its answer. Raises ProblemError."""
    agent_id = access.agent.id
    step = await conversations.add_question(access.session, agent_id, content)
    if step is None:
        raise NotFoundError("agent", agent_id)
    if isinstance(step, TooManyOpenTurns):
        raise ConflictError(
            "too-many-unanswered",
            f"{MAX_OPEN_TURNS} messages are waiting for answers. Wait until some are answered, then send this one.",
        )
    if step.status == StepStatus.PENDING:
        afterwards.publish(derived_events.agent_task_event(step))
    return ConversationTurn(
        question=await show_message(access, ids.question_id(agent_id, step.index)),
        answer=await show_message(access, ids.answer_id(agent_id, step.index)),
    )


async def show_message(access: OwnedAgent, message_id: UUID) -> MessageResponse:
    message = await find_message(access.session, access.owner_id, access.agent.id, message_id)
    if message is None:
        raise NotFoundError("message", message_id)
    return message


async def retry_message(access: OwnedAgent, message_id: UUID) -> MessageResponse:
    """Retries a failed answer; it may take a second to start. Repeated requests count once."""
    # The scheduler starts it, as it does for dead letters. Responses that were received and paid for are reused.
    answer = await show_message(access, message_id)
    if answer.status != "failed" or answer.turn is None:
        raise ConflictError(
            "not-failed",
            f"This {answer.kind} is {answer.status}: only failed answers can be retried.",
        )
    session, step_id = access.session, step_id_of_turn(access.agent.id, answer.turn)
    letter_of_step = select(DeadLetter.id, DeadLetter.code).where(DeadLetter.step_id == step_id)
    dead_letter = (await session.execute(letter_of_step)).first()
    if dead_letter is not None and dead_letter.code in MODEL_RESPONSE_CODES:
        raise ConflictError(
            "not-retried",
            "The stored response of the model would fail again. Rephrase the question, then send it.",
        )
    if dead_letter is not None:
        await dead_letters.request_retries(session, [dead_letter.id])
    elif not await _request_step_retry(session, step_id):
        raise ConflictError(
            "not-retried", "The work on this answer was deleted. Ask the question again."
        )
    return await show_message(access, message_id)


async def _request_step_retry(session: Transaction, step_id: UUID) -> bool:
    """Requests the retry of a step whose dead letter was discarded."""
    retry_requested_at = await session.scalar(
        update(Step)
        .where(Step.id == step_id)
        .values(retry_requested_at=await database_time(session))
        .returning(Step.id)
    )
    return retry_requested_at is not None


class NewMemory(BaseModel):
    """A memory of the agent: a wish influences its plans, a fact is background knowledge."""

    model_config = ConfigDict(extra="forbid")

    kind: MemoryKind = MemoryKind.WISH
    content: Annotated[
        str,
        trimmed(memories.MAX_MEMORY_CHARS, is_line=True),
        length_in_schema(1, memories.MAX_MEMORY_CHARS),
    ]


async def add_memory(access: AgentAccess, new_memory: NewMemory) -> MemoryResponse:
    """Stores a memory. Raises ConflictError where the limit of memories is reached."""
    try:
        memory_id = await memories.remember(
            access.session, access.agent.id, new_memory.kind, new_memory.content
        )
    except TooManyMemoriesError as error:
        raise ConflictError(
            "too-many-memories",
            f"The agent has {memories.MAX_ACTIVE} memories, the maximum. Delete one first.",
        ) from error
    row = await access.session.get_one(Memory, memory_id)
    return MemoryResponse.model_validate(row)


async def forget_memory(access: OwnedAgent, memory_id: UUID) -> None:
    """Removes a memory from later plans."""
    if not await memories.forget(access.session, access.agent.id, memory_id):
        raise NotFoundError("memory", memory_id)
