"""Polling a research of the search service: failed polls, and how many researches are ordered."""

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
from tests.support.sandbox.server import running_app

PENDING = (200, {"status": "pending"})
AWAY = (503, {"detail": {"error": "away"}})
CUT = (200, None)
"""A response that is not JSON."""
DONE = (200, {"status": "completed", "content": "Found.", "sources": [{"title": "A", "url": "b"}]})

Answer = tuple[int, Any]


class Service:
    """A search service that accepts every order and answers the polls with `responses`, in order."""

    def __init__(self, responses: Iterable[Answer]) -> None:
        self.orders = 0
        self.polls = 0
        self._answers: Iterator[Answer] = iter(responses)

    def app(self) -> Starlette:
        return Starlette(
            routes=[
                Route("/research", self._order, methods=["POST"]),
                Route("/research/{request_id}", self._poll),
                Route("/health", self._health),
            ]
        )

    async def _order(self, request: Request) -> Response:
        self.orders += 1
        return JSONResponse({"request_id": "r", "status": "pending"})

    async def _poll(self, request: Request) -> Response:
        self.polls += 1
        status, body = next(self._answers)
        return Response(b"{", status) if body is None else JSONResponse(body, status)

    async def _health(self, request: Request) -> Response:
        return JSONResponse({})


@asynccontextmanager
async def researching(*responses: Answer) -> AsyncIterator[tuple[SearchClient, Service]]:
    service = Service([*responses])
    async with running_app(service.app()) as url:
        client = SearchClient(api_key="key", base_url=url, timeout_seconds=5)
        yield client, service
        await client.close()


@pytest.fixture(autouse=True)
def _fast(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(resumable_call, "FIRST_POLL_SECONDS", 0.001)
    monkeypatch.setattr(resumable_call, "MAX_POLL_SECONDS", 0.001)


async def run_research(client: SearchClient) -> Json:
    return await client.collect_research(await client.order_research("lithium"))


async def test_a_failed_poll_orders_no_second_research() -> None:
    async with researching(PENDING, AWAY, CUT, PENDING, AWAY, DONE) as (client, service):
        result = await run_research(client)
    assert result == {"content": "Found.", "sources": [{"title": "A", "url": "b"}]}
    assert (service.orders, service.polls) == (1, 6)


async def test_only_consecutive_failed_polls_count() -> None:
    failed = (AWAY,) * MAX_FAILED_POLLS
    async with researching(*failed, PENDING, *failed, DONE) as (client, service):
        assert (await run_research(client))["content"] == "Found."
    assert service.orders == 1


async def test_too_many_failed_polls_are_a_transient_error() -> None:
    async with researching(*[AWAY] * (MAX_FAILED_POLLS + 1), DONE) as (client, service):
        with pytest.raises(TransientError, match="503"):
            await run_research(client)
    assert (service.orders, service.polls) == (1, MAX_FAILED_POLLS + 1)


async def test_a_rejected_key_ends_the_polling_at_once() -> None:
    unauthorized = (401, {"detail": {"error": "no such key"}})
    async with researching(PENDING, unauthorized, DONE) as (client, service):
        with pytest.raises(PermanentError, match="TAVILY_API_KEY"):
            await run_research(client)
    assert service.polls == 2


async def test_a_failed_research_is_refused_with_an_alternative() -> None:
    async with researching(PENDING, (200, {"status": "failed"})) as (client, _):
        with pytest.raises(ToolRefusalError, match="'failed'; use tavilySearch"):
            await run_research(client)
