"""The fetch client follows robots.txt, waits its turn at each host, and limits what it reads."""

import gzip
import tracemalloc
import zlib
from collections.abc import AsyncIterator, Callable, Sequence
from ipaddress import ip_address

import httpx
import pytest

from shared.fetch import client as fetch_client
from shared.fetch.addresses import Address
from shared.fetch.client import MAX_BYTES, FetchClient, FetchError, Gateway, Seen
from shared.fetch.transport import CheckedTransport
from tests.support.case_files import read_cases

CASES = read_cases(__file__)

PAGE = "https://example.org/page"
Handler = Callable[[httpx.Request], httpx.Response]


class Web:
    """Answers by address, records the requests, and has a clock that only sleep moves."""

    def __init__(self, **pages: Handler) -> None:
        self.pages = {f"https://example.org/{path}": page for path, page in pages.items()}
        self.requests: list[httpx.Request] = []
        self.slept: list[float] = []
        self.now = 1000.0

    def client(self) -> FetchClient:
        return FetchClient(
            httpx.MockTransport(self._answer), clock=lambda: self.now, sleep=self._sleep
        )

    @property
    def paths(self) -> list[str]:
        return [str(request.url) for request in self.requests]

    def _answer(self, request: httpx.Request) -> httpx.Response:
        self.requests.append(request)
        page = self.pages.get(str(request.url))
        if page is None:
            return httpx.Response(404)
        return page(request)

    async def _sleep(self, seconds: float) -> None:
        self.slept.append(seconds)
        self.now += seconds


def answer(
    status: int = 200, body: bytes | str = b"", media_type: str = "text/html", **headers: str
) -> Handler:
    """Each request gets a response of its own, whose body is sent as it is."""
    content = body.encode() if isinstance(body, str) else body
    named = {name.replace("_", "-"): value for name, value in headers.items()}

    def respond(_: httpx.Request) -> httpx.Response:
        head = {"content-type": media_type, **named}
        return httpx.Response(status, stream=_Bytes(content), headers=head)

    return respond


def html(text: str = "<p>Hello</p>", **headers: str) -> Handler:
    return answer(200, text, **headers)


class _Bytes(httpx.AsyncByteStream):
    """A body that httpx does not decode."""

    def __init__(self, content: bytes) -> None:
        self._content = content

    async def __aiter__(self) -> AsyncIterator[bytes]:
        for start in range(0, len(self._content), 65_536):
            yield self._content[start : start + 65_536]


async def refused(web: Web, url: str = PAGE) -> str:
    with pytest.raises(FetchError) as error:
        await web.client().fetch(url)
    return str(error.value)


async def test_a_page_is_fetched_with_its_validators() -> None:
    web = Web(page=html(etag='"1"', last_modified="Fri, 27 Nov 2026 09:00:00 GMT"))
    fetched = await web.client().fetch(PAGE)
    assert (fetched.body, fetched.media_type) == (b"<p>Hello</p>", "text/html")
    assert fetched.seen == Seen('"1"', "Fri, 27 Nov 2026 09:00:00 GMT")
    assert web.paths == ["https://example.org/robots.txt", PAGE]
    assert web.requests[1].headers["user-agent"].startswith("Vigil/")


async def test_an_unchanged_page_has_no_body() -> None:
    def not_modified(request: httpx.Request) -> httpx.Response:
        assert request.headers["if-none-match"] == '"1"'
        return httpx.Response(304, headers={"etag": '"1"'})

    fetched = await Web(page=not_modified).client().fetch(PAGE, Seen('"1"'))
    assert (fetched.body, fetched.seen.etag) == (None, '"1"')


async def test_robots_txt_is_read_once_and_followed() -> None:
    robots = answer(200, "User-agent: *\nDisallow: /private\n")
    web = Web(**{"robots.txt": robots, "page": html(), "private/x": html()})
    client = web.client()
    await client.fetch(PAGE)
    with pytest.raises(FetchError, match=r"robots\.txt does not allow"):
        await client.fetch("https://example.org/private/x")
    await client.fetch(PAGE)
    assert web.paths.count("https://example.org/robots.txt") == 1
    assert "https://example.org/private/x" not in web.paths


async def test_a_rule_for_vigil_stands_above_that_for_all() -> None:
    robots = answer(200, "User-agent: *\nDisallow: /\n\nUser-agent: Vigil\nAllow: /\n")
    assert (await Web(**{"robots.txt": robots, "page": html()}).client().fetch(PAGE)).body


@pytest.mark.parametrize(
    ("status", "is_allowed"), [(404, True), (403, True), (500, False), (503, False)]
)
async def test_without_robots_txt_all_is_allowed_and_nothing_while_the_server_fails(
    status: int, is_allowed: bool
) -> None:
    web = Web(**{"robots.txt": answer(status), "page": html()})
    if is_allowed:
        assert (await web.client().fetch(PAGE)).body
    else:
        assert "cannot be read at the moment" in await refused(web)


async def test_robots_txt_is_read_again_after_a_day() -> None:
    web = Web(page=html())
    client = web.client()
    await client.fetch(PAGE)
    web.now += fetch_client.ROBOTS_SECONDS + 1
    await client.fetch(PAGE)
    assert web.paths.count("https://example.org/robots.txt") == 2


async def test_requests_to_a_host_have_a_pause_between_them() -> None:
    web = Web(page=html())
    client = web.client()
    for _ in range(3):
        await client.fetch(PAGE)
    assert web.slept == [fetch_client.PAUSE_SECONDS] * 3, "after robots.txt and two pages"


async def test_a_longer_crawl_delay_is_kept() -> None:
    robots = answer(200, "User-agent: *\nCrawl-delay: 7\n")
    web = Web(**{"robots.txt": robots, "page": html()})
    client = web.client()
    await client.fetch(PAGE)
    await client.fetch(PAGE)
    assert web.slept[-1] == 7


