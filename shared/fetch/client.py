"""Fetches web pages and feeds, which are not trusted, and does so politely.

Every request, also after a redirect and for robots.txt, goes to a public address that was checked; it is limited in size,
time and type. robots.txt is followed (RFC 9309). Of one host, one page at a time is requested, with a pause between two.
"""

import asyncio
import time
import zlib
from collections import OrderedDict
from collections.abc import Awaitable, Callable
from copy import copy
from dataclasses import dataclass, field, replace
from http import HTTPStatus
from http.cookiejar import CookieJar, DefaultCookiePolicy
from typing import ClassVar, Final, Self
from urllib.parse import quote, urldefrag, urljoin, urlsplit

import httpx
from protego import Protego

from shared.enums import CheckFailure
from shared.errors import VigilError
from shared.fetch.transport import RefusedAddressError
from shared.retry_after import retry_after_seconds
from shared.version import vigil_version

AGENT: Final = "Vigil"
"""The name that robots.txt may address."""
MAX_BYTES: Final = 4 * 1024**2
"""Maximum size of a body after decompression."""
MAX_ROBOTS_BYTES: Final = 500 * 1024
"""RFC 9309: what follows may be ignored."""
MAX_REDIRECTS: Final = 5
MAX_URL_CHARS: Final = 2_000
TIMEOUT_SECONDS: Final = 10.0
"""Time limit of a response with its body. Waiting for the turn at a host does not count."""
CONNECT_SECONDS: Final = 5.0
PAUSE_SECONDS: Final = 1.0
"""Between two requests to one host, unless its robots.txt has a longer Crawl-delay."""
MAX_PAUSE_SECONDS: Final = 60.0
MAX_WAIT_SECONDS: Final = 10.0
"""A host that asks for a longer pause is not requested now."""
CONCURRENCY: Final = 16
"""Requests at a time, to different hosts."""
MAX_RETRY_AFTER_SECONDS: Final = 24 * 3600.0
"""The longest time for which a host may ask not to be requested again."""
ROBOTS_SECONDS: Final = 24 * 3600.0
"""How long a robots.txt is used: RFC 9309 asks for at most a day."""
UNREACHABLE_ROBOTS_SECONDS: Final = 600.0
MAX_HOSTS: Final = 1_000
"""Hosts whose robots.txt and last request are remembered."""
TYPES: Final = (
    "text/",
    "application/xhtml+xml",
    "application/xml",
    "application/rss+xml",
    "application/atom+xml",
    "application/rdf+xml",
    "application/json",
    "application/pdf",
)
"""Beginnings of the media types that are read."""
_REDIRECTS: Final = frozenset({301, 302, 303, 307, 308})
_ENCODINGS: Final = {"gzip": 16 + zlib.MAX_WBITS, "x-gzip": 16 + zlib.MAX_WBITS}
"""Encodings that are asked for, with the window bits of zlib. It decompresses piece by piece, within MAX_BYTES."""


class FetchError(VigilError):
    """The page was not fetched; the message says why."""

    failure: ClassVar[CheckFailure] = CheckFailure.NOT_REACHED


class UnreadableError(FetchError):
    """The page was fetched, but its content cannot be read."""

    failure = CheckFailure.UNREADABLE


class UnsupportedTypeError(FetchError):
    """The page is of a type that is not read."""

    failure = CheckFailure.UNSUPPORTED


@dataclass(frozen=True)
class Seen:
    """The validators of an earlier response, for conditional requests (RFC 9110, section 13)."""

    etag: str | None = None
    last_modified: str | None = None

    @property
    def headers(self) -> dict[str, str]:
        named = {"if-none-match": self.etag, "if-modified-since": self.last_modified}
        return {name: value for name, value in named.items() if value}


UNSEEN: Final = Seen()


@dataclass(frozen=True)
class Fetched:
    """A response. `body` is None if the page has not changed since it was `Seen`."""

    url: str
    """After redirects."""
    body: bytes | None
    media_type: str = ""
    charset: str | None = None
    seen: Seen = field(default_factory=Seen)


@dataclass(frozen=True)
class Gateway:
    """A server that fetches pages for this client: it is trusted, and asked for `{url}?url=…`."""

    url: str
    key: str | None = None
    corpus: str | None = None
    """Also named in requests, if given: which of the sandbox's corpora the page is of."""
    feed: str | None = None
    """The feed of all documents that it serves, if it has one."""

    def address_of(self, url: str) -> str:
        corpus = "" if self.corpus is None else f"&corpus={quote(self.corpus, safe='')}"
        return f"{self.url}?url={quote(url, safe='')}{corpus}"


@dataclass
class _Host:
    """The robots.txt of a host, and the time of its next request."""

    lock: asyncio.Lock = field(default_factory=asyncio.Lock)
    free_at: float = 0.0
    robots: Protego | None = None
    """None: nothing may be fetched, because robots.txt could not be read."""
    robots_until: float = 0.0

    @property
    def pause_seconds(self) -> float:
        delay = self.robots.crawl_delay(AGENT) if self.robots else None
        return min(max(float(delay or 0.0), PAUSE_SECONDS), MAX_PAUSE_SECONDS)


