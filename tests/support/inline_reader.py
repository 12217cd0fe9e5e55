"""Reads pages and feeds in the process of the test."""

from shared.fetch.client import Fetched
from shared.fetch.feeds import FeedEntry, parse_feed
from shared.fetch.pages import PageContent, page_content
from shared.runtime.foreign_text import ForeignTextReader


class InlineReader(ForeignTextReader):
    async def page_content(self, page: Fetched) -> PageContent:
        return page_content(page)

    async def feed_entries(self, body: bytes, url: str) -> list[FeedEntry]:
        return parse_feed(body, url)
