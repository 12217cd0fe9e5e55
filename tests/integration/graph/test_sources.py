"""Storing pages and finding them again."""

import asyncio
from dataclasses import replace
from datetime import UTC, datetime, timedelta

import pytest
from sqlalchemy import select, update

from shared.database.tables import Source
from shared.graph.provenance import integrity
from shared.graph.provenance.sources import find_pages, list_recent_urls, store_pages
from shared.graph.scope import GraphScope
from shared.tools import Json
from tests.support.graph.agent_graph import PAGE, AgentGraph
from tests.support.sql_capture import captured_statements

URL = "https://press.example/lithium"
MAY = datetime(2024, 5, 1, tzinfo=UTC)


def page(text: str = "Orran shipped 92,000 tonnes.", **more: object) -> Json:
    return {"results": [{"url": URL, "title": " Lithium \n today", "content": text, **more}]}


async def load_sources(agent_graph: AgentGraph, url: str = URL) -> list[Source]:
    async with agent_graph.database.transaction() as session:
        sources = await session.scalars(
            select(Source).where(Source.url == url).order_by(Source.fetched_at, Source.text)
        )
        return list(sources)


async def test_a_page_is_stored_unchanged_and_sealed(agent_graph: AgentGraph) -> None:
    text = "Überall – “½” 鉄鋼\n\n  so it stands"
    await agent_graph.store_search_results(page(text, published_date="2024-05-01"))
    (source,) = await load_sources(agent_graph)
    assert (source.text, source.title, source.published) == (text, "Lithium today", MAY)
    assert source.sha256 == integrity.sha256(text)
    assert source.seal == integrity.source_seal(
        source_id=source.id,
        agent_id=agent_graph.scope.agent_id,
        url=URL,
        title=source.title,
        published=source.published,
        fetched_at=source.fetched_at,
        text_sha256=source.sha256,
        reading=source.reading,
    )


async def test_a_stored_page_stays_and_a_changed_page_is_another_source(
    agent_graph: AgentGraph,
) -> None:
    await agent_graph.store_search_results(
        page(), page(published_date="2025-01-01"), page("Orran shipped more.")
    )
    first, second = await load_sources(agent_graph)
    assert (first.text, first.published) == ("Orran shipped 92,000 tonnes.", None)
    assert second.text == "Orran shipped more."


async def test_an_extract_takes_the_date_of_the_search_result(agent_graph: AgentGraph) -> None:
    await agent_graph.store_search_results(
        page("An excerpt.", published_date="Wed, 01 May 2024 00:00:00 GMT")
    )
    await agent_graph.store_search_results(page("The whole page."))
    assert [source.published for source in await load_sources(agent_graph)] == [MAY, MAY]


async def test_a_future_publication_date_is_ignored(agent_graph: AgentGraph) -> None:
    """Otherwise its claims would supersede everything learned until that date."""
    await agent_graph.store_search_results(
        page(published_date=str(datetime.now(UTC) + timedelta(days=400)))
    )
    (source,) = await load_sources(agent_graph)
    assert source.published is None


@pytest.mark.parametrize(
    "result",
    [
        {"url": URL, "content": "  \n"},
        {"url": URL},
        {"url": "", "content": "text"},
        {"content": "text"},
        {"url": f"https://press.example/{'x' * 3_000}", "content": "text"},
    ],
)
async def test_pages_that_cannot_be_quoted_are_skipped(
    agent_graph: AgentGraph, result: Json
) -> None:
    await agent_graph.store_search_results(
        {"results": [result, *page()["results"]], "failed": []}, {"content": "prose"}
    )
    async with agent_graph.database.transaction() as session:
        urls = set(await session.scalars(select(Source.url)))
    assert urls == {URL, PAGE["url"]}


async def test_concurrent_readers_store_each_page_once(agent_graph: AgentGraph) -> None:
    pages = [{"url": f"{URL}/{number}", "content": f"Page {number}."} for number in range(20)]

    async def read(reader: int) -> None:
        for _ in range(3):
            await agent_graph.store_search_results({"results": [*pages[reader:], *pages[:reader]]})

    await asyncio.gather(*(read(reader) for reader in range(8)))
    assert all([len(await load_sources(agent_graph, result["url"])) == 1 for result in pages])