Sleep = Callable[[float], Awaitable[None]]


class FetchClient:
    """Fetches pages. One instance is shared by all that a process fetches, so that the rate of a host holds for all."""

    def __init__(
        self,
        transport: httpx.AsyncBaseTransport,
        *,
        gateway: Gateway | None = None,
        clock: Callable[[], float] = time.monotonic,
        sleep: Sleep = asyncio.sleep,
    ) -> None:
        """`transport` connects to allowed addresses only: see `CheckedTransport`. A `gateway` needs an ordinary one."""
        self._gateway = gateway
        self._clock = clock
        self._sleep = sleep
        self._slots = asyncio.Semaphore(CONCURRENCY)
        self._hosts: OrderedDict[str, _Host] = OrderedDict()
        self._client = httpx.AsyncClient(
            transport=transport,
            timeout=httpx.Timeout(TIMEOUT_SECONDS, connect=CONNECT_SECONDS),
            follow_redirects=False,
            trust_env=False,
            cookies=CookieJar(DefaultCookiePolicy(allowed_domains=[])),
            headers={
                "user-agent": f"{AGENT}/{vigil_version()}",
                "accept": "text/html, application/xhtml+xml, application/atom+xml, application/rss+xml, */*;q=0.5",
                "accept-encoding": "gzip",
            },
        )

    def of_corpus(self, corpus: str | None) -> Self:
        """The same client, whose gateway is asked for pages of that corpus; itself if `corpus` is None."""
        if corpus is None or self._gateway is None:
            return self
        client = copy(self)
        client._gateway = replace(self._gateway, corpus=corpus)
        return client

    @property
    def own_feed(self) -> str | None:
        return None if self._gateway is None else self._gateway.feed

    async def close(self) -> None:
        await self._client.aclose()

    async def fetch(self, url: str, seen: Seen = UNSEEN) -> Fetched:
        """Fetches `url`, if it has changed since it was `seen`. Raises FetchError."""
        try:
            if self._gateway is not None:
                return await self._via_gateway(self._gateway, url, seen)
            for _ in range(MAX_REDIRECTS + 1):
                response = await self._polite_get(_checked(url), seen.headers)
                if isinstance(response, Fetched):
                    return response
                url = urljoin(url, response)
        except TimeoutError as error:
            raise FetchError(f"no response within {TIMEOUT_SECONDS:g} s") from error
        except (RefusedAddressError, httpx.HTTPError, httpx.InvalidURL, ValueError) as error:
            raise FetchError(str(error) or type(error).__name__) from error
        raise FetchError(f"more than {MAX_REDIRECTS} redirects")

    async def _via_gateway(self, gateway: Gateway, url: str, seen: Seen) -> Fetched:
        headers = seen.headers
        if gateway.key is not None:
            headers["authorization"] = f"Bearer {gateway.key}"
        response = await self._get(gateway.address_of(url), headers)
        if isinstance(response, str):
            raise FetchError("the gateway answered with a redirect")
        return Fetched(url, response.body, response.media_type, response.charset, response.seen)

    async def _polite_get(self, url: str, headers: dict[str, str]) -> Fetched | str:
        """The response, or where it redirects to, once robots.txt allows it and the host's turn has come."""
        parts = urlsplit(url)
        host = self._host(f"{parts.scheme}://{parts.netloc}".lower())
        async with host.lock:
            if host.robots_until <= self._clock():
                await self._turn(host)
                await self._read_robots(host, f"{parts.scheme}://{parts.netloc}/robots.txt")
            if host.robots is None:
                raise FetchError("its robots.txt cannot be read at the moment")
            if not host.robots.can_fetch(url, AGENT):
                raise FetchError("its robots.txt does not allow it")
            await self._turn(host)
            try:
                return await self._get(url, headers)
            except _StatusError as error:
                host.free_at = max(host.free_at, self._clock() + error.retry_in_seconds)
                raise

    def _host(self, name: str) -> _Host:
        host = self._hosts.setdefault(name, _Host())
        self._hosts.move_to_end(name)
        for other in list(self._hosts)[: max(len(self._hosts) - MAX_HOSTS, 0)]:
            if not self._hosts[other].lock.locked():
                del self._hosts[other]
        return host

    async def _turn(self, host: _Host) -> None:
        """Waits for the host's turn, and takes it."""
        if (wait := host.free_at - self._clock()) > MAX_WAIT_SECONDS:
            raise FetchError(f"its server asks clients to wait {wait:.0f} s")
        if wait > 0:
            await self._sleep(wait)
        host.free_at = self._clock() + host.pause_seconds

    async def _read_robots(self, host: _Host, url: str) -> None:
        """Reads robots.txt: without one everything is allowed, and nothing while the server fails (RFC 9309)."""
        rules: str | None = None
        try:
            for _ in range(MAX_REDIRECTS + 1):
                response = await self._get(_checked(url), {}, is_robots=True)
                if isinstance(response, Fetched):
                    rules = (response.body or b"").decode("utf-8", errors="replace")
                    break
                url = urljoin(url, response)
        except _StatusError as error:
            rules = "" if error.status < HTTPStatus.INTERNAL_SERVER_ERROR else None
        except (FetchError, TimeoutError, RefusedAddressError, httpx.HTTPError):
            rules = None
        host.robots = None if rules is None else Protego.parse(rules)
        host.robots_until = self._clock() + (
            UNREACHABLE_ROBOTS_SECONDS if rules is None else ROBOTS_SECONDS
        )

    async def _get(
        self, url: str, headers: dict[str, str], *, is_robots: bool = False
    ) -> Fetched | str:
        """The response, or where it redirects to; a body that is too long is an error; robots.txt is cut and of any type."""
        async with (
            self._slots,
            asyncio.timeout(TIMEOUT_SECONDS),
            self._client.stream("GET", url, headers=headers) as response,
        ):
            status = response.status_code
            seen = Seen(_header(response, "etag"), _header(response, "last-modified"))
            if status == HTTPStatus.NOT_MODIFIED:
                return Fetched(url, None, seen=seen)
            if status in _REDIRECTS and (location := _header(response, "location")):
                return location
            if status != HTTPStatus.OK:
                raise _StatusError(status, response.headers.get("retry-after"))
            media_type = response.headers.get("content-type", "").partition(";")[0].strip().lower()
            if media_type and not is_robots and not media_type.startswith(TYPES):
                raise UnsupportedTypeError(f"its type {media_type[:80]!r} is not supported")
            body = await _read(
                response, MAX_ROBOTS_BYTES if is_robots else MAX_BYTES, cut=is_robots
            )
            return Fetched(url, body, media_type, response.charset_encoding, seen)


