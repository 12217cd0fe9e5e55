"""Looking at a research that the search service does for us: failed looks, and what they may cost."""

from collections.abc import AsyncIterator, Iterable, Iterator
from contextlib import asynccontextmanager
from typing import Any

import pytest
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route

from shared.billing import resumable_call
from shared.billing.resumable_call import MAX_FAILED_POLLS
from shared.errors import PermanentError, TransientError
from shared.tools import Json, ToolRefusalError
from shared.web_search.client import SearchClient
from tests.support.sandbox.serving import running_app

PENDING = (200, {"status": "pending"})
AWAY = (503, {"detail": {"error": "away"}})
CUT = (200, None)
"""An answer that is no JSON."""
DONE = (200, {"status": "completed", "content": "Found.", "sources": [{"title": "A", "url": "b"}]})

Answer = tuple[int, Any]


class Service:
    """Takes one order after the other; answers looks as it is told to, with the last for ever."""

    def __init__(self, looks: Iterable[Answer]) -> None:
        self.orders = 0
        self.looks = 0
        self._answers: Iterator[Answer] = iter(looks)

    def app(self) -> Starlette:
        return Starlette(
            routes=[
                Route("/research", self._order, methods=["POST"]),
                Route("/research/{request_id}", self._look),
                Route("/health", self._health),
            ]
        )

    async def _order(self, request: Request) -> Response:
        self.orders += 1
        return JSONResponse({"request_id": "r", "status": "pending"})

    async def _look(self, request: Request) -> Response:
        self.looks += 1
        status, body = next(self._answers)
        return Response(b"{", status) if body is None else JSONResponse(body, status)

    async def _health(self, request: Request) -> Response:
        return JSONResponse({})


@asynccontextmanager
async def researching(*looks: Answer) -> AsyncIterator[tuple[SearchClient, Service]]:
    service = Service([*looks])
    async with running_app(service.app()) as url:
        client = SearchClient(api_key="key", base_url=url, timeout_seconds=5)
        yield client, service
        await client.close()


@pytest.fixture(autouse=True)
def _fast(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(resumable_call, "FIRST_POLL_SECONDS", 0.001)
    monkeypatch.setattr(resumable_call, "MAX_POLL_SECONDS", 0.001)


async def researched(client: SearchClient) -> Json:
    return await client.collect_research(await client.order_research("lithium"))


async def test_a_failed_look_is_no_reason_to_order_another_research() -> None:
    async with researching(PENDING, AWAY, CUT, PENDING, AWAY, DONE) as (client, service):
        found = await researched(client)
    assert found == {"content": "Found.", "sources": [{"title": "A", "url": "b"}]}
    assert (service.orders, service.looks) == (1, 6)


async def test_failed_looks_count_only_in_a_row() -> None:
    failed = (AWAY,) * MAX_FAILED_POLLS
    async with researching(*failed, PENDING, *failed, DONE) as (client, service):
        assert (await researched(client))["content"] == "Found."
    assert service.orders == 1


async def test_a_service_that_stays_away_is_given_up_and_may_be_asked_later() -> None:
    async with researching(*[AWAY] * (MAX_FAILED_POLLS + 1), DONE) as (client, service):
        with pytest.raises(TransientError, match="503"):
            await researched(client)
    assert (service.orders, service.looks) == (1, MAX_FAILED_POLLS + 1)


async def test_a_key_that_is_refused_in_between_is_given_up_at_once() -> None:
    refused = (401, {"detail": {"error": "no such key"}})
    async with researching(PENDING, refused, DONE) as (client, service):
        with pytest.raises(PermanentError, match="TAVILY_API_KEY"):
            await researched(client)
    assert service.looks == 2


async def test_a_research_that_failed_is_refused_in_words() -> None:
    async with researching(PENDING, (200, {"status": "failed"})) as (client, _):
        with pytest.raises(ToolRefusalError, match="'failed'; use tavilySearch"):
            await researched(client)
