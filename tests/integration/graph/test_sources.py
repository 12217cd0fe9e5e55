"""Pages: stored, dated, found again, and deleted when nothing cites them."""

import asyncio
from collections.abc import Callable, Coroutine
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any, Final
from uuid import UUID

import pytest
from sqlalchemy import delete, select, update

from services.api.resources.sources import model as provenance
from services.api.resources.sources.model import list_pages
from services.observer.news import store_query
from services.observer.news_items import Item
from services.researcher.acquisition import headings
from services.scheduler import pruning_sql
from services.scheduler.scheduler import Ticker
from shared.database.engine import Database
from shared.database.locks import shared_write_lock
from shared.database.statements import Batch
from shared.database.tables import Agent, Evidence, Source, Step
from shared.enums import NewsKind, RetentionKind, StepKind, StepStatus
from shared.graph import elements, entity_resolution
from shared.graph.provenance import integrity
from shared.graph.provenance.evidence import EvidenceInput
from shared.graph.provenance.numbered_pages import NumberedPage, RunPages
from shared.graph.provenance.page_reading import PASSAGE_BREAK, PageReading
from shared.graph.provenance.sources import (
    PASSAGES_KEY,
    find_pages,
    known_pages,
    list_recent_urls,
    page_storing,
    store_pages,
)
from shared.graph.retraction import retractions
from shared.graph.scope import GraphScope
from shared.tools import Json
from shared.urls import page_key
from shared.web_search.tools import KnownOfPages
from shared.workflow import iterations
from tests.support.api.access import agent_access
from tests.support.graph.agent_graph import COUNTRY, PAGE, AgentGraph, make_agent_graph
from tests.support.graph.verification import breaks
from tests.support.retention.history import History
from tests.support.retention.pruning import prune_after
from tests.support.sql_capture import captured_statements
from tests.support.table_rows import change

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


NEWS_URL = "https://news.example/fire"
BY_FEED = datetime(2026, 11, 20, 9, tzinfo=UTC)
BY_SEARCH = datetime(2026, 11, 22, tzinfo=UTC)


async def _found_by_feed(
    graph: AgentGraph, published: datetime | None, url: str = NEWS_URL
) -> None:
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


@pytest.mark.parametrize(
    "url", [NEWS_URL, f"{NEWS_URL}/", f"{NEWS_URL}#top", "https://NEWS.example/fire"]
)
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
    await _store(agent_graph, NumberedPage(NEWS_URL, "Fire", "2026-11-22", passages=["A fire."]))
    assert await _known(agent_graph, NEWS_URL) == BY_SEARCH
    await _store(agent_graph, NumberedPage(NEWS_URL, reads=["A fire stopped furnace 3."]))
    assert await _stored(agent_graph) == [BY_SEARCH, BY_SEARCH]


@pytest.mark.parametrize("published", [None, datetime(2999, 1, 1, tzinfo=UTC)])
async def test_a_feed_without_a_possible_date_gives_none(
    agent_graph: AgentGraph, published: datetime | None
) -> None:
    await _found_by_feed(agent_graph, published)
    assert await _known(agent_graph, NEWS_URL) is None


def test_a_page_that_is_read_has_the_date_that_the_search_gave() -> None:
    run = RunPages("fire")
    found = {
        "url": NEWS_URL,
        "content": "A fire stopped furnace 3.",
        "published_date": "2026-11-22",
    }
    run.show_passages({"results": [found]})
    page = {
        "url": NEWS_URL,
        "content": "A fire stopped furnace 3 at Larne.",
        "published_date": None,
    }
    shown = run.show_reads({"results": [page]}).result
    assert shown is not None
    assert shown["results"][0]["published_date"] == "2026-11-22"


@pytest.mark.parametrize("own", [None, "2026-11-22"])
def test_the_model_and_the_document_have_the_known_date_unless_a_result_has_its_own(
    own: str | None,
) -> None:
    known = KnownOfPages(published={NEWS_URL: BY_FEED.isoformat()})
    run = RunPages("fire")
    found = known.dated({"url": NEWS_URL, "content": "A fire stopped furnace 3."})
    shown = run.show_passages({"results": [found]}).result
    assert shown is not None
    assert shown["results"][0]["published_date"].startswith("2026-11-20")
    page = {"url": NEWS_URL, "content": "A fire stopped furnace 3 at Larne.", "published_date": own}
    run.show_reads({"results": [known.dated(page)]})
    assert f"Published: {own or '2026-11-20'}" in headings(run.pages)[0]


def test_the_observer_is_shown_the_date_of_a_new_document() -> None:
    item = Item(UUID(int=1), NewsKind.DOCUMENT, NEWS_URL, "Fire", BY_FEED, published=BY_FEED)
    assert item.line == f"- new document: Fire: {NEWS_URL} (published 2026-11-20)"


OTHER_URL: Final = "https://other.example/ghana"
WORDS: Final = "Ghana is a state in Africa. Its people number 3."


async def read_page(agent_graph: AgentGraph, url: str = OTHER_URL) -> None:
    page = {"url": url, "title": "Ghana, Gana", "content": WORDS}
    await agent_graph.store_search_results({"results": [page]})


async def urls(agent_graph: AgentGraph) -> set[str]:
    async with agent_graph.database.snapshot() as session:
        return set(await session.scalars(select(Source.url)))


async def prune(agent_graph: AgentGraph, days: float = 31) -> int:
    pruned = await prune_after(agent_graph.database, days, RetentionKind.PAGES)
    async with agent_graph.database.snapshot() as session:
        assert await breaks(session, agent_graph.scope) == []
    return pruned[RetentionKind.PAGES]


