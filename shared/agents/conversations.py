"""Conversations: each question is stored with the step that answers it. Answers are generated one at a time, in order."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import timedelta
from typing import Any, Final
from uuid import UUID

from sqlalchemy import func, select, update
from sqlalchemy.dialects.postgresql import insert

from shared.database import ids
from shared.database.statements import Batch, BoundQuery, CompiledStatement
from shared.database.tables import Agent, Conversation, Message, Step
from shared.database.transaction import Transaction
from shared.enums import Role, StepKind, StepStatus
from shared.workflow import iterations, steps
from shared.workflow.iterations import STEP_COLUMNS, StepRow

MAX_OPEN_TURNS = 20
"""Maximum number of unanswered questions of a conversation."""
_UNDER_WAY = (StepStatus.PENDING, StepStatus.RUNNING)


@dataclass(frozen=True)
class Turn:
    """A question of the owner and the agent's answer; None if there is no answer (yet)."""

    number: int
    question: str
    answer: str | None


@dataclass(frozen=True)
class TooManyOpenTurns:
    """The question was not stored: MAX_OPEN_TURNS questions are unanswered."""


async def add_question(
    transaction: Transaction, agent_id: UUID, content: str
) -> StepRow | TooManyOpenTurns | None:
    """Stores a question, an empty answer, and the step that generates the answer. None if the agent was deleted.

    The step is planned if an earlier answer is not complete, otherwise pending. For a pending step, publish its event.
    """
    # Lock the agent first: if it is being deleted, this stops here and not halfway.
    agent_lock = (
        select(Agent.id).where(Agent.id == agent_id).with_for_update(read=True, key_share=True)
    )
    if await transaction.scalar(agent_lock) is None:
        return None
    conversation_id, turn = await _next_turn(transaction, agent_id)
    open_turns = await _count_answer_steps(transaction, agent_id, StepStatus.PLANNED, *_UNDER_WAY)
    if open_turns >= MAX_OPEN_TURNS:
        return TooManyOpenTurns()
    now = await iterations.database_time(transaction)
    question_id, answer_id = ids.question_id(agent_id, turn), ids.answer_id(agent_id, turn)
    position = {"conversation_id": conversation_id, "turn": turn}
    question = {"id": question_id, "role": Role.USER, "content": content, "created_at": now}
    answer = {
        "id": answer_id,
        "role": Role.AGENT,
        "content": "",
        # Lists are in order of time, and an answer comes after its question.
        "created_at": now + timedelta(microseconds=1),
    }
    await transaction.insert_all(Message, [question | position, answer | position])
    step_input = {"question_id": str(question_id), "answer_id": str(answer_id)}
    return await steps.insert_agent_task(
        transaction,
        agent_id,
        StepKind.CONVERSE,
        turn,
        step_input,
        requested_at=None if open_turns else now,
    )


_LOCK_CONVERSATION: Final = CompiledStatement(
    "select id from conversations where agent_id = :of_agent for update"
)
_REQUEST_NEXT_ANSWER: Final = CompiledStatement(f"""
with now as (select clock_timestamp() as at)
update steps
set status = '{StepStatus.PENDING}', requested_at = now.at, first_requested_at = now.at
from now
where status = '{StepStatus.PLANNED}' and id = (
  select id from steps as next
  where agent_id = :of_agent and kind = '{StepKind.CONVERSE}' and status = '{StepStatus.PLANNED}' and not exists (
    select from steps as other
    where other.agent_id = :of_agent and other.kind = '{StepKind.CONVERSE}' and other.id <> :of_step
      and other.status in ('{StepStatus.PENDING}', '{StepStatus.RUNNING}'))
  order by index limit 1)
""")
_REQUESTED_ANSWER: Final = CompiledStatement(f"""
select {STEP_COLUMNS} from steps
where agent_id = :of_agent and kind = '{StepKind.CONVERSE}' and status = '{StepStatus.PENDING}' and id <> :of_step
order by index limit 1
""")


