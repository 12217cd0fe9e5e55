"""Iterations of an agent that works as if each day were its archive date, with the sandbox."""

from datetime import UTC, date, datetime
from pathlib import Path
from typing import Final

from pydantic import SecretStr
from sqlalchemy import select

from sandbox.settings import SandboxSettings
from services.observer.news import watched_query
from shared.database.engine import Database
from shared.database.tables import Agent, GraphNode, Source
from shared.enums import ADVICE_TYPE, ANALYSIS_TYPE, Phase
from shared.graph import system_types
from shared.graph.scope import GraphScope
from shared.runtime.settings import Settings
from tests.support.factories import make_agent
from tests.support.golden.missions import MISSIONS
from tests.support.golden.recorded_services import recorded_services
from tests.support.sandbox.server import running_sandbox
from tests.support.table_rows import change

ARCHIVE: Final = date(2026, 3, 1)
"""Two of the four documents of the mission were published later."""
LATER: Final = ("https://cocoa.example/brabant", "https://cocoa.example/lindqvist")
[COCOA] = [mission for mission in MISSIONS if mission.name == "cocoa"]
PHASES: Final = set(Phase) - {Phase.CONFIGURATION, Phase.CONVERSATION, Phase.ENTAILMENT_CHECK}


async def test_the_news_of_a_feed_begins_a_week_before_the_archive_date(
    database: Database,
) -> None:
    agent = await make_agent(database)
    scope = GraphScope(agent.owner_id, agent.id)
    feed = watched_query(scope, 10, "https://corpus.local/feed.xml")
    watching = await database.run(feed)
    assert (watching.archive_date, watching.new_since) == (None, agent.created_at)
    async with database.transaction() as session:
        await session.update(Agent, agent.id, archive_date=ARCHIVE)
    watching = await database.run(feed)
    assert watching.archive_date == ARCHIVE
    assert watching.new_since is not None
    assert watching.new_since.date() == date(2026, 2, 22)


async def test_every_phase_works_on_the_archive_date(
    database: Database, database_url: str, tmp_path: Path
) -> None:
    agent = await make_agent(database, mission=COCOA.text)
    async with database.transaction() as session:
        row = await session.get_one(Agent, agent.id)
        row = await change(session, row, archive_date=ARCHIVE)
        await system_types.ensure_system_types(session, agent.id)
    corpus = tmp_path / "corpus"
    COCOA.write_corpus(corpus)
    async with running_sandbox(SandboxSettings(port=0, corpus=str(corpus))) as url:
        settings = Settings.model_validate(
            {
                "database_url": database_url,
                "openai_api_key": SecretStr("sandbox"),
                "openai_base_url": f"{url}/v1",
                "tavily_api_key": SecretStr("sandbox"),
                "tavily_base_url": url,
                "model": "sandbox-reader",
            }
        )
        async with recorded_services(database, settings) as services:
            for _ in range(2):
                await services.run_iteration(agent)
            requests = services.recording.requests
    assert {request.phase for request in requests} == PHASES
    real_day = f"{datetime.now(UTC):%Y-%m-%d}"
    for sent in requests:
        messages = [str(message.get("content") or "") for message in sent.request.messages]
        assert messages[1].endswith("\n\nNow: 2026-03-01T23:59Z"), sent.step.title
        assert not [text for text in messages for url in LATER if url in text], sent.step.title
        assert real_day not in "\n".join(messages), sent.step.title
    async with database.transaction() as session:
        published = (await session.scalars(select(Source.published))).all()
        conclusions = await session.scalars(
            select(GraphNode).where(GraphNode.type.in_((ANALYSIS_TYPE, ADVICE_TYPE)))
        )
        generated = {node.properties["generated_at"] for node in conclusions}
    assert published
    assert all(day is not None and day.date() <= ARCHIVE for day in published)
    assert generated == {"2026-03-01T23:59:59Z"}
