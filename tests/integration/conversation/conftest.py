"""An agent, and a conversation with it."""

from collections.abc import AsyncIterator

import pytest

from shared.database.engine import Database
from shared.database.tables import Agent
from shared.runtime.bus import Bus
from shared.runtime.settings import Settings
from tests.support.api.rows import add_advice
from tests.support.conversation.talk import Talk
from tests.support.factories import make_agent
from tests.support.running_services import running_services
from tests.support.streams import serving


@pytest.fixture
async def agent(database: Database) -> Agent:
    """A paused agent with a node, an edge, an analysis and advice."""
    agent = await make_agent(database, active=False)
    await add_advice(database, agent)
    return agent


@pytest.fixture
async def talk(sandbox_settings: Settings, agent: Agent, bus: Bus) -> AsyncIterator[Talk]:
    """A conversation with the agent; its assistant and the API are running."""
    async with serving(sandbox_settings) as api, running_services(sandbox_settings, ["assistant"]):
        yield Talk(api, str(agent.id))
