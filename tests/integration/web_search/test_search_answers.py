"""Responses of a search service that break its documentation: each gives usable results or an explained error."""

import asyncio
import gzip
import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Any, Final

import pytest
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route

from shared.billing import resumable_call
from shared.database.text import storable
from shared.errors import TransientError, VigilError
from shared.tools import Json
from shared.web_search.answers import MAX_ANSWER_BYTES, MAX_PAGE_CHARS, MAX_RESULTS
from shared.web_search.client import SearchClient
from tests.support.sandbox.server import running_app

RESULT: Final = {"title": "A", "url": "https://a.example/", "content": "Text."}
HOSTILE: Final[dict[str, bytes]] = {
    "nothing": b"",
    "half": b'{"results": [{"url": "https://a',
    "html": b"<html>Sign in to the hotel's network</html>",
    "null": b"null",
    "a number": b"1e999",
    "a list": b"[]",
    "deep lists": b'{"results": ' + b"[" * 200_000,
    "deep objects": b'{"results": ' + b'{"a":' * 100_000,
    "closed deep lists": b'{"results": ' + b"[" * 900 + b"]" * 900 + b"}",
    "a huge integer": b'{"results": [{"url": "https://a.example/", "score": '
    + b"9" * 5_000
    + b"}]}",
    "no UTF-8": b'{"results": [{"url": "\xff\xfe"}]}',
    "results is null": b'{"results": null, "failed_results": null, "sources": null}',
    "results is a text": b'{"results": "all", "failed_results": "none", "sources": "some"}',
    "results of texts": b'{"results": ["https://a.example/"], "failed_results": [1], "sources": [null]}',
    "a reference of a path": b'{"request_id": "../search", "status": "completed"}',
    "a reference that is none": b'{"request_id": 7, "status": 7, "content": 7}',
    "a long reference": b'{"request_id": "' + b"a" * 100_000 + b'", "status": "completed"}',
}
ODD: Final[list[dict[str, Any]]] = [
    {"title": 7, "url": "https://a.example/"},
    {"title": ["a"], "url": "https://a.example/", "content": {"a": 1}, "published_date": 20260101},
    {"title": "a" * 1_000_000, "url": "https://a.example/", "published_date": "9" * 1_000_000},
    {"title": "half \ud800 of a character", "url": "https://a.example/\udfff", "content": "\x00"},
    {
        "url": "https://a.example/",
        "content": "a" * (MAX_PAGE_CHARS + 1),
        "raw_content": "b" * 10**6,
    },
    *({"url": "https://a.example/", "score": score} for score in (-1, 2, "one", True, None, [0.5])),
]
WITHOUT_PAGE: Final[list[Any]] = [
    {"url": None},
    {"url": 7},
    {"url": ""},
    {"url": "https://a.example/" + "a" * 2_000},
    {"title": "no address"},
    7,
    None,
    [],
]


class Service:
    """Answers everything with `response`."""

    def __init__(self) -> None:
        self.response: Response = JSONResponse({})

    def app(self) -> Starlette:
        routes = [Route(path, self._answer, methods=["GET", "POST"]) for path in _PATHS]
        return Starlette(routes=[*routes, Route("/health", self._health)])

    async def _answer(self, _: Request) -> Response:
        return self.response

    async def _health(self, _: Request) -> Response:
        return JSONResponse({})


_PATHS: Final = ("/search", "/extract", "/research", "/research/{request_id}")


@asynccontextmanager
async def open_client(url: str) -> AsyncIterator[SearchClient]:
    client = SearchClient(api_key="key", base_url=url, timeout_seconds=10)
    yield client
    await client.close()


@dataclass(frozen=True)
class Harness:
    client: SearchClient
    service: Service

    async def respond(self, operation: str, body: bytes, status: int = 200, **headers: str) -> Any:
        """The result of the operation when the service answers it with that response."""
        self.service.response = Response(
            body, status, {name.replace("_", "-"): value for name, value in headers.items()}
        )
        return await call(self.client, operation)


@pytest.fixture
async def harness() -> AsyncIterator[Harness]:
    service = Service()
    async with running_app(service.app()) as url, open_client(url) as client:
        yield Harness(client, service)


async def call(client: SearchClient, operation: str) -> Json | str:
    match operation:
        case "search":
            return await client.search("lithium", max_results=5, topic=None, time_range=None)
        case "extract":
            return await client.extract(["https://a.example/"])
        case "order":
            return await client.order_research("Where is lithium mined?")
        case _:
            return await client.collect_research("r")


