"""The owner's feedback on advice reaches the phases that plan and conclude."""

from datetime import UTC, datetime
from typing import Any
from uuid import uuid4

from sqlalchemy import select

from shared.agents import feedback
from shared.database.engine import Database
from shared.database.tables import InboxItem, Interaction
from shared.enums import InboxKind, InboxOutcome, Phase
from shared.llm.phase_run_store import load_requests
from shared.runtime.settings import Settings
from tests.support.factories import make_agent
from tests.support.mission import Mission
from tests.support.running_services import ended_iteration, running_services
from tests.support.sandbox_control import Sandbox

REASON = "We cannot buy before June"
INFORMED = {Phase.OBSERVER, Phase.ANALYSIS_GENERATION, Phase.ADVICE_GENERATION}


async def test_feedback_is_shown_to_the_phases_that_plan_and_conclude(
    sandbox_settings: Settings, database: Database, sandbox: str
) -> None:
    mission = await Mission.begin(database, Sandbox(sandbox), "feedback")
    async with database.transaction() as session:
        await session.insert(
            InboxItem,
            id=uuid4(),
            owner_id=mission.agent.owner_id,
            agent_id=mission.agent.id,
            kind=InboxKind.ADVICE,
            title="BUY: Buy Orran",
            summary="",
            outcome=InboxOutcome.DISMISSED,
            useful=False,
            feedback=REASON,
            answered_at=datetime(2026, 3, 2, tzinfo=UTC),
        )
    async with running_services(sandbox_settings):
        await ended_iteration(database, mission.agent, 1)
    async with database.transaction() as session:
        runs = (await session.scalars(select(Interaction))).all()
        requests = await load_requests(session, runs)
    line = f'- 2026-03-02, dismissed, not useful: "BUY: Buy Orran". Owner: "{REASON}"'
    phases = {Phase(run.phase) for run in runs}
    assert phases >= INFORMED
    for run in runs:
        text = requests[run.id]["messages"][-1]["content"]
        shown = f"<owner_feedback>\n{line}\n</owner_feedback>\n\n{feedback.RULE}" in text
        assert shown == (run.phase in INFORMED), run.phase


async def test_only_answered_advice_is_feedback_the_newest_first(database: Database) -> None:
    agent = await make_agent(database, name="answered")
    rows: list[tuple[str, InboxKind, dict[str, Any], int]] = [
        ("old", InboxKind.ADVICE, {"outcome": InboxOutcome.ACCEPTED}, 1),
        ("new", InboxKind.ADVICE, {"useful": True}, 2),
        ("reopened", InboxKind.ADVICE, {}, 3),
        ("notice", InboxKind.NOTICE, {"outcome": InboxOutcome.DISMISSED}, 4),
    ]
    async with database.transaction() as session:
        for title, kind, values, day in rows:
            await session.insert(
                InboxItem,
                id=uuid4(),
                owner_id=agent.owner_id,
                agent_id=agent.id,
                kind=kind,
                title=title,
                summary="",
                answered_at=datetime(2026, 3, day, tzinfo=UTC),
                **values,
            )
    async with database.transaction() as session:
        found = await feedback.list_feedback(agent.id).execute(session)
        assert await feedback.list_feedback(uuid4()).execute(session) == []
    assert [each.title for each in found] == ["new", "old"]
