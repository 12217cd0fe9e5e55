"""A page that is read without a date has the one that a feed or an earlier search gave for its address."""

from datetime import UTC, datetime
from uuid import UUID

import pytest
from sqlalchemy import select

from services.observer.news import store_query
from services.observer.news_items import Item
from services.researcher.acquisition import headings
from shared.database.statements import Batch
from shared.database.tables import Source
from shared.enums import NewsKind
from shared.graph.provenance.numbered_pages import NumberedPage, RunPages
from shared.graph.provenance.sources import known_pages, page_storing
from shared.urls import page_key
from shared.web_search.tools import KnownOfPages
from tests.support.graph.agent_graph import AgentGraph

URL = "https://news.example/fire"
BY_FEED = datetime(2026, 11, 20, 9, tzinfo=UTC)
BY_SEARCH = datetime(2026, 11, 22, tzinfo=UTC)


async def _found_by_feed(graph: AgentGraph, published: datetime | None, url: str = URL) -> None:
    item = Item(UUID(int=1), NewsKind.DOCUMENT, url, "Fire", BY_FEED, published=published)
    await graph.database.run(store_query(graph.scope, [], [item]))


async def _store(graph: AgentGraph, page: NumberedPage) -> None:
    async with graph.database.transaction() as session:
        batch = Batch()
        storing = page_storing(batch, graph.scope, [page])
        await batch.execute(session)
        for query in storing.value:
            await query.execute(session)


async def _stored(graph: AgentGraph) -> list[datetime | None]:
    async with graph.database.transaction() as session:
        return list(
            await session.scalars(select(Source.published).where(Source.url.contains("fire")))
        )


async def _known(graph: AgentGraph, url: str) -> datetime | None:
    async with graph.database.connection() as connection:
        return (await known_pages(graph.scope, [url]).execute(connection)).published.get(
            page_key(url)
        )


@pytest.mark.parametrize("url", [URL, f"{URL}/", f"{URL}#top", "https://NEWS.example/fire"])
async def test_a_page_that_is_read_without_a_date_has_that_of_the_feed(
    agent_graph: AgentGraph, url: str
) -> None:
    await _found_by_feed(agent_graph, BY_FEED)
    assert await _known(agent_graph, url) == BY_FEED
    await _store(agent_graph, NumberedPage(url, reads=["A fire stopped furnace 3."]))
    assert await _stored(agent_graph) == [BY_FEED]


async def test_a_date_of_the_pages_own_result_wins_and_is_known_later(
    agent_graph: AgentGraph,
) -> None:
    await _found_by_feed(agent_graph, BY_FEED)
    await _store(agent_graph, NumberedPage(URL, "Fire", "2026-11-22", passages=["A fire."]))
    assert await _known(agent_graph, URL) == BY_SEARCH
    await _store(agent_graph, NumberedPage(URL, reads=["A fire stopped furnace 3."]))
    assert await _stored(agent_graph) == [BY_SEARCH, BY_SEARCH]


@pytest.mark.parametrize("published", [None, datetime(2999, 1, 1, tzinfo=UTC)])
async def test_a_feed_without_a_possible_date_gives_none(
    agent_graph: AgentGraph, published: datetime | None
) -> None:
    await _found_by_feed(agent_graph, published)
    assert await _known(agent_graph, URL) is None


def test_a_page_that_is_read_has_the_date_that_the_search_gave() -> None:
    run = RunPages("fire")
    found = {"url": URL, "content": "A fire stopped furnace 3.", "published_date": "2026-11-22"}
    run.show_passages({"results": [found]})
    page = {"url": URL, "content": "A fire stopped furnace 3 at Larne.", "published_date": None}
    shown = run.show_reads({"results": [page]}).result
    assert shown is not None
    assert shown["results"][0]["published_date"] == "2026-11-22"


@pytest.mark.parametrize("own", [None, "2026-11-22"])
def test_the_model_and_the_document_have_the_known_date_unless_a_result_has_its_own(
    own: str | None,
) -> None:
    known = KnownOfPages(published={URL: BY_FEED.isoformat()})
    run = RunPages("fire")
    found = known.dated({"url": URL, "content": "A fire stopped furnace 3."})
    shown = run.show_passages({"results": [found]}).result
    assert shown is not None
    assert shown["results"][0]["published_date"].startswith("2026-11-20")
    page = {"url": URL, "content": "A fire stopped furnace 3 at Larne.", "published_date": own}
    run.show_reads({"results": [known.dated(page)]})
    assert f"Published: {own or '2026-11-20'}" in headings(run.pages)[0]


def test_the_observer_is_shown_the_date_of_a_new_document() -> None:
    item = Item(UUID(int=1), NewsKind.DOCUMENT, URL, "Fire", BY_FEED, published=BY_FEED)
    assert item.line == f"- new document: Fire: {URL} (published 2026-11-20)"
