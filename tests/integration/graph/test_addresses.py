"""Searching sources by part of their address, and the quotes of one source."""

from datetime import UTC, datetime

from sqlalchemy import update

from services.api.queries import provenance
from shared.database.engine import Database
from shared.database.tables import Source
from tests.support.graph.agent_graph import PAGE, make_agent_graph


async def test_sources_match_by_part_of_address_or_title_without_wildcards(
    database: Database,
) -> None:
    agent_graph = await make_agent_graph(database)
    page = {**PAGE, "url": "https://press.example/100%25_of", "title": "All of it"}
    await agent_graph.store_search_results({"results": [page]})
    async with database.transaction() as session:

        async def search(part: str, *, retracted: bool | None = None) -> list[str]:
            sources = await provenance.search_sources(
                session, agent_graph.scope, part, retracted=retracted
            )
            return [source.url for source in sources]

        assert await search("ATLAS") == [PAGE["url"]]
        assert await search("all of") == [page["url"]]
        assert await search("%25_") == [page["url"]]
        assert await search("s_a") == []
        assert await search("example", retracted=True) == []
        await session.execute(
            update(Source).where(Source.url == page["url"]).values(retracted_at=datetime.now(UTC))
        )
        assert await search("example", retracted=True) == [page["url"]]
        assert await search("example", retracted=False) == [PAGE["url"]]


async def test_marks_of_a_page_are_listed_for_its_agent_only(database: Database) -> None:
    agent_graph, other = await make_agent_graph(database), await make_agent_graph(database, "other")
    aland, borland = await agent_graph.node("Aland"), await agent_graph.node("Borland")
    edge = await agent_graph.edge(aland, borland)
    async with database.transaction() as session:
        [page] = await provenance.search_sources(session, agent_graph.scope, "atlas")
        highlights = await provenance.list_quote_highlights(session, agent_graph.scope, page.id)
        counts = await provenance.count_quotes(session, agent_graph.scope, [page.id])
        assert (await provenance.list_quote_highlights(session, other.scope, page.id)).items == []
        assert await provenance.count_quotes(session, other.scope, [page.id]) == {}
    assert {(highlight.kind, highlight.element_id) for highlight in highlights.items} == {
        ("node", aland),
        ("node", borland),
        ("edge", edge),
    }
    assert counts == {page.id: 3}
    assert not highlights.cut
    assert (
        next(highlight.name for highlight in highlights.items if highlight.kind == "edge")
        == "Aland → Borland"
    )