@pytest.mark.parametrize(
    "spelling",
    [f"{URL}/", f"{URL}#top", "https://Press.Example/lithium", f" {URL}/#a", f"HTTPS{URL[5:]}"],
)
async def test_an_address_is_found_in_any_spelling(agent_graph: AgentGraph, spelling: str) -> None:
    await agent_graph.store_search_results(page())
    async with agent_graph.database.transaction() as session:
        pages = await find_pages(session, agent_graph.scope, [spelling, f"{URL}?page=2", f"{URL}s"])
    assert [source.url for source in pages[spelling]] == [URL]
    assert pages.keys() == {spelling}


async def test_the_exact_address_is_preferred_and_the_newest_version_comes_first(
    agent_graph: AgentGraph,
) -> None:
    for result in (page("Old."), page("New."), page("With a slash.", url=f"{URL}/")):
        await agent_graph.store_search_results(result)
    async with agent_graph.database.transaction() as session:
        pages = await find_pages(session, agent_graph.scope, [URL])
        ids = {source.text: source.id for source in await load_sources(agent_graph)}
    assert [source.id for source in pages[URL]] == [ids["New."], ids["Old."]]


async def test_an_address_stored_in_another_spelling_is_found(agent_graph: AgentGraph) -> None:
    await agent_graph.store_search_results(page(url="https://Press.Example/Rivers/#1"))
    async with agent_graph.database.transaction() as session:
        pages = await find_pages(session, agent_graph.scope, ["https://press.example/Rivers"])
        other_case = await find_pages(session, agent_graph.scope, ["https://press.example/rivers"])
    assert pages
    assert not other_case


async def test_pages_of_others_are_not_found(agent_graph: AgentGraph, stranger: AgentGraph) -> None:
    await stranger.store_search_results(page())
    intruder = GraphScope(agent_graph.scope.owner_id, stranger.scope.agent_id)
    async with agent_graph.database.transaction() as session:
        for scope in (agent_graph.scope, intruder):
            assert await find_pages(session, scope, [URL]) == {}
        assert await list_recent_urls(session, intruder, 10) == []
        assert await list_recent_urls(session, agent_graph.scope, 10) == [PAGE["url"]]


async def test_a_page_for_an_agent_of_another_owner_is_not_stored(
    agent_graph: AgentGraph, stranger: AgentGraph
) -> None:
    intruder = GraphScope(agent_graph.scope.owner_id, stranger.scope.agent_id)
    with pytest.raises(Exception, match="null value"):
        async with agent_graph.database.transaction() as session:
            await store_pages(session, intruder, page())
    assert await load_sources(agent_graph) == []


async def test_retracted_pages_are_not_offered(agent_graph: AgentGraph) -> None:
    await agent_graph.store_search_results(page())
    async with agent_graph.database.transaction() as session:
        await session.execute(
            update(Source).where(Source.url == URL).values(retracted_at=datetime.now(UTC))
        )
        assert await list_recent_urls(session, agent_graph.scope, 10) == [PAGE["url"]]


async def test_a_transaction_caches_page_lookups_until_it_stores_pages(
    agent_graph: AgentGraph,
) -> None:
    await agent_graph.store_search_results({"results": [{"url": URL, "content": "As it was."}]})
    async with agent_graph.database.transaction() as session:
        [first] = (await find_pages(session, agent_graph.scope, [URL]))[URL]
        with captured_statements() as statements:
            [second] = (await find_pages(session, agent_graph.scope, [URL]))[URL]
        assert not statements
        assert replace(second, looked_up_at=first.looked_up_at) == first
        assert second.looked_up_at > first.looked_up_at
        await store_pages(
            session, agent_graph.scope, {"results": [{"url": URL, "content": "As it is."}]}
        )
        assert len((await find_pages(session, agent_graph.scope, [URL]))[URL]) == 2
