"""The search of the reference iteration; a module of its own, so that only the researcher imports it."""

import asyncio
from collections.abc import Sequence
from datetime import date

from bench.loop.scripted_model import Query
from shared.tools import Json
from shared.web_search.client import SearchClient


class InstantSearch(SearchClient):
    def __init__(self, delay_seconds: float) -> None:
        super().__init__(api_key="none", base_url=None, timeout_seconds=1.0)
        self._delay_seconds = delay_seconds

    async def search(
        self,
        query: str,
        *,
        max_results: int,
        topic: str | None,
        time_range: str | None,
        exclude_domains: Sequence[str] = (),
        archive_date: date | None = None,
    ) -> Json:
        if self._delay_seconds:
            await asyncio.sleep(self._delay_seconds)
        return {"results": [Query.parse(query).page]}
