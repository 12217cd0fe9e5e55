"""Foreign text is read in processes that are killed when a page takes too long."""

import asyncio
from collections.abc import AsyncIterator

import pytest

from shared.fetch.client import Fetched, FetchError
from shared.fetch.feeds import parse_feed
from shared.fetch.pages import page_content
from shared.graph.provenance import page_reading
from shared.graph.provenance.page_reading import read_page
from shared.runtime.foreign_text import ForeignTextReader
from shared.runtime.worker_processes import WorkerPool

URL = "https://example.com/"
PAGE = Fetched(
    URL,
    b"<p>Oslo has <b>48</b> airports.<link rel=alternate type=application/rss+xml href=/f>",
    "text/html",
    "utf-8",
)
ENDLESS = Fetched(
    URL,
    b"<p " + b" ".join(b"a%d=1" % number for number in range(300_000)) + b">",
    "text/html",
    "utf-8",
)
"""The parser compares each attribute with all before it."""
FEED = b"<rss><item><link>https://example.com/1</link><title>One</title></item></rss>"


@pytest.fixture
async def reader() -> AsyncIterator[ForeignTextReader]:
    reader = ForeignTextReader(seconds=3, in_thread_bytes=0)
    yield reader
    await reader.close()


async def test_a_process_reads_what_the_functions_read(reader: ForeignTextReader) -> None:
    assert await reader.page_content(PAGE) == page_content(PAGE)
    assert await reader.feed_entries(FEED, URL) == parse_feed(FEED, URL)
    with pytest.raises(FetchError, match="not a feed"):
        await reader.feed_entries(b"<html/>", URL)


async def test_a_page_that_takes_too_long_fails_alone(reader: ForeignTextReader) -> None:
    outcomes = await asyncio.gather(
        *(reader.page_content(page) for page in (PAGE, ENDLESS, PAGE, ENDLESS, PAGE)),
        return_exceptions=True,
    )
    assert outcomes[::2] == [page_content(PAGE)] * 3
    for failed in outcomes[1::2]:
        assert isinstance(failed, FetchError)
        assert "more than 3 seconds" in str(failed)


async def test_pages_of_a_search_are_read_before_the_event_loop_needs_them(
    reader: ForeignTextReader, monkeypatch: pytest.MonkeyPatch
) -> None:
    text = "Oslo has 48 airports. Bergen has 3 of them."
    answer = {"results": [{"url": URL, "content": text}, {"url": URL}]}
    assert await reader.readable(answer) == answer
    monkeypatch.delattr(page_reading, "_read")
    assert len(read_page(text).sentences) == 2


async def test_an_unreadable_page_of_a_search_is_left_out_and_explained() -> None:
    reader = ForeignTextReader(seconds=0.0, in_thread_bytes=0)
    try:
        answer = await reader.readable({"results": [{"url": URL, "content": "Oslo is a city."}]})
    finally:
        await reader.close()
    assert answer["results"] == []
    assert answer["failed"][0]["url"] == URL
    assert "not read" in answer["failed"][0]["error"]


async def test_no_process_starts_before_the_first_page(monkeypatch: pytest.MonkeyPatch) -> None:
    started: list[str] = []
    start = WorkerPool._start

    async def count(pool: WorkerPool) -> asyncio.subprocess.Process:
        started.append("process")
        return await start(pool)

    monkeypatch.setattr(WorkerPool, "_start", count)
    reader = ForeignTextReader(in_thread_bytes=0)
    assert started == []
    await asyncio.gather(*(reader.page_content(PAGE) for _ in range(8)))
    assert len(started) <= 2
    await reader.close()
