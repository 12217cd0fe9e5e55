"""An agent with an archive date neither finds nor reads what was published later."""

from datetime import UTC, date, datetime
from typing import Final
from uuid import UUID

import pytest
from sqlalchemy import update

from services.observer.news import store_query
from services.observer.news_items import Item
from shared.database.tables import Agent
from shared.enums import NewsKind
from shared.graph.provenance.claims import parse_published
from shared.tools import Json
from shared.web_search.tools import Archive, TavilySearch, conversation_search
from tests.support.case_files import read_cases
from tests.support.injection.web import Web
from tests.support.model_server import make_resumable_call
from tests.support.researching import (
    PAGE,
    Researcher,
    query_that_reads,
    reading,
    searching,
)
from tests.support.surveys import NOW

CASES = read_cases(__file__)

SAME_DAY, LATER, UNDATED = (
    f"https://{name}.example/1" for name in ("same-day", "later", "undated")
)
PUBLISHED: Final = {PAGE.url: "2024-02-01", SAME_DAY: "2024-03-01", LATER: "2024-03-02"}
QUERY = query_that_reads(LATER, UNDATED)
ARCHIVE: Final = date(2024, 3, 1)


@pytest.fixture
def web() -> Web:
    return Web(other_urls=(SAME_DAY, LATER, UNDATED), published=PUBLISHED)


async def archive(researcher: Researcher, day: date | None) -> None:
    async with researcher.database.transaction() as session:
        await session.execute(update(Agent).values(archive_date=day))


def _urls(answer: Json) -> set[str]:
    return {page["url"] for page in answer["results"]}


async def test_later_results_are_left_out_with_a_note_and_not_stored(
    researcher: Researcher,
) -> None:
    await archive(researcher, ARCHIVE)
    await researcher.run([searching()])
    [found] = await researcher.answers()
    assert researcher.web.dates == [{"end_date": "2024-03-01"}]
    assert _urls(found) == {PAGE.url, SAME_DAY, UNDATED}
    assert "published after 2024-03-01, which is today: 1." in found["note"]
    assert LATER not in str(found)
    assert await researcher.stored_urls() == {PAGE.url, SAME_DAY, UNDATED}


@pytest.mark.parametrize(("time_range", "start"), CASES["a_time_range_ends_on_the_archive_date"])
async def test_a_time_range_ends_on_the_archive_date(
    researcher: Researcher, time_range: str, start: str
) -> None:
    await archive(researcher, ARCHIVE)
    await researcher.run([searching(timeRange=time_range)])
    assert researcher.web.dates == [{"start_date": start, "end_date": "2024-03-01"}]


async def test_without_an_archive_date_no_page_is_too_late(researcher: Researcher) -> None:
    await researcher.run([searching(timeRange="week")])
    [found] = await researcher.answers()
    assert researcher.web.dates == [{"time_range": "week"}]
    assert _urls(found) == {PAGE.url, SAME_DAY, LATER, UNDATED}
    assert found.keys() == {"results"}


async def test_a_page_that_a_feed_dates_later_is_not_read(researcher: Researcher) -> None:
    published = datetime(2024, 3, 5, tzinfo=UTC)
    item = Item(UUID(int=1), NewsKind.DOCUMENT, LATER, "Later", NOW, published=published)
    await researcher.database.run(store_query(researcher.victim.scope, [], [item]))
    await archive(researcher, ARCHIVE)
    await researcher.run([reading(LATER, UNDATED)])
    [read] = await researcher.answers()
    assert researcher.web.read == [UNDATED]
    [failed] = read["failed"]
    assert failed["url"] == LATER
    assert "published after 2024-03-01, which is today" in failed["error"]


async def test_a_research_is_not_offered_since_it_has_no_dates(researcher: Researcher) -> None:
    await archive(researcher, ARCHIVE)
    question = {"name": "tavilyResearch", "arguments": {"input": "Who mines lithium, and where?"}}
    await researcher.run([question])
    assert researcher.web.researched == []


async def test_an_answer_for_another_date_is_not_used_again(researcher: Researcher) -> None:
    for day, searches in (
        (None, 1),
        (ARCHIVE, 2),
        (ARCHIVE, 2),
        (date(2024, 3, 2), 3),
        (None, 3),
    ):
        await archive(researcher, day)
        await researcher.run([searching()])
        assert len(researcher.web.searched) == searches, day


async def test_a_conversation_finds_no_later_page(researcher: Researcher) -> None:
    archive = Archive.of(ARCHIVE, parse_published)
    tool = conversation_search(researcher.search, archive=archive)
    found = await tool.call(TavilySearch(query="lithium"), make_resumable_call())
    assert _urls(found) == {PAGE.url, SAME_DAY, UNDATED}
    assert "published after 2024-03-01" in found["note"]
    assert researcher.web.dates == [{"end_date": "2024-03-01"}]
