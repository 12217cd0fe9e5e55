"""Conversations: a question is written with the step that answers it; answers are made one after another, in order."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import timedelta
from typing import Any
from uuid import UUID

from sqlalchemy import ColumnElement, func, select, update
from sqlalchemy.dialects.postgresql import insert
from sqlalchemy.ext.asyncio import AsyncSession

from shared.database import ids
from shared.database.tables import Agent, Conversation, Message, Step
from shared.enums import Role, StepKind, StepStatus
from shared.workflow import iterations

MAX_OPEN_TURNS = 20
"""Questions of one conversation that may wait for their answers."""
_UNDER_WAY = (StepStatus.PENDING, StepStatus.RUNNING)


@dataclass(frozen=True)
class Turn:
    """What the owner said, and what the agent answered: None where it has not, or not yet."""

    number: int
    question: str
    answer: str | None


@dataclass(frozen=True)
class TooManyOpen:
    """Nothing was written: so many questions wait already."""


async def ask(session: AsyncSession, agent_id: UUID, content: str) -> Step | TooManyOpen | None:
    """Writes a question, the empty row of its answer, and the step that will fill it. None where the agent is gone.

    The step is planned where an earlier answer is still to be made, and pending otherwise: then tell the bus of it.
    """
    # The agent first: where it is being deleted, this is refused here and not in the middle.
    held = select(Agent.id).where(Agent.id == agent_id).with_for_update(read=True, key_share=True)
    if await session.scalar(held) is None:
        return None
    conversation_id, turn = await _next_turn(session, agent_id)
    open_turns = await _count(session, agent_id, StepStatus.PLANNED, *_UNDER_WAY)
    if open_turns >= MAX_OPEN_TURNS:
        return TooManyOpen()
    now = await iterations.clock(session)
    question_id, answer_id = ids.question_id(agent_id, turn), ids.answer_id(agent_id, turn)
    said = {"conversation_id": conversation_id, "turn": turn}
    session.add_all(
        [
            Message(id=question_id, role=Role.USER, content=content, created_at=now, **said),
            Message(
                id=answer_id,
                role=Role.AGENT,
                content="",
                # Lists are in the order of time, and an answer stands behind its question.
                created_at=now + timedelta(microseconds=1),
                **said,
            ),
        ]
    )
    given = {"question_id": str(question_id), "answer_id": str(answer_id)}
    step = iterations.ordered_step(agent_id, StepKind.CONVERSE, turn, now, given)
    if open_turns:
        step.status, step.requested_at, step.first_requested_at = StepStatus.PLANNED, None, None
    session.add(step)
    await session.flush()
    return step


async def ask_for_next(session: AsyncSession, ended: Step) -> None:
    """Has the next question answered. Call in the transaction that ends the step of the one before."""
    # One after another with `ask`: else it could plan a step behind one that ends at the same time.
    mine = Conversation.agent_id == ended.agent_id
    await session.execute(select(Conversation.id).where(mine).with_for_update())
    others = Step.status.in_(_UNDER_WAY), Step.id != ended.id
    if await session.scalar(select(Step.id).where(*_of(ended.agent_id), *others).limit(1)):
        return
    planned = select(Step.id).where(*_of(ended.agent_id), Step.status == StepStatus.PLANNED)
    next_id = await session.scalar(planned.order_by(Step.index).limit(1))
    if next_id is not None:
        await iterations.ask_for(session, [next_id])


async def asked_next(session: AsyncSession, ended: Step) -> Step | None:
    """The step that `ask_for_next` has asked for, if it has."""
    waiting = Step.status == StepStatus.PENDING, Step.id != ended.id
    return await session.scalar(
        select(Step).where(*_of(ended.agent_id), *waiting).order_by(Step.index).limit(1)
    )


async def of_agent(session: AsyncSession, agent_id: UUID) -> Conversation:
    """The agent's conversation, which has begun."""
    mine = select(Conversation).where(Conversation.agent_id == agent_id)
    return (await session.scalars(mine.execution_options(populate_existing=True))).one()


async def turns(
    session: AsyncSession, agent_id: UUID, *, after: int, before: int, limit: int = 200
) -> list[Turn]:
    """Those between two numbers, both left out, in order; where there are more than `limit`, the last of them."""
    numbers = range(max(after + 1, before - limit), before)
    wanted = [
        make(agent_id, number) for number in numbers for make in (ids.question_id, ids.answer_id)
    ]
    found = await session.scalars(
        select(Message).where(Message.id.in_(wanted)).execution_options(populate_existing=True)
    )
    said = {message.id: message for message in found}
    return [_turn(said, agent_id, number) for number in numbers]


async def write(
    session: AsyncSession,
    answer_id: UUID,
    *,
    draft: int,
    content: str,
    looked: Sequence[dict[str, Any]],
) -> None:
    """The answer as far as it has come."""
    values = {"draft": draft, "content": content, "looked": list(looked)}
    await session.execute(_message(answer_id, values))


async def complete(
    session: AsyncSession, answer_id: UUID, citations: Sequence[dict[str, Any]]
) -> None:
    """The answer is whole. The first time counts."""
    at = func.coalesce(Message.completed_at, func.clock_timestamp())
    await session.execute(_message(answer_id, {"citations": list(citations), "completed_at": at}))


async def summarize(
    session: AsyncSession, conversation: Conversation, summary: str, through: int
) -> None:
    """Takes `summary` in place of the one that `conversation` was read with; where it has a newer one, that stays."""
    await session.execute(
        update(Conversation)
        .where(
            Conversation.id == conversation.id,
            Conversation.summarized_turns == conversation.summarized_turns,
        )
        .values(summary=summary, summarized_turns=through)
        .execution_options(synchronize_session=False)
    )


async def _next_turn(session: AsyncSession, agent_id: UUID) -> tuple[UUID, int]:
    """The conversation's id, its row locked, and the number of its new turn."""
    await session.execute(
        insert(Conversation)
        .values(id=ids.conversation_id(agent_id), agent_id=agent_id)
        .on_conflict_do_nothing()
    )
    counted = await session.execute(
        update(Conversation)
        .where(Conversation.agent_id == agent_id)
        .values(turns=Conversation.turns + 1)
        .returning(Conversation.id, Conversation.turns)
        .execution_options(synchronize_session=False)
    )
    conversation_id, turn = counted.one()
    return conversation_id, turn


async def _count(session: AsyncSession, agent_id: UUID, *statuses: StepStatus) -> int:
    counted = select(func.count()).where(*_of(agent_id), Step.status.in_(statuses))
    return await session.scalar(counted) or 0


def _of(agent_id: UUID) -> tuple[ColumnElement[bool], ...]:
    return Step.agent_id == agent_id, Step.kind == StepKind.CONVERSE


def _message(message_id: UUID, values: dict[str, Any]) -> Any:
    changed = update(Message).where(Message.id == message_id).values(values)
    return changed.execution_options(synchronize_session=False)


def _turn(said: dict[UUID, Message], agent_id: UUID, number: int) -> Turn:
    question = said.get(ids.question_id(agent_id, number))
    answer = said.get(ids.answer_id(agent_id, number))
    whole = answer is not None and answer.completed_at is not None
    return Turn(
        number,
        question.content if question else "",
        answer.content if whole and answer else None,
    )
