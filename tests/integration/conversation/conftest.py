"""One agent to talk with."""

from collections.abc import AsyncIterator

import pytest

from shared.database.engine import Database
from shared.database.tables import Agent
from shared.runtime.bus import Bus
from shared.runtime.settings import Settings
from tests.support.actors import running
from tests.support.api.rows import advise
from tests.support.conversation.talking import Talk
from tests.support.making import make_agent
from tests.support.streams import serving


@pytest.fixture
async def agent(database: Database) -> Agent:
    """With a node, an edge, an analysis and advice; it does not run by itself."""
    agent = await make_agent(database, active=False)
    await advise(database, agent)
    return agent


@pytest.fixture
async def talk(sandbox_settings: Settings, agent: Agent, bus: Bus) -> AsyncIterator[Talk]:
    """With an agent whose assistant and api are at work."""
    async with serving(sandbox_settings) as api, running(sandbox_settings, ["assistant"]):
        yield Talk(api, str(agent.id))
