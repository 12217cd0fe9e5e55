"""The pages of an agent, and the quotes of one source."""

from datetime import UTC, datetime

from sqlalchemy import update

from services.api.resources.sources import model as provenance
from shared.database.engine import Database
from shared.database.tables import Source
from tests.support.api.access import agent_access
from tests.support.graph.agent_graph import PAGE, make_agent_graph


async def test_versions_of_a_page_are_listed_once_with_their_quotes(database: Database) -> None:
    agent_graph, other = await make_agent_graph(database), await make_agent_graph(database, "other")
    await agent_graph.node("Aland")
    changed = {**PAGE, "title": "A new atlas", "content": "Another text."}
    await agent_graph.store_search_results({"results": [changed]})
    async with database.transaction() as session:
        await session.execute(
            update(Source)
            .where(Source.title != "A new atlas")
            .values(retracted_at=datetime.now(UTC))
        )
        [page] = await provenance.list_pages(agent_access(session, agent_graph.scope))
        [of_other] = await provenance.list_pages(agent_access(session, other.scope))
        assert (of_other.versions, of_other.quotes) == (1, 0)
        newest = await provenance.get_source(
            agent_access(session, agent_graph.scope), page.newest_id
        )
    assert (page.url, page.title) == (PAGE["url"], "A new atlas")
    assert (page.versions, page.retracted, page.quotes) == (2, 1, 1)
    assert newest.text == "Another text."


async def test_marks_of_a_page_are_listed_for_its_agent_only(database: Database) -> None:
    agent_graph, other = await make_agent_graph(database), await make_agent_graph(database, "other")
    aland, borland = await agent_graph.node("Aland"), await agent_graph.node("Borland")
    edge = await agent_graph.edge(aland, borland)
    async with database.transaction() as session:
        [page] = await provenance.list_pages(agent_access(session, agent_graph.scope))
        source_id = page.newest_id
        highlights = await provenance.list_quote_highlights(
            agent_access(session, agent_graph.scope), source_id
        )
        assert (
            await provenance.list_quote_highlights(agent_access(session, other.scope), source_id)
        ).items == []
    assert {(highlight.kind, highlight.element_id) for highlight in highlights.items} == {
        ("node", aland),
        ("node", borland),
        ("edge", edge),
    }
    assert page.quotes == 3
    assert not highlights.cut
    assert (
        next(highlight.name for highlight in highlights.items if highlight.kind == "edge")
        == "Aland → Borland"
    )
