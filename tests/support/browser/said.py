"""What is said to an agent and by it, written as an assistant would."""

from datetime import timedelta
from typing import Final
from uuid import UUID

from sqlalchemy import func, update
from sqlalchemy.ext.asyncio import AsyncSession

from shared.agents import conversations
from shared.database.tables import Step
from shared.enums import StepStatus
from shared.schemas.base import CitationView
from shared.workflow.iterations import database_time
from tests.support.browser.desk import HOSTILE, Desk, opened

QUESTIONS: Final = 30
"""More than are shown at once."""
WHY_FAILED: Final = "the model server refused it"
_MADE_UP: Final = CitationView(
    kind="node", id=UUID("00000000-0000-4000-8000-000000000001"), type=None, name=None
)


async def talk(url: str, agent_id: UUID) -> None:
    """QUESTIONS that are answered, the last answer hostile, and one whose answer failed."""
    async with opened(url) as database, database.transaction() as session:
        for number in range(1, QUESTIONS + 1):
            words = f"Answer {number}." if number < QUESTIONS else f"{HOSTILE} [node:{_MADE_UP.id}]"
            step = await _asked(session, agent_id, f"Question {number}")
            answer_id = UUID(step.input["answer_id"])
            await conversations.store_partial_answer(
                session, answer_id, draft=1, content=words, tool_uses=[]
            )
            made_up = _MADE_UP.model_dump(mode="json")
            await conversations.complete_answer(session, answer_id, [made_up])
            step.status, step.ended_at = StepStatus.COMPLETED, await database_time(session)
        failed = await _asked(session, agent_id, "What do you know of Halden Energy?")
        failed.status, failed.error = StepStatus.FAILED, WHY_FAILED
        failed.ended_at = await database_time(session)


async def begin_answer(url: str, agent_id: UUID, question: str) -> UUID:
    """As an assistant that has taken the question, and has said nothing yet; the answer's id."""
    async with opened(url) as database, database.transaction() as session:
        step = await _asked(session, agent_id, question)
        step.status, step.epoch, step.lease_owner = StepStatus.RUNNING, 1, "a test"
        step.lease_until = await database_time(session) + timedelta(hours=1)
        return UUID(step.input["answer_id"])


async def ask_often(url: str, agent_id: UUID, questions: int) -> None:
    """Behind one that is being answered."""
    async with opened(url) as database, database.transaction() as session:
        for number in range(questions):
            await _asked(session, agent_id, f"And {number}?")


async def write_answer(url: str, answer_id: UUID, text: str) -> None:
    async with opened(url) as database, database.transaction() as session:
        await conversations.store_partial_answer(
            session, answer_id, draft=1, content=text, tool_uses=[]
        )


async def end_answer(url: str, desk: Desk, answer_id: UUID, text: str) -> None:
    """Whole, with its one citation."""
    cited = CitationView(kind="node", id=desk.halden_id, type="Thing", name="Halden Energy")
    async with opened(url) as database, database.transaction() as session:
        await conversations.store_partial_answer(
            session, answer_id, draft=1, content=text, tool_uses=[]
        )
        await conversations.complete_answer(session, answer_id, [cited.model_dump(mode="json")])
        await session.execute(
            update(Step)
            .where(Step.agent_id == desk.agent_id, Step.status == StepStatus.RUNNING)
            .values(status=StepStatus.COMPLETED, ended_at=func.clock_timestamp())
        )


async def _asked(session: AsyncSession, agent_id: UUID, question: str) -> Step:
    step = await conversations.add_question(session, agent_id, question)
    assert isinstance(step, Step)
    return step
