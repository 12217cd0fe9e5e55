"""Answers of a search service that does not keep to its own documentation: each gives usable results or a stated failure."""

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
from tests.support.sandbox.serving import running_app

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
    *({"url": "https://a.example/", "score": score} for score in (-1, 2, "1", True, None, [0.5])),
]
LEFT_OUT: Final[list[Any]] = [
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
async def asking(url: str) -> AsyncIterator[SearchClient]:
    client = SearchClient(api_key="key", base_url=url, timeout_seconds=10)
    yield client
    await client.close()


@dataclass(frozen=True)
class Asked:
    client: SearchClient
    service: Service

    async def of(self, operation: str, body: bytes, status: int = 200, **headers: str) -> Any:
        """What becomes of that answer to the operation."""
        self.service.response = Response(
            body, status, {name.replace("_", "-"): value for name, value in headers.items()}
        )
        return await asked(self.client, operation)


@pytest.fixture
async def answering() -> AsyncIterator[Asked]:
    service = Service()
    async with running_app(service.app()) as url, asking(url) as client:
        yield Asked(client, service)


async def asked(client: SearchClient, operation: str) -> Json | str:
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


async def outcome(answering: Asked, operation: str, body: bytes, status: int) -> Any:
    """A result, or the words of a failure that Vigil foresees; any other error leaves."""
    try:
        return await answering.of(operation, body, status)
    except VigilError as error:
        return str(error)


@pytest.mark.parametrize("operation", ["search", "extract", "order", "collect"])
async def test_what_is_no_answer_is_a_stated_failure_or_an_empty_result(
    answering: Asked, operation: str
) -> None:
    for kind, body in HOSTILE.items():
        found = await outcome(answering, operation, body, 200)
        assert storable(found) == found, kind
        assert len(json.dumps(found)) < 3_000, kind


@pytest.mark.parametrize("status", [201, 204, 302, 400, 401, 403, 404, 429, 432, 500, 503])
async def test_a_status_with_any_body_is_a_stated_failure(answering: Asked, status: int) -> None:
    for kind, body in HOSTILE.items():
        found = await outcome(answering, "search", b"" if status == 204 else body, status)
        assert isinstance(found, str), kind
        assert len(found) < 3_000, kind


async def test_odd_fields_of_results_are_left_out_or_cut(answering: Asked) -> None:
    for item in ODD:
        body = json.dumps({"results": [item, RESULT], "failed_results": [item]}).encode()
        found, read = [await answering.of(each, body) for each in ("search", "extract")]
        odd, plain = found["results"]
        assert plain == RESULT
        assert odd["url"].startswith("https://a.example/")
        for value in odd.values():
            assert isinstance(value, str)
            assert len(value) <= MAX_PAGE_CHARS
        assert len(read["results"]) == 2
        for value in (found, read):
            assert storable(value) == value


async def test_scores_are_shares_or_not_there(answering: Asked) -> None:
    for number in ("NaN", "Infinity", "-Infinity", "1e999", "-1e999", "1e308", "-0.1", "9" * 400):
        body = f'{{"results": [{{"url": "a", "score": {number}}}, {{"url": "b", "score": 0.5}}]}}'
        found = await answering.of("search", body.encode())
        assert [each.get("score") for each in found["results"]] == [None, 0.5], number


async def test_results_that_name_no_page_are_left_out(answering: Asked) -> None:
    body = json.dumps({"results": [*LEFT_OUT, RESULT], "failed_results": []}).encode()
    for operation in ("search", "extract"):
        found = await answering.of(operation, body)
        assert [each["url"] for each in found["results"]] == ["https://a.example/"]


async def test_more_results_than_were_asked_for_are_left_out(answering: Asked) -> None:
    found = await answering.of("search", json.dumps({"results": [RESULT] * 10_000}).encode())
    assert len(found["results"]) == MAX_RESULTS


async def test_an_answer_that_is_too_long_is_not_read_to_its_end() -> None:
    sent = 0

    async def hundred_megabytes(_: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        nonlocal sent
        writer.write(b"HTTP/1.1 200 OK\r\ncontent-length: 104857600\r\n\r\n")
        try:
            while sent < 100 * 1024**2:
                writer.write(b"a" * 65_536)
                await writer.drain()
                sent += 65_536
        except OSError:
            writer.close()

    server = await asyncio.start_server(hundred_megabytes, "127.0.0.1", 0)
    port = server.sockets[0].getsockname()[1]
    async with server, asking(f"http://127.0.0.1:{port}") as client:
        with pytest.raises(TransientError, match="longer than"):
            await asked(client, "search")
    assert sent < 3 * MAX_ANSWER_BYTES


async def test_an_answer_that_never_ends_is_given_up() -> None:
    async def for_ever(_: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n")
        try:
            while True:
                writer.write(b"1\r\n \r\n")
                await writer.drain()
                await asyncio.sleep(0.01)
        except OSError:
            writer.close()

    server = await asyncio.start_server(for_ever, "127.0.0.1", 0)
    url = f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}"
    client = SearchClient(api_key="key", base_url=url, timeout_seconds=0.5)
    async with server:
        with pytest.raises(TransientError, match="VIGIL_SEARCH_TIMEOUT_SECONDS"):
            await asked(client, "search")
        await client.close()


@pytest.mark.parametrize("encoding", ["gzip", "br", "zstd", "gzip, gzip"])
async def test_a_compressed_answer_is_no_longer_than_another(
    answering: Asked, encoding: str
) -> None:
    bomb = gzip.compress(b" " * (4 * MAX_ANSWER_BYTES))
    with pytest.raises(TransientError, match=r"longer than|not asked for"):
        await answering.of("search", bomb, content_encoding=encoding)


async def test_a_wait_is_an_hour_at_most(answering: Asked) -> None:
    waits = {
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
        for asked_for, seconds in waits.items():
            with pytest.raises(TransientError) as failed:
                await answering.of("search", b"{}", status, retry_after=asked_for)
            assert failed.value.retry_in_seconds == seconds, asked_for
            assert failed.value.unbilled
