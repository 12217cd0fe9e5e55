"""Storing pages and finding them again."""

import asyncio
from dataclasses import replace
from datetime import UTC, datetime, timedelta

import pytest
from sqlalchemy import select, update

from services.api.resources.sources.model import list_pages
from shared.database.statements import Batch
from shared.database.tables import Source
from shared.graph.provenance import integrity
from shared.graph.provenance.evidence import EvidenceInput
from shared.graph.provenance.numbered_pages import NumberedPage
from shared.graph.provenance.page_reading import PASSAGE_BREAK, PageReading
from shared.graph.provenance.sources import (
    PASSAGES_KEY,
    find_pages,
    list_recent_urls,
    page_storing,
    store_pages,
)
from shared.graph.scope import GraphScope
from shared.tools import Json
from tests.support.api.access import agent_access
from tests.support.graph.agent_graph import PAGE, AgentGraph
from tests.support.graph.verification import breaks
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


FIRST, SECOND = "Orran shipped 92,000 tonnes.", "It has 3 mines."
WHOLE = f"# Orran\n{FIRST} It was a record. {SECOND}"


async def store_run(agent_graph: AgentGraph, *pages: NumberedPage) -> None:
    async with agent_graph.database.transaction() as session:
        batch = Batch()
        storing = page_storing(batch, agent_graph.scope, pages)
        await batch.execute(session)
        for query in storing.value:
            await query.execute(session)


def found(*passages: str) -> NumberedPage:
    return NumberedPage(URL, "Orran", passages=list(passages))


async def stored(agent_graph: AgentGraph) -> list[tuple[str, bool]]:
    """The stored texts of the page, and whether each has passages."""
    return [
        (source.text, bool((source.reading or {}).get(PASSAGES_KEY)))
        for source in await load_sources(agent_graph)
    ]


async def test_the_passages_of_a_run_are_one_source_without_what_they_repeat(
    agent_graph: AgentGraph,
) -> None:
    await store_run(agent_graph, found(FIRST, f"…\n{FIRST}", SECOND, FIRST))
    assert await stored(agent_graph) == [(f"…\n{FIRST}{PASSAGE_BREAK}{SECOND}", True)]


async def test_a_later_passage_adds_to_the_page_only_what_is_new(agent_graph: AgentGraph) -> None:
    await store_run(agent_graph, found(FIRST))
    await store_run(agent_graph, found(FIRST))
    await store_run(agent_graph, found(FIRST, SECOND))
    assert await stored(agent_graph) == [(FIRST, True), (SECOND, True)]
    async with agent_graph.database.transaction() as session:
        (listed,) = [
            each
            for each in await list_pages(agent_access(session, agent_graph.scope))
            if each.url == URL
        ]
    assert (listed.versions, listed.retracted) == (1, 0)


async def test_passages_of_a_page_that_was_read_are_not_stored(agent_graph: AgentGraph) -> None:
    page = found(FIRST, f"…\n{SECOND}\n…")
    page.reads.append(WHOLE)
    await store_run(agent_graph, page)
    await store_run(agent_graph, found(SECOND))
    assert await stored(agent_graph) == [(WHOLE, False)]
    changed = found("A sentence that is new.")
    changed.reads.append(WHOLE.replace("3 mines", "4 mines"))
    await store_run(agent_graph, changed)
    assert [has_passages for _, has_passages in await stored(agent_graph)].count(False) == 2
    async with agent_graph.database.transaction() as session:
        pages = await list_pages(agent_access(session, agent_graph.scope))
    assert [each.versions for each in pages if each.url == URL] == [2]


async def test_a_heading_of_one_passage_does_not_stand_above_another(
    agent_graph: AgentGraph,
) -> None:
    await store_run(agent_graph, found("# Zambia\nIt ships copper.", SECOND))
    (source,) = await load_sources(agent_graph)
    assert source.reading is not None
    reading = PageReading.from_json(source.reading)
    heading = reading.heading_above(source.text.index(SECOND))
    assert heading is not None
    assert "Zambia" not in heading.extract(source.text).decode()


async def test_sentences_of_one_address_are_read_together(agent_graph: AgentGraph) -> None:
    """A name in a passage of one run, and the figure in a passage of another."""
    quotes = ("Ghana is a state of West Africa.", "The people number 375 and are few.")
    for quote in quotes:
        await store_run(agent_graph, NumberedPage(URL, passages=[quote]))
    assert len(await load_sources(agent_graph)) == 2
    evidence = [
        EvidenceInput(URL, quotes[0], ("summary",)),
        EvidenceInput(URL, quotes[1], ("summary", "population")),
    ]
    properties = {"summary": "The people number 375.", "population": 375}
    await agent_graph.add_node("Ghana", properties, evidence)
    async with agent_graph.database.transaction() as session:
        assert await breaks(session, agent_graph.scope) == []
