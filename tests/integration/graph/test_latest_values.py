"""The newest conclusions, advice and analyses together."""

from uuid import UUID

from services.api.resources.conclusions import model as latest
from tests.support.api.access import agent_access
from tests.support.graph.agent_graph import AgentGraph


async def _analysis(agent_graph: AgentGraph, name: str, node: UUID) -> UUID:
    return await agent_graph.analysis(f"It grows [node:{node}].", name, summary=f"{name} grows.")


async def test_advice_and_analyses_are_listed_newest_first(agent_graph: AgentGraph) -> None:
    ghana = await agent_graph.node("Ghana")
    first, second = (
        await _analysis(agent_graph, "First", ghana),
        await _analysis(agent_graph, "Second", ghana),
    )
    advice = await agent_graph.advice(f"As [node:{first}] and [node:{second}] say.")
    third = await _analysis(agent_graph, "Third", ghana)
    async with agent_graph.database.transaction() as session:
        newest = await latest.newest_conclusions(agent_access(session, agent_graph.scope), 3)
    assert [conclusion.id for conclusion in newest] == [third, advice, second]
    assert [conclusion.word for conclusion in newest] == ["pattern", "HOLD", "pattern"]
    assert (newest[0].name, newest[0].summary) == ("Third", "Third grows.")
    assert newest[0].doubted_since is None


async def test_an_agent_without_conclusions_has_an_empty_list(agent_graph: AgentGraph) -> None:
    async with agent_graph.database.transaction() as session:
        assert await latest.newest_conclusions(agent_access(session, agent_graph.scope), 3) == []