async def test_a_host_that_asks_for_a_pause_gets_it() -> None:
    web = Web(page=answer(429, retry_after="90"))
    client = web.client()
    with pytest.raises(FetchError, match="answered 429"):
        await client.fetch(PAGE)
    web.pages[PAGE] = html()
    with pytest.raises(FetchError, match="asks clients to wait 90 s"):
        await client.fetch(PAGE)
    assert web.paths.count(PAGE) == 1, "the wait is too long, so the host is not requested"
    web.now += 85
    await client.fetch(PAGE)
    assert web.slept[-1] == 5


async def test_validators_that_cannot_be_sent_back_are_dropped() -> None:
    def respond(_: httpx.Request) -> httpx.Response:
        head = [(b"etag", '"v\u00e9"'.encode()), (b"content-type", b"text/html")]
        return httpx.Response(200, stream=_Bytes(b"x"), headers=head)

    assert (await Web(page=respond).client().fetch(PAGE)).seen.etag is None


async def test_robots_txt_may_be_of_any_type() -> None:
    robots = answer(200, "User-agent: *\nDisallow: /page\n", "binary/octet-stream")
    assert "does not allow" in await refused(Web(**{"robots.txt": robots, "page": html()}))


async def test_redirects_are_followed_and_each_is_checked() -> None:
    web = Web(
        page=answer(302, location="/moved#part"),
        moved=html("<p>Moved</p>"),
    )
    fetched = await web.client().fetch(PAGE)
    assert (fetched.url, fetched.body) == ("https://example.org/moved", b"<p>Moved</p>")


@pytest.mark.parametrize("location", CASES["a_redirect_elsewhere_is_refused"])
async def test_a_redirect_elsewhere_is_refused(location: str) -> None:
    web = Web(page=answer(301, location=location))
    assert await refused(web)
    assert len(web.requests) == 2


async def test_a_circle_of_redirects_ends() -> None:
    web = Web(page=answer(302, location=PAGE))
    assert "more than 5 redirects" in await refused(web)


async def test_a_redirect_to_a_private_address_is_refused() -> None:
    async def resolve(host: str, _: int) -> Sequence[Address]:
        return [ip_address({"inner.example": "169.254.169.254"}.get(host, "127.0.0.1"))]

    transport = CheckedTransport(resolve, private=False, setting="VIGIL_FETCH_PRIVATE")
    client = FetchClient(transport)
    with pytest.raises(FetchError, match="robots"):
        await client.fetch("http://inner.example/latest/meta-data")
    with pytest.raises(FetchError):
        await client.fetch("http://127.0.0.1/")
    await client.close()


async def test_a_body_that_is_too_long_is_refused() -> None:
    longest = "x" * MAX_BYTES
    assert (await Web(page=html(longest)).client().fetch(PAGE)).body == longest.encode()
    assert "longer than" in await refused(Web(page=html(longest + "x")))


async def test_a_decompression_bomb_is_not_unpacked() -> None:
    bomb = gzip.compress(b"0" * (50 * MAX_BYTES))
    assert len(bomb) < MAX_BYTES / 10
    tracemalloc.start()
    assert "longer than" in await refused(Web(page=answer(200, bomb, content_encoding="gzip")))
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert peak < 4 * MAX_BYTES


async def test_a_long_robots_txt_is_cut() -> None:
    rules = "User-agent: *\nDisallow: /page\n" + "# more\n" * 100_000
    assert "does not allow" in await refused(
        Web(**{"robots.txt": answer(200, rules, "text/plain"), "page": html()})
    )


async def test_a_compressed_page_is_read() -> None:
    page = answer(200, gzip.compress(b"<p>Hello</p>"), content_encoding="gzip")
    assert (await Web(page=page).client().fetch(PAGE)).body == b"<p>Hello</p>"


@pytest.mark.parametrize(
    ("encoding", "body"), [("gzip", b"no gzip"), ("br", b"x"), ("deflate", zlib.compress(b"x"))]
)
async def test_an_encoding_that_was_not_asked_for_is_refused(encoding: str, body: bytes) -> None:
    assert await refused(Web(page=answer(200, body, content_encoding=encoding)))


@pytest.mark.parametrize("media_type", ["video/mp4", "application/zip", "image/png"])
async def test_other_types_are_refused(media_type: str) -> None:
    assert media_type in await refused(Web(page=answer(200, b"x", media_type)))


@pytest.mark.parametrize(
    "url",
    [
        "",
        "example.org",
        "ftp://example.org/",
        "http://",
        "https://u:p@example.org/",
        "http://example.org:25/",
        "http://[::1",
        "https://example.org/" + "x" * 3000,
        "https://example.org/\n",
    ],
)
async def test_an_address_that_cannot_be_fetched_is_refused_before_any_request(url: str) -> None:
    web = Web()
    assert await refused(web, url)
    assert web.requests == []


async def test_a_gateway_is_asked_for_every_page() -> None:
    seen: list[httpx.Request] = []

    def respond(request: httpx.Request) -> httpx.Response:
        seen.append(request)
        return html(etag='"2"')(request)

    client = FetchClient(
        httpx.MockTransport(respond), gateway=Gateway("http://gateway.local/page", "secret")
    )
    fetched = await client.fetch("https://example.org/a#b c", Seen('"1"'))
    assert (fetched.url, fetched.seen.etag) == ("https://example.org/a#b c", '"2"')
    (request,) = seen
    assert dict(request.url.params) == {"url": "https://example.org/a#b c"}
    assert request.headers["authorization"] == "Bearer secret"
    assert request.headers["if-none-match"] == '"1"'