async def request_next_answer(transaction: Transaction, step: StepRow) -> None:
    """Requests the answer to the next question. Call it in the transaction that ends the previous answer's step."""
    params = {"of_agent": step.agent_id, "of_step": step.id}
    batch = Batch()
    # Serialized with `add_question`, which could otherwise plan a step behind one that ends at the same time.
    batch.add(BoundQuery(_LOCK_CONVERSATION, {"of_agent": step.agent_id}, lambda _: None))
    batch.add(BoundQuery(_REQUEST_NEXT_ANSWER, params, lambda _: None))
    await batch.execute(transaction)


async def find_requested_answer(transaction: Transaction, step: StepRow) -> StepRow | None:
    """Returns the step that `request_next_answer` requested, if any."""
    params = {"of_agent": step.agent_id, "of_step": step.id}
    row = await _REQUESTED_ANSWER.row(transaction, params)
    return None if row is None else StepRow(*row)


async def get_conversation(transaction: Transaction, agent_id: UUID) -> Conversation:
    """Returns the agent's conversation, which must exist."""
    query = select(Conversation).where(Conversation.agent_id == agent_id)
    return (await transaction.scalars(query)).one()


async def list_turns(
    transaction: Transaction, agent_id: UUID, *, after: int, before: int, limit: int = 200
) -> list[Turn]:
    """Returns the turns between two numbers, both excluded, in order. At most `limit`, the last ones."""
    numbers = range(max(after + 1, before - limit), before)
    message_ids = [
        message_id(agent_id, number)
        for number in numbers
        for message_id in (ids.question_id, ids.answer_id)
    ]
    messages = await transaction.scalars(select(Message).where(Message.id.in_(message_ids)))
    by_id = {message.id: message for message in messages}
    return [_turn(by_id, agent_id, number) for number in numbers]


async def store_partial_answer(
    transaction: Transaction,
    answer_id: UUID,
    *,
    draft: int,
    content: str,
    tool_uses: Sequence[dict[str, Any]],
) -> None:
    """Stores the partial answer."""
    values = {"draft": draft, "content": content, "tool_uses": list(tool_uses)}
    await transaction.execute(_update_message(answer_id, values))


async def complete_answer(
    transaction: Transaction, answer_id: UUID, citations: Sequence[dict[str, Any]]
) -> None:
    """Marks the answer as complete and stores its citations. A repeated call keeps the first completion time."""
    at = func.coalesce(Message.completed_at, func.clock_timestamp())
    await transaction.execute(
        _update_message(answer_id, {"citations": list(citations), "completed_at": at})
    )


async def store_summary(
    transaction: Transaction, conversation: Conversation, summary: str, through: int
) -> None:
    """Replaces the summary that `conversation` was loaded with, unless a newer one was stored meanwhile."""
    await transaction.execute(
        update(Conversation)
        .where(
            Conversation.id == conversation.id,
            Conversation.summarized_turns == conversation.summarized_turns,
        )
        .values(summary=summary, summarized_turns=through)
    )


async def _next_turn(transaction: Transaction, agent_id: UUID) -> tuple[UUID, int]:
    """Locks the conversation and adds a turn. Returns the conversation's id and the number of the turn."""
    await transaction.execute(
        insert(Conversation)
        .values(id=ids.conversation_id(agent_id), agent_id=agent_id)
        .on_conflict_do_nothing()
    )
    updated = await transaction.execute(
        update(Conversation)
        .where(Conversation.agent_id == agent_id)
        .values(turns=Conversation.turns + 1)
        .returning(Conversation.id, Conversation.turns)
    )
    conversation_id, turn = updated.one()
    return conversation_id, turn


async def _count_answer_steps(
    transaction: Transaction, agent_id: UUID, *statuses: StepStatus
) -> int:
    query = select(func.count()).where(
        Step.agent_id == agent_id, Step.kind == StepKind.CONVERSE, Step.status.in_(statuses)
    )
    return await transaction.scalar(query) or 0


def _update_message(message_id: UUID, values: dict[str, Any]) -> Any:
    return update(Message).where(Message.id == message_id).values(values)


def _turn(messages: dict[UUID, Message], agent_id: UUID, number: int) -> Turn:
    question = messages.get(ids.question_id(agent_id, number))
    answer = messages.get(ids.answer_id(agent_id, number))
    is_complete = answer is not None and answer.completed_at is not None
    return Turn(
        number,
        question.content if question else "",
        answer.content if is_complete and answer else None,
    )
