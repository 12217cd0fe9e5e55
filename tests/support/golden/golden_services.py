"""The agent of a golden mission, and the services that run its iterations on the mission's corpus."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

from pydantic import SecretStr

from sandbox.settings import SandboxSettings
from shared.database.engine import Database
from shared.database.tables import Agent
from shared.graph import system_types
from shared.runtime.settings import Settings
from tests.support.factories import make_agent
from tests.support.golden.missions import GoldenMission
from tests.support.golden.recorded_services import RecordedServices, recorded_services
from tests.support.sandbox.server import running_sandbox
from tests.support.table_rows import change


async def create_agent(database: Database, mission: GoldenMission) -> Agent:
    """An agent with its system types, as configuration leaves it, so that the first survey writes nothing."""
    agent = await make_agent(database, mission=mission.text)
    async with database.transaction() as session:
        row = await session.get_one(Agent, agent.id)
        row = await change(session, row, feedback_rounds=mission.feedback_rounds)
        await system_types.ensure_system_types(session, agent.id)
    return agent


@asynccontextmanager
async def running_services(
    database: Database, database_url: str, mission: GoldenMission, folder: Path
) -> AsyncIterator[RecordedServices]:
    """The services, with a sandbox that serves the mission's corpus."""
    corpus = folder / "corpus"
    mission.write_corpus(corpus)
    async with running_sandbox(SandboxSettings(port=0, corpus=str(corpus))) as url:
        settings = settings_of(database_url, url)
        async with recorded_services(database, settings) as services:
            yield services


def settings_of(database_url: str, sandbox_url: str = "") -> Settings:
    return Settings.model_validate(
        {
            "database_url": database_url,
            "openai_api_key": SecretStr("sandbox"),
            "openai_base_url": f"{sandbox_url}/v1",
            "tavily_api_key": SecretStr("sandbox"),
            "tavily_base_url": sandbox_url,
            "model": "sandbox-reader",
        }
    )