class _StatusError(FetchError):
    def __init__(self, status: int, retry_after: str | None) -> None:
        super().__init__(f"the server answered {status}")
        self.status = status
        self.retry_in_seconds = (
            retry_after_seconds(retry_after, at_most=MAX_RETRY_AFTER_SECONDS) or 0.0
        )


def _checked(url: str) -> str:
    """`url` without its fragment, if it can be fetched. Raises FetchError."""
    if len(url) > MAX_URL_CHARS or not url.isprintable():
        raise FetchError("its address is too long or contains unprintable characters")
    try:
        parts = urlsplit(url)
        host, port = parts.hostname, parts.port
    except ValueError as error:
        raise FetchError(f"its address cannot be read: {error}") from error
    if parts.scheme not in ("http", "https") or not host:
        raise FetchError("its address does not begin with https:// or http:// and a host")
    if parts.username is not None or parts.password is not None:
        raise FetchError("its address contains a user name or password")
    if port not in (None, 80, 443) and port is not None and port < 1024:
        # Ports of services such as mail and SSH, which misread a request as commands.
        raise FetchError(f"port {port} is not a web port")
    return urldefrag(url).url


def web_address(base: str, reference: str) -> str:
    """The address that a page at `base` refers to; empty if it is not one of the web, or too long to be stored."""
    text = reference.strip()
    try:
        address = urljoin(base, text) if text else ""
        parts = urlsplit(address)
    except ValueError:
        return ""
    is_web = parts.scheme in ("http", "https") and bool(parts.netloc)
    is_plain = address.isprintable() and " " not in address
    return address if is_web and is_plain and len(address.encode()) <= MAX_URL_CHARS else ""


def _header(response: httpx.Response, name: str) -> str | None:
    """None for a header that could not be sent back as it is."""
    value: str | None = response.headers.get(name)
    return value if value and value.isascii() and len(value) <= MAX_URL_CHARS else None


async def _read(response: httpx.Response, max_bytes: int, *, cut: bool) -> bytes:
    encoding = response.headers.get("content-encoding", "identity").strip().lower() or "identity"
    if encoding != "identity" and encoding not in _ENCODINGS:
        raise UnreadableError(f"it is encoded as {encoding[:40]!r}, which was not requested")
    unpacked = zlib.decompressobj(_ENCODINGS[encoding]) if encoding in _ENCODINGS else None
    body = bytearray()
    async for piece in response.aiter_raw():
        room = max_bytes + 1 - len(body)
        try:
            body += piece[:room] if unpacked is None else unpacked.decompress(piece, room)
        except zlib.error as error:
            raise UnreadableError(f"its compression cannot be read: {error}") from error
        if len(body) > max_bytes:
            if cut:
                break
            raise UnreadableError(f"it is longer than {max_bytes:,} bytes")
    return bytes(body[:max_bytes])