@pytest.fixture(autouse=True)
def _fast(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(resumable_call, "FIRST_POLL_SECONDS", 0.001)
    monkeypatch.setattr(resumable_call, "MAX_POLL_SECONDS", 0.001)


async def outcome(harness: Harness, operation: str, body: bytes, status: int) -> Any:
    """The result, or the text of a Vigil error; any other error propagates."""
    try:
        return await harness.respond(operation, body, status)
    except VigilError as error:
        return str(error)


@pytest.mark.parametrize("operation", ["search", "extract", "order", "collect"])
async def test_an_invalid_response_is_an_explained_error_or_an_empty_result(
    harness: Harness, operation: str
) -> None:
    for kind, body in HOSTILE.items():
        result = await outcome(harness, operation, body, 200)
        assert storable(result) == result, kind
        assert len(json.dumps(result)) < 3_000, kind


@pytest.mark.parametrize("status", [201, 204, 302, 400, 401, 403, 404, 429, 432, 500, 503])
async def test_an_error_status_with_any_body_is_an_explained_error(
    harness: Harness, status: int
) -> None:
    for kind, body in HOSTILE.items():
        message = await outcome(harness, "search", b"" if status == 204 else body, status)
        assert isinstance(message, str), kind
        assert len(message) < 3_000, kind


async def test_invalid_fields_of_results_are_dropped_or_truncated(harness: Harness) -> None:
    for item in ODD:
        body = json.dumps({"results": [item, RESULT], "failed_results": [item]}).encode()
        search, extract = [
            await harness.respond(operation, body) for operation in ("search", "extract")
        ]
        odd, plain = search["results"]
        assert plain == RESULT
        assert odd["url"].startswith("https://a.example/")
        for value in odd.values():
            assert isinstance(value, str)
            assert len(value) <= MAX_PAGE_CHARS
        assert len(extract["results"]) == 2
        for value in (search, extract):
            assert storable(value) == value


async def test_scores_are_between_0_and_1_or_absent(harness: Harness) -> None:
    for number in ("NaN", "Infinity", "-Infinity", "1e999", "-1e999", "1e308", "-0.1", "9" * 400):
        body = f'{{"results": [{{"url": "a", "content": "A", "score": {number}}}, {{"url": "b", "score": "0.5"}}]}}'
        response = await harness.respond("search", body.encode())
        assert [result.get("score") for result in response["results"]] == [None, 0.5], number


async def test_words_of_a_page_are_read_by_the_names_of_other_services(harness: Harness) -> None:
    for name in ("snippet", "text", "description"):
        body = json.dumps({"results": [{"url": "https://a.example/", name: "Words."}]}).encode()
        [result] = (await harness.respond("search", body))["results"]
        assert result["content"] == "Words."
    body = json.dumps({"results": [{"url": "https://a.example/", "content": "Words."}]}).encode()
    [page] = (await harness.respond("extract", body))["results"]
    assert page["content"] == "Words."


async def test_a_search_without_words_of_pages_is_an_error_that_names_the_fields(
    harness: Harness,
) -> None:
    body = json.dumps({"results": [{"url": "https://a.example/", "extract_html": "W"}]}).encode()
    with pytest.raises(TransientError, match="extract_html, url"):
        await harness.respond("search", body)


async def test_results_without_a_url_are_dropped(harness: Harness) -> None:
    body = json.dumps({"results": [*WITHOUT_PAGE, RESULT], "failed_results": []}).encode()
    for operation in ("search", "extract"):
        response = await harness.respond(operation, body)
        assert [result["url"] for result in response["results"]] == ["https://a.example/"]


async def test_results_beyond_the_maximum_are_dropped(harness: Harness) -> None:
    response = await harness.respond("search", json.dumps({"results": [RESULT] * 10_000}).encode())
    assert len(response["results"]) == MAX_RESULTS


async def test_a_response_that_is_too_long_is_not_read_to_its_end() -> None:
    sent_bytes = 0

    async def send_hundred_megabytes(_: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        nonlocal sent_bytes
        writer.write(b"HTTP/1.1 200 OK\r\ncontent-length: 104857600\r\n\r\n")
        try:
            while sent_bytes < 100 * 1024**2:
                writer.write(b"a" * 65_536)
                await writer.drain()
                sent_bytes += 65_536
        except OSError:
            writer.close()

    server = await asyncio.start_server(send_hundred_megabytes, "127.0.0.1", 0)
    port = server.sockets[0].getsockname()[1]
    async with server, open_client(f"http://127.0.0.1:{port}") as client:
        with pytest.raises(TransientError, match="longer than"):
            await call(client, "search")
    assert sent_bytes < 3 * MAX_ANSWER_BYTES


async def test_an_endless_response_times_out() -> None:
    async def send_forever(_: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n")
        try:
            while True:
                writer.write(b"1\r\n \r\n")
                await writer.drain()
                await asyncio.sleep(0.01)
        except OSError:
            writer.close()

    server = await asyncio.start_server(send_forever, "127.0.0.1", 0)
    url = f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}"
    client = SearchClient(api_key="key", base_url=url, timeout_seconds=0.5)
    async with server:
        with pytest.raises(TransientError, match="VIGIL_SEARCH_TIMEOUT_SECONDS"):
            await call(client, "search")
        await client.close()


@pytest.mark.parametrize("encoding", ["gzip", "br", "zstd", "gzip, gzip"])
async def test_the_size_limit_applies_to_the_decompressed_response(
    harness: Harness, encoding: str
) -> None:
    bomb = gzip.compress(b" " * (4 * MAX_ANSWER_BYTES))
    with pytest.raises(TransientError, match=r"longer than|not requested"):
        await harness.respond("search", bomb, content_encoding=encoding)


async def test_a_retry_delay_is_an_hour_at_most(harness: Harness) -> None:
    seconds_by_header = {
        "7": 7.0,
        "-7": 0.0,
        "86400": 3600.0,
        "1e400": 3600.0,
        "9" * 5_000: 3600.0,
        "Fri, 31 Dec 9999 23:59:59 GMT": 3600.0,
        "nan": None,
        "later": None,
    }
    for status in (429, 503):
        for retry_after, seconds in seconds_by_header.items():
            with pytest.raises(TransientError) as error:
                await harness.respond("search", b"{}", status, retry_after=retry_after)
            assert error.value.retry_in_seconds == seconds, retry_after
            assert error.value.is_unbilled
