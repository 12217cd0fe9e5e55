"""The words of what a step has written."""

from uuid import uuid4

from services.researcher.handler import written_texts
from tests.support.graph.agent_graph import PAGE, AgentGraph


async def test_an_element_has_its_name_values_and_quotes(agent_graph: AgentGraph) -> None:
    ghana, togo = await agent_graph.node("Ghana", capital="Accra"), await agent_graph.node("Togo")
    border = await agent_graph.edge(ghana, togo)
    texts = await agent_graph.database.run(
        written_texts(agent_graph.scope, uuid4(), [ghana, border])
    )
    assert set(texts) == {ghana, border}
    for text in ("Ghana", "capital: ", "Accra", PAGE["content"]):
        assert text in texts[ghana]
    for text in ("Ghana", "Togo", "borders", PAGE["content"]):
        assert text in texts[border]
