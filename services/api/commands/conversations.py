"""Commands of conversations: questions, retries of answers, and memories."""

from http import HTTPStatus
from typing import Annotated, Final
from uuid import UUID

from pydantic import AfterValidator, BaseModel, ConfigDict
from sqlalchemy import select, update

from services.api.auth.dependencies import AgentAccess
from services.api.http.openapi import length_in_schema
from services.api.http.problem_details import ConflictError, NotFoundError, ProblemError
from services.api.resources.conversation import model as reading
from shared.agents import conversations, memories
from shared.agents.conversations import MAX_OPEN_TURNS, TooManyOpenTurns
from shared.agents.memories import TooManyMemoriesError
from shared.database import ids
from shared.database.tables import DeadLetter, Memory, Step
from shared.database.transaction import Transaction
from shared.enums import MemoryKind
from shared.schemas.conversation import ConversationTurn, MemoryResponse, MessageResponse
from shared.workflow import dead_letters
from shared.workflow.dead_letters import MODEL_RESPONSE_CODES
from shared.workflow.iterations import database_time

MAX_MESSAGE_CHARS: Final = 8_000


def _trimmed(text: str, max_chars: int) -> str:
    text = text.strip()
    if not 1 <= len(text) <= max_chars:
        raise ValueError(
            f"enter 1 to {max_chars:,} characters; this text has {len(text):,} characters"
        )
    if "\x00" in text:
        raise ValueError("the character NUL cannot be stored; leave it out")
    return text


def _message(text: str) -> str:
    return _trimmed(text, MAX_MESSAGE_CHARS)


def _memory(text: str) -> str:
    return _trimmed(" ".join(text.split()), memories.MAX_MEMORY_CHARS)


class NewMessage(BaseModel):
    """A message to the agent."""

    model_config = ConfigDict(extra="forbid")

    content: Annotated[str, AfterValidator(_message), length_in_schema(1, MAX_MESSAGE_CHARS)]


class NewMemory(BaseModel):
    """A memory of the agent: a wish influences its plans, a fact is background knowledge."""

    model_config = ConfigDict(extra="forbid")

    kind: MemoryKind = MemoryKind.WISH
    content: Annotated[str, AfterValidator(_memory), length_in_schema(1, memories.MAX_MEMORY_CHARS)]


async def ask_question(access: AgentAccess, content: str) -> tuple[ConversationTurn, Step]:
    """Adds a turn to the conversation.

    Returns the turn, and the step that will answer it. Raises ProblemError.
    """
    agent_id = access.agent.id
    step = await conversations.add_question(access.session, agent_id, content)
    if step is None:
        raise NotFoundError("agent", agent_id)
    if isinstance(step, TooManyOpenTurns):
        raise ConflictError(
            "too-many-unanswered",
            f"{MAX_OPEN_TURNS} messages are waiting for answers. Wait until some are answered, then send this one.",
        )
    question = await get_message(access, ids.question_id(agent_id, step.index))
    answer = await get_message(access, ids.answer_id(agent_id, step.index))
    return ConversationTurn(question=question, answer=answer), step


async def get_message(access: AgentAccess, message_id: UUID) -> MessageResponse:
    """Returns the message. Raises NotFoundError."""
    message = await reading.find_message(
        access.session, access.owner_id, access.agent.id, message_id
    )
    if message is None:
        raise NotFoundError("message", message_id)
    return message


async def retry_answer(access: AgentAccess, message_id: UUID) -> MessageResponse:
    """Requests a retry of a failed answer. The scheduler starts it, as it does for dead letters.

    Responses that were received and paid for are reused. Raises ProblemError.
    """
    answer = await get_message(access, message_id)
    if answer.status != "failed" or answer.turn is None:
        raise ConflictError(
            "not-failed",
            f"This {answer.kind} is {answer.status}: only failed answers can be retried.",
        )
    session, step_id = access.session, reading.step_id_of_turn(access.agent.id, answer.turn)
    dead_letter = await session.scalar(select(DeadLetter).where(DeadLetter.step_id == step_id))
    if dead_letter is not None and dead_letter.code in MODEL_RESPONSE_CODES:
        raise ConflictError(
            "not-retried",
            "The stored response of the model would fail again. Rephrase the question, then send it.",
        )
    if dead_letter is not None:
        await dead_letters.request_retry(session, dead_letter)
    elif not await _request_step_retry(session, step_id):
        raise ConflictError(
            "not-retried", "The work on this answer was deleted. Ask the question again."
        )
    return await get_message(access, message_id)


async def _request_step_retry(session: Transaction, step_id: UUID) -> bool:
    """Requests the retry of a step whose dead letter was discarded."""
    retry_requested_at = await session.scalar(
        update(Step)
        .where(Step.id == step_id)
        .values(retry_requested_at=await database_time(session))
        .returning(Step.id)
    )
    return retry_requested_at is not None


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


async def forget_memory(access: AgentAccess, memory_id: UUID) -> None:
    if not await memories.forget(access.session, access.agent.id, memory_id):
        raise NotFoundError("memory", memory_id)


class UnprocessableError(ProblemError):
    def __init__(self, kind: str, detail: str) -> None:
        super().__init__(HTTPStatus.UNPROCESSABLE_ENTITY, kind, detail)
