"""What people say to an agent: questions, wishes, facts, and that an answer be tried again."""

from http import HTTPStatus
from typing import Annotated, Final
from uuid import UUID

from pydantic import AfterValidator, BaseModel, ConfigDict
from sqlalchemy import select, update
from sqlalchemy.ext.asyncio import AsyncSession

from services.api.auth.dependencies import AgentAccess
from services.api.http.openapi import length_told
from services.api.http.problem_details import ConflictError, NotFoundError, ProblemError
from services.api.queries import conversation as reading
from shared.agents import conversations, memories
from shared.agents.conversations import MAX_OPEN_TURNS, TooManyOpen
from shared.agents.memories import TooManyMemoriesError
from shared.database import ids
from shared.database.tables import DeadLetter, Memory, Step
from shared.enums import MemoryKind
from shared.schemas.conversation import MemoryView, MessageView, TurnView
from shared.workflow import dead_letters
from shared.workflow.dead_letters import ANSWERED
from shared.workflow.iterations import clock

MESSAGE_CHARACTERS: Final = 8_000


def _said(text: str, longest: int) -> str:
    text = text.strip()
    if not 1 <= len(text) <= longest:
        raise ValueError(f"it has {len(text)} characters, and 1 to {longest} can be taken")
    if "\x00" in text:
        raise ValueError("the character NUL cannot be stored; leave it out")
    return text


def _message(text: str) -> str:
    return _said(text, MESSAGE_CHARACTERS)


def _memory(text: str) -> str:
    return _said(" ".join(text.split()), memories.MAX_CHARACTERS)


class NewMessage(BaseModel):
    """What is said to the agent."""

    model_config = ConfigDict(extra="forbid")

    content: Annotated[str, AfterValidator(_message), length_told(1, MESSAGE_CHARACTERS)]


class NewMemory(BaseModel):
    """What the agent is to remember: a wish bears on what it plans, a fact on what it takes for known."""

    model_config = ConfigDict(extra="forbid")

    kind: MemoryKind = MemoryKind.WISH
    content: Annotated[str, AfterValidator(_memory), length_told(1, memories.MAX_CHARACTERS)]


async def ask(access: AgentAccess, content: str) -> tuple[TurnView, Step]:
    """The new turn, and the step that will answer it. Raises ProblemError."""
    agent_id = access.agent.id
    step = await conversations.ask(access.session, agent_id, content)
    if step is None:
        raise NotFoundError("agent", agent_id)
    if isinstance(step, TooManyOpen):
        raise ConflictError(
            "too-many-unanswered",
            f"{MAX_OPEN_TURNS} messages wait for their answers already: wait for some of them.",
        )
    question = await found(access, ids.question_id(agent_id, step.index))
    answer = await found(access, ids.answer_id(agent_id, step.index))
    return TurnView(question=question, answer=answer), step


async def found(access: AgentAccess, message_id: UUID) -> MessageView:
    """Raises NotFoundError."""
    message = await reading.find(access.session, access.owner_id, access.agent.id, message_id)
    if message is None:
        raise NotFoundError("message", message_id)
    return message


async def ask_again(access: AgentAccess, message_id: UUID) -> MessageView:
    """Wishes a failed answer tried again. The scheduler passes the wish on, as it does a dead letter's.

    What was answered and paid for is not asked for again. Raises ProblemError.
    """
    answer = await found(access, message_id)
    if answer.status != "failed" or answer.turn is None:
        raise ConflictError(
            "not-failed", f"This {answer.kind} is {answer.status}: only failed answers are retried."
        )
    session, step_id = access.session, reading.step_of(access.agent.id, answer.turn)
    letter = await session.scalar(select(DeadLetter).where(DeadLetter.step_id == step_id))
    if letter is not None and letter.code in ANSWERED:
        raise ConflictError(
            "not-retried",
            "The model's answer is kept and would be read again: say it anew in other words.",
        )
    if letter is not None:
        await dead_letters.ask_for_retry(session, letter)
    elif not await _wish(session, step_id):
        raise ConflictError("not-retried", "The work on it is not there any more: say it anew.")
    return await found(access, message_id)


async def _wish(session: AsyncSession, step_id: UUID) -> bool:
    """The same without a letter, which somebody has discarded."""
    wished = await session.scalar(
        update(Step)
        .where(Step.id == step_id)
        .values(retry_requested_at=await clock(session))
        .returning(Step.id)
        .execution_options(synchronize_session=False)
    )
    return wished is not None


async def remember(access: AgentAccess, wanted: NewMemory) -> MemoryView:
    """Raises ConflictError where so many are kept that one has to be forgotten first."""
    try:
        memory_id = await memories.remember(
            access.session, access.agent.id, wanted.kind, wanted.content
        )
    except TooManyMemoriesError as error:
        raise ConflictError(
            "too-many-memories",
            f"{memories.MAX_ACTIVE} memories are kept already: forget one of them first.",
        ) from error
    row = await access.session.get_one(Memory, memory_id, populate_existing=True)
    return MemoryView.model_validate(row)


async def forget(access: AgentAccess, memory_id: UUID) -> None:
    if not await memories.forget(access.session, access.agent.id, memory_id):
        raise NotFoundError("memory", memory_id)


class UnprocessableError(ProblemError):
    def __init__(self, kind: str, detail: str) -> None:
        super().__init__(HTTPStatus.UNPROCESSABLE_ENTITY, kind, detail)