async def cite(agent_graph: AgentGraph, url: str, name: str = "Ghana") -> UUID:
    async with agent_graph.database.transaction() as session:
        added = await elements.add_node(
            session,
            agent_graph.scope,
            agent_graph.validators,
            type_name="Country",
            name=name,
            properties=COUNTRY,
            evidence=[EvidenceInput(url, WORDS)],
        )
        return added.id


async def test_a_page_is_kept_while_it_is_cited(agent_graph: AgentGraph) -> None:
    await read_page(agent_graph)
    await cite(agent_graph, OTHER_URL)
    assert await prune(agent_graph) == 1
    assert await urls(agent_graph) == {OTHER_URL}


async def test_a_page_is_kept_until_it_is_old(agent_graph: AgentGraph) -> None:
    assert await prune(agent_graph, 29) == 0
    assert await urls(agent_graph) == {PAGE["url"]}


async def test_a_deleted_page_can_be_read_and_cited_again(agent_graph: AgentGraph) -> None:
    await read_page(agent_graph)
    assert await prune(agent_graph) == 2
    await read_page(agent_graph)
    await cite(agent_graph, OTHER_URL)
    assert await prune(agent_graph) == 0


async def test_a_retracted_page_is_kept(agent_graph: AgentGraph) -> None:
    """Otherwise it could be cited again when it is read again."""
    await read_page(agent_graph)
    async with agent_graph.database.transaction() as session:
        await retractions.retract_source(session, agent_graph.scope, OTHER_URL, "made up")
    assert await prune(agent_graph) == 1
    assert await urls(agent_graph) == {OTHER_URL}


async def test_a_page_is_kept_that_is_cited_again_when_a_merge_is_undone(
    agent_graph: AgentGraph,
) -> None:
    await read_page(agent_graph)
    kept, merged = await cite(agent_graph, OTHER_URL), await cite(agent_graph, OTHER_URL, "Gana")
    async with agent_graph.database.transaction() as session:
        merge = await entity_resolution.merge_nodes(
            session,
            agent_graph.scope,
            kept_id=kept,
            merged_id=merged,
            reason="One thing.",
            made_by=agent_graph.scope.owner_id,
        )
        assert merge is not None
    # As if nothing but the merge knew of the page: the checks of the graph are not made.
    async with agent_graph.database.transaction() as session:
        rows = list((await session.execute(select(Evidence.__table__))).mappings())
        await session.execute(delete(Evidence))
    assert await prune_after(agent_graph.database, 31, RetentionKind.PAGES) == {
        RetentionKind.PAGES: 1
    }
    async with agent_graph.database.transaction() as session:
        await session.insert_all(Evidence, [dict(row) for row in rows])
    async with agent_graph.database.transaction() as session:
        await entity_resolution.undo_merge(session, agent_graph.scope, merge.id)
    async with agent_graph.database.snapshot() as session:
        assert len(set(await session.scalars(select(Evidence.source_id)))) == 1
        assert await breaks(session, agent_graph.scope) == []


async def run_iteration(history: History) -> None:
    await history.iterate(is_open=True)


async def wait_for_an_answer(history: History) -> None:
    step_id = await history.converse(1)
    async with history.database.transaction() as session:
        await session.update(Step, step_id, status=StepStatus.PENDING)


async def fail_a_query(history: History) -> None:
    await history.fail_step((await history.iterate()).id)


async def retry_a_query(history: History) -> None:
    iteration = await history.iterate()
    async with history.database.transaction() as session:
        step = (
            await session.scalars(
                select(Step).where(Step.iteration_id == iteration.id, Step.kind == StepKind.QUERY)
            )
        ).one()
        step = await change(session, step, status=StepStatus.FAILED)
        step = await change(
            session,
            step,
            retry_requested_at=step.ended_at + timedelta(seconds=1) if step.ended_at else None,
        )


@pytest.mark.parametrize("work", [run_iteration, wait_for_an_answer, fail_a_query, retry_a_query])
async def test_no_page_is_deleted_while_a_step_may_cite_it(
    agent_graph: AgentGraph, work: Callable[[History], Coroutine[Any, Any, None]]
) -> None:
    """A page that is read again and has not changed is not stored again."""
    async with agent_graph.database.transaction() as session:
        agent = await session.get_one(Agent, agent_graph.scope.agent_id)
    await work(History(agent_graph.database, agent))
    assert await prune(agent_graph) == 0


async def test_no_page_is_deleted_while_the_graph_is_written(agent_graph: AgentGraph) -> None:
    async with agent_graph.database.transaction() as session:
        await shared_write_lock(session, agent_graph.scope.agent_id)
        assert await prune(agent_graph) == 0
    assert await prune(agent_graph) == 1


async def test_no_iteration_starts_while_pages_are_deleted(agent_graph: AgentGraph) -> None:
    """The scheduler skips an agent that is locked, and starts its iteration at the next tick."""
    database = agent_graph.database
    async with database.transaction() as session:
        row = await session.get_one(Agent, agent_graph.scope.agent_id)
        row = await change(session, row, run_requested_at=await iterations.database_time(session))
    ticker = Ticker(database, 60)
    async with database.transaction() as session:
        await session.execute(pruning_sql.STOP_AGENT, {"agent": agent_graph.scope.agent_id})
        assert await ticker.tick() == []
    assert len(await ticker.tick()) == 1
