"""What the api does not take: too much, too deep, too fast, and what is no JSON."""

import json
from collections.abc import AsyncIterator
from typing import Any

import httpx
import pytest

from shared.runtime.settings import Settings
from tests.support.api.asking import MISSION, assert_problem, client_of

JSON = {"content-type": "application/json"}
LIMIT = 4096


@pytest.fixture
async def small(database_url: str) -> AsyncIterator[httpx.AsyncClient]:
    async with client_of(Settings(database_url=database_url, max_body_bytes=LIMIT)) as client:
        yield client


async def test_a_long_body_is_refused_whatever_its_head_says(small: httpx.AsyncClient) -> None:
    body = json.dumps({"mission": MISSION, "name": "x" * LIMIT}).encode()

    async def in_pieces() -> AsyncIterator[bytes]:
        for at in range(0, len(body), 100):
            yield body[at : at + 100]

    assert_problem(await small.post("/agents", content=body, headers=JSON), 413, "longer")
    assert_problem(await small.post("/agents", content=in_pieces(), headers=JSON), 413, "longer")
    fits = json.dumps({"mission": MISSION}).encode().ljust(LIMIT)
    assert (await small.post("/agents", content=fits, headers=JSON)).status_code == 201


@pytest.mark.parametrize(
    ("body", "media_type", "status", "word"),
    [
        (b"{", "application/json", 422, "no JSON"),
        (b"\xff\xfe{}", "application/json", 422, "no JSON"),
        (b'{"a": "\xc3\x28"}', "application/json", 400, ""),
        (b"[" * 100_000, "application/json", 400, ""),
        (b'{"a":' * 65 + b"1" + b"}" * 65, "application/json", 422, "64 deep"),
        (b'{"mission": "long enough \\u0000 indeed"}', "application/json", 422, "NUL"),
        (b'{"mission": "long enough \\ud800 indeed"}', "application/json", 422, "surrogate"),
        (b'{"\\u0000": 1}', "application/json", 422, "NUL"),
        (b"mission=x", "application/x-www-form-urlencoded", 415, "send JSON"),
        (b"{}", "text/plain", 415, "send JSON"),
        (b"{}", "application/problem+json", 422, "mission"),
        (b"", "application/json", 422, ""),
    ],
)
async def test_a_body_that_cannot_be_is_refused(
    api: httpx.AsyncClient, body: bytes, media_type: str, status: int, word: str
) -> None:
    answer = await api.post("/agents", content=body, headers={"content-type": media_type})
    assert_problem(answer, status, word)


@pytest.mark.parametrize(
    "path", ["/agents/a%00b", "/agents?search=a%00", "/agents/%ff", "/agents/a/nodes?type=%00"]
)
async def test_no_address_breaks_it(api: httpx.AsyncClient, path: str) -> None:
    answer = await api.get(path)
    assert_problem(answer, 404 if "%ff" in path else 400)


async def test_who_asks_too_fast_is_told_when_to_go_on(database_url: str) -> None:
    told: dict[str, Any] = {"requests_burst": 3, "requests_per_second": 0.01}
    async with client_of(Settings(database_url=database_url, **told)) as client:
        answers = [await client.get("/agents") for _ in range(5)]
        assert [answer.status_code for answer in answers] == [200, 200, 200, 429, 429]
        left = [answer.headers["ratelimit-remaining"] for answer in answers]
        assert left == ["2", "1", "0", "0", "0"]
        assert_problem(answers[3], 429, "go on in")
        assert 90 <= int(answers[3].headers["retry-after"]) <= 100
        assert answers[0].headers["ratelimit-limit"] == "3"
        assert (await client.get("http://127.0.0.1/health/live")).status_code == 200
