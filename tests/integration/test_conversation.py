"""People talk with their agents: answers are streamed, cited, in order, and steer what comes."""

from collections.abc import AsyncIterator

import pytest
from sqlalchemy import select

from shared.runtime.bus import Bus
from shared.runtime.settings import Settings
from shared.store.database import Database
from shared.store.tables import Agent, GraphNode
from tests.integration.api.rows import advise
from tests.integration.cluster import running
from tests.integration.levers import Sandbox
from tests.integration.making import make_agent
from tests.integration.talking import Talk, api_at


@pytest.fixture
def levers(sandbox: str) -> Sandbox:
    return Sandbox(sandbox)


@pytest.fixture
async def agent(database: Database) -> Agent:
    """With a node, an edge, an analysis and advice; it does not run by itself."""
    agent = await make_agent(database, active=False)
    await advise(database, agent)
    return agent


@pytest.fixture
async def talk(sandbox_settings: Settings, agent: Agent, bus: Bus) -> AsyncIterator[Talk]:
    """With an agent whose concierge and api are at work."""
    async with api_at(sandbox_settings) as url, running(sandbox_settings, ["concierge"]):
        yield Talk(url, str(agent.id))


async def test_a_question_is_answered_from_the_graph_with_citations_and_streamed(
    talk: Talk, database: Database
) -> None:
    turn = await talk.says("What of Halden and lithium?")
    question, answer = turn["question"], turn["answer"]
    assert (question["kind"], question["turn"], question["status"]) == ("question", 1, "complete")
    assert (answer["kind"], answer["turn"], answer["content"]) == ("answer", 1, "")
    heard = await talk.hears(answer["id"])
    assert heard.ended is not None
    assert heard.names[0] == "tool"
    assert {look["tool"] for look in heard.of("tool")} == {"queryGraph"}
    assert heard.text == heard.ended["content"]
    assert "Halden" in heard.text
    cited = heard.ended["citations"]
    assert cited
    async with database.transaction() as session:
        names = {str(row.id): row.name for row in await session.scalars(select(GraphNode))}
    assert all(names[each["id"]] == each["name"] for each in cited if each["kind"] == "node")
