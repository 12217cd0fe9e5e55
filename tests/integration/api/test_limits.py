"""Requests that the API rejects: too large, too deep, too frequent or not JSON."""

import json
from collections.abc import AsyncIterator
from typing import Any

import httpx
import pytest

from shared.runtime.settings import Settings
from tests.support.api.clients import MISSION, assert_problem, create_client

JSON = {"content-type": "application/json"}
LIMIT = 4096


@pytest.fixture
async def small(database_url: str) -> AsyncIterator[httpx.AsyncClient]:
    async with create_client(Settings(database_url=database_url, max_body_bytes=LIMIT)) as client:
        yield client


async def test_a_long_body_is_rejected_with_and_without_content_length(
    small: httpx.AsyncClient,
) -> None:
    body = json.dumps({"mission": MISSION, "name": "x" * LIMIT}).encode()

    async def chunks() -> AsyncIterator[bytes]:
        for start in range(0, len(body), 100):
            yield body[start : start + 100]

    assert_problem(await small.post("/agents", content=body, headers=JSON), 413, "longer")
    assert_problem(await small.post("/agents", content=chunks(), headers=JSON), 413, "longer")
    fits = json.dumps({"mission": MISSION}).encode().ljust(LIMIT)
    assert (await small.post("/agents", content=fits, headers=JSON)).status_code == 201


INVALID_BODIES = [
    (b"{", "application/json", 422, "not valid JSON"),
    (b"\xff\xfe{}", "application/json", 422, "not valid JSON"),
    (b'{"a": "\xc3\x28"}', "application/json", 400, ""),
    (b"[" * 100_000, "application/json", 400, ""),
    (b'{"a":' * 65 + b"1" + b"}" * 65, "application/json", 422, "64 levels deep"),
    (b'{"mission": "long enough \\u0000 indeed"}', "application/json", 422, "NUL"),
    (b'{"mission": "long enough \\ud800 indeed"}', "application/json", 422, "surrogate"),
    (b'{"\\u0000": 1}', "application/json", 422, "NUL"),
    (b"mission=x", "application/x-www-form-urlencoded", 415, "send JSON"),
    (b"{}", "text/plain", 415, "send JSON"),
    (b"{}", "application/problem+json", 422, "mission"),
    (b"", "application/json", 422, ""),
]


async def test_an_invalid_body_is_rejected(
    api: httpx.AsyncClient, subtests: pytest.Subtests
) -> None:
    for body, media_type, status, word in INVALID_BODIES:
        with subtests.test(str(body[:60])):
            response = await api.post("/agents", content=body, headers={"content-type": media_type})
            assert_problem(response, status, word)


MALFORMED_URLS = [
    "/agents/a%00b",
    "/agents?search=a%00",
    "/agents/%ff",
    "/agents/a/nodes?type=%00",
]


async def test_a_malformed_url_is_rejected(
    api: httpx.AsyncClient, subtests: pytest.Subtests
) -> None:
    for path in MALFORMED_URLS:
        with subtests.test(path):
            response = await api.get(path)
            assert_problem(response, 404 if "%ff" in path else 400)


async def test_the_request_rate_is_limited_and_the_response_says_when_to_retry(
    database_url: str,
) -> None:
    limits: dict[str, Any] = {"requests_burst": 3, "requests_per_second": 0.01}
    async with create_client(Settings(database_url=database_url, **limits)) as client:
        responses = [await client.get("/agents") for _ in range(5)]
        assert [response.status_code for response in responses] == [200, 200, 200, 429, 429]
        remaining = [response.headers["ratelimit-remaining"] for response in responses]
        assert remaining == ["2", "1", "0", "0", "0"]
        assert_problem(responses[3], 429, "Try again in")
        assert 90 <= int(responses[3].headers["retry-after"]) <= 100
        assert responses[0].headers["ratelimit-limit"] == "3"
        assert (await client.get("http://127.0.0.1/health/live")).status_code == 200
