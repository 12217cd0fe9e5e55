"""Questions and answers, written to the database as the assistant would."""

from datetime import timedelta
from typing import Final
from uuid import UUID

from sqlalchemy import func, update

from shared.agents import conversations
from shared.agents.conversations import TooManyOpenTurns
from shared.database.tables import Step
from shared.database.transaction import Transaction
from shared.enums import StepStatus
from shared.schemas.base import CitationResponse
from shared.workflow.iterations import StepRow, database_time
from tests.support.browser.agent_data import HOSTILE, AgentWithAdvice, open_database

QUESTION_COUNT: Final = 30
"""More than one page of the conversation shows."""
FAILURE: Final = "the model server refused it"
_UNKNOWN_NODE: Final = CitationResponse(
    kind="node", id=UUID("00000000-0000-4000-8000-000000000001"), type=None, name=None
)


async def add_conversation(url: str, agent_id: UUID) -> None:
    """Add QUESTION_COUNT answered questions, the last answer hostile, and one whose answer failed."""
    async with open_database(url) as database, database.transaction() as session:
        for number in range(1, QUESTION_COUNT + 1):
            content = (
                f"Answer {number}."
                if number < QUESTION_COUNT
                else f"{HOSTILE} [node:{_UNKNOWN_NODE.id}]"
            )
            step = await _add_question(session, agent_id, f"Question {number}")
            answer_id = UUID(step.input["answer_id"])
            await conversations.store_partial_answer(
                session, answer_id, draft=1, content=content, tool_uses=[]
            )
            citation = _UNKNOWN_NODE.model_dump(mode="json")
            await conversations.complete_answer(session, answer_id, [citation])
            now = await database_time(session)
            await session.update(Step, step.id, status=StepStatus.COMPLETED, ended_at=now)
        failed_step = await _add_question(session, agent_id, "What do you know of Halden Energy?")
        now = await database_time(session)
        failure = {"status": StepStatus.FAILED, "error": FAILURE, "ended_at": now}
        await session.update(Step, failed_step.id, **failure)


async def begin_answer(url: str, agent_id: UUID, question: str) -> UUID:
    """Add a question that the assistant has started but not answered; returns the answer's id."""
    async with open_database(url) as database, database.transaction() as session:
        step = await _add_question(session, agent_id, question)
        until = await database_time(session) + timedelta(hours=1)
        lease = {"epoch": 1, "lease_owner": "a test", "lease_until": until}
        await session.update(Step, step.id, status=StepStatus.RUNNING, **lease)
        return UUID(step.input["answer_id"])


async def queue_questions(url: str, agent_id: UUID, questions: int) -> None:
    """Add questions that wait for the answer in progress."""
    async with open_database(url) as database, database.transaction() as session:
        for number in range(questions):
            await _add_question(session, agent_id, f"And {number}?")


async def write_answer(url: str, answer_id: UUID, text: str) -> None:
    async with open_database(url) as database, database.transaction() as session:
        await conversations.store_partial_answer(
            session, answer_id, draft=1, content=text, tool_uses=[]
        )


async def end_answer(url: str, agent: AgentWithAdvice, answer_id: UUID, text: str) -> None:
    """Complete the answer, with one citation."""
    citation = CitationResponse(kind="node", id=agent.halden_id, type="Thing", name="Halden Energy")
    async with open_database(url) as database, database.transaction() as session:
        await conversations.store_partial_answer(
            session, answer_id, draft=1, content=text, tool_uses=[]
        )
        await conversations.complete_answer(session, answer_id, [citation.model_dump(mode="json")])
        await session.execute(
            update(Step)
            .where(Step.agent_id == agent.agent_id, Step.status == StepStatus.RUNNING)
            .values(status=StepStatus.COMPLETED, ended_at=func.clock_timestamp())
        )


async def _add_question(session: Transaction, agent_id: UUID, question: str) -> StepRow:
    step = await conversations.add_question(session, agent_id, question)
    assert not isinstance(step, TooManyOpenTurns | None)
    return step
