"""What refuses a request before its route runs: foreign hosts and pages, rates, body sizes, JSON that is not valid.

A body is at most `VIGIL_MAX_BODY_BYTES` long, counted while it arrives, whatever its Content-Length
says; the server limits headers to 64 KiB. A body is JSON of limited depth, with characters that
PostgreSQL can store.
"""

from collections import OrderedDict
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from http import HTTPStatus
from ipaddress import ip_address
from math import ceil
from time import monotonic
from typing import Any, Final
from urllib.parse import urlsplit

from fastapi import Request
from starlette.datastructures import Headers, MutableHeaders
from starlette.exceptions import HTTPException
from starlette.requests import HTTPConnection
from starlette.responses import Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from services.api.auth.middleware import CALLER, address_of, is_same_origin, origin_of
from services.api.http.problem_details import ProblemError, problem_response
from shared.accounts.authentication import Caller

LOOPBACK: Final = frozenset({"127.0.0.1", "localhost", "::1"})


class HostGuard:
    """Rejects unknown host names (DNS rebinding) and requests from pages of other origins."""

    def __init__(self, app: ASGIApp, hosts: Iterable[str], public_url: str) -> None:
        """`hosts` are accepted names without ports, in addition to loopback's. Pages of `public_url` are accepted
        whatever the host is, since a proxy may replace it.

        IP addresses are always accepted: a page can make its own name resolve to this machine, but
        not an address.
        """
        self._app = app
        self._public_url = public_url
        self._hosts = LOOPBACK | {host.lower().strip("[]") for host in hosts}

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "http" and (refusal := self._refusal(Headers(scope=scope))):
            await refusal(scope, receive, send)
            return
        await self._app(scope, receive, send)

    def _refusal(self, headers: Headers) -> Response | None:
        host = headers.get("host", "")
        name = _host_name(host)
        if name not in self._hosts and not _is_address(name):
            detail = f"The API does not accept the host name {host!r}."
            if name:
                detail += f" If this is its name, start it with VIGIL_ALLOWED_HOSTS={name}."
            return problem_response(403, "foreign-host", detail)
        origin = headers.get("origin")
        if origin is not None and not is_same_origin(origin, headers, self._public_url):
            return problem_response(
                403,
                "foreign-page",
                f"Pages from {origin} may not use this API, which was called as {host} and has the public URL "
                f"{origin_of(self._public_url)}. If {origin} is its address behind a proxy, start Vigil with "
                f"VIGIL_PUBLIC_URL={origin}, or let the proxy pass on the header Host.",
            )
        return None


def _host_name(host: str) -> str | None:
    """Returns the host without its port; None where it is invalid."""
    try:
        return urlsplit(f"//{host}").hostname
    except ValueError:
        return None


def _is_address(name: str | None) -> bool:
    try:
        ip_address(name or "")
    except ValueError:
        return False
    return True


MAX_DEPTH: Final = 64
MAX_LENGTH_DIGITS: Final = 18
"""Digits of a Content-Length; a longer one is rejected without parsing."""
JSON: Final = "application/json"
_WITH_BODY: Final = frozenset({"POST", "PUT", "PATCH"})


class BodyLimit:
    """Rejects bodies that are too long: before reading where Content-Length says so, else when the limit is passed."""

    def __init__(self, app: ASGIApp, max_bytes: int) -> None:
        self._app = app
        self._max_bytes = max_bytes

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        length = Headers(scope=scope).get("content-length", "")
        if length.isdecimal() and (
            len(length) > MAX_LENGTH_DIGITS or int(length) > self._max_bytes
        ):
            detail = f"The body is longer than the {self._max_bytes:,} bytes that the API accepts."
            refusal = problem_response(HTTPStatus.REQUEST_ENTITY_TOO_LARGE, None, detail)
            await refusal(scope, receive, send)
            return
        arrived_bytes = 0

        async def receive_limited() -> Message:
            nonlocal arrived_bytes
            message = await receive()
            arrived_bytes += len(message.get("body", b""))
            if arrived_bytes > self._max_bytes:
                # FastAPI passes only this exception through from the code that reads the body.
                raise HTTPException(HTTPStatus.REQUEST_ENTITY_TOO_LARGE)
            return message

        await self._app(scope, receive_limited, send)


async def validate_request(request: Request) -> None:
    """Validates the request of an API route.

    Raises ProblemError for content that cannot be parsed or stored.
    """
    if not _is_storable(request.url.path) or "%00" in request.url.query:
        raise _invalid_body_error(
            HTTPStatus.BAD_REQUEST, "The address contains the character NUL: leave it out."
        )
    if request.method in _WITH_BODY and await request.body():
        _refuse_other_media(request)
        try:
            body = await request.json()
        except (ValueError, RecursionError) as error:
            raise _invalid_body_error(
                HTTPStatus.BAD_REQUEST, f"The body is not valid JSON: {error}."
            ) from error
        _refuse_unstorable(body)


def _refuse_other_media(request: Request) -> None:
    content_type = request.headers.get("content-type", "")
    media_type = content_type.partition(";")[0].strip().lower()
    if media_type != JSON and not (
        media_type.startswith("application/") and media_type.endswith("+json")
    ):
        raise ProblemError(
            HTTPStatus.UNSUPPORTED_MEDIA_TYPE,
            "no-json",
            f"The body is declared as {content_type!r}: send JSON, with Content-Type: {JSON}.",
        )


def _refuse_unstorable(body: Any) -> None:
    for value, depth in _walk_values(body):
        if depth > MAX_DEPTH:
            raise _invalid_body_error(
                HTTPStatus.UNPROCESSABLE_ENTITY,
                f"The body is nested more than {MAX_DEPTH} levels deep: use fewer levels.",
            )
        if isinstance(value, str) and not _is_storable(value):
            raise _invalid_body_error(
                HTTPStatus.UNPROCESSABLE_ENTITY,
                "The body contains the character NUL or half of a surrogate pair, which cannot be stored: leave it out.",
            )


def _walk_values(body: Any) -> Iterator[tuple[Any, int]]:
    """Yields every value and key with its depth.

    Iterative, because the depth is what is checked.
    """
    pending = [(body, 1)]
    while pending:
        value, depth = pending.pop()
        yield value, depth
        if isinstance(value, dict):
            pending += ((item, depth + 1) for pair in value.items() for item in pair)
        elif isinstance(value, list):
            pending += ((row, depth + 1) for row in value)


def _is_storable(text: str) -> bool:
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return "\x00" not in text


def _invalid_body_error(status: HTTPStatus, detail: str) -> ProblemError:
    return ProblemError(status, "unreadable", detail)


MAX_CALLERS: Final = 10_000
"""Callers that are remembered; beyond that the least recent one is forgotten and starts with a full bucket."""
UNLIMITED_PATHS: Final = ("/health/", "/metrics")
"""Paths of monitoring systems, which are not limited."""


@dataclass
class _Bucket:
    tokens: float
    at: float
    """Clock time in seconds."""


@dataclass(frozen=True)
class RateLimitDecision:
    """The decision for one request."""

    allowed: bool
    left: int
    """Further requests that are allowed at once."""
    wait_seconds: int
    """Seconds until the next request is allowed; 0 if it is allowed now."""


class Buckets:
    def __init__(self, per_second: float, burst: int, clock: Callable[[], float]) -> None:
        self.burst = burst
        self._per_second = per_second
        self._clock = clock
        self._of: OrderedDict[str, _Bucket] = OrderedDict()

    def take(self, caller: str) -> RateLimitDecision:
        now = self._clock()
        bucket = self._of.pop(caller, None) or _Bucket(self.burst, now)
        self._of[caller] = bucket
        if len(self._of) > MAX_CALLERS:
            self._of.popitem(last=False)
        refilled = bucket.tokens + (now - bucket.at) * self._per_second
        bucket.tokens, bucket.at = min(self.burst, refilled), now
        is_allowed = bucket.tokens >= 1
        if is_allowed:
            bucket.tokens -= 1
        wait = 0.0 if bucket.tokens >= 1 else (1 - bucket.tokens) / self._per_second
        return RateLimitDecision(is_allowed, int(bucket.tokens), ceil(wait))


class RateLimit:
    """Rate limit middleware: token buckets per authenticated user, or per address on paths without authentication.

    Headers of the response have the remaining requests.
    """

    def __init__(self, app: ASGIApp, *, per_second: float, burst: int) -> None:
        self._app = app
        self._buckets = Buckets(per_second, burst, monotonic)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http" or scope["path"].startswith(UNLIMITED_PATHS):
            await self._app(scope, receive, send)
            return
        # Not by values that a client can invent, such as an unchecked token: each would be a new caller.
        caller: Caller | None = scope.get(CALLER)
        key = address_of(HTTPConnection(scope)) if caller is None else str(caller.user_id)
        decision = self._buckets.take(key)
        headers = {
            "RateLimit-Limit": str(self._buckets.burst),
            "RateLimit-Remaining": str(decision.left),
            "RateLimit-Reset": str(decision.wait_seconds),
        }
        if not decision.allowed:
            refusal = problem_response(
                HTTPStatus.TOO_MANY_REQUESTS,
                "too-fast",
                f"You are sending more requests than the API allows for one caller. Try again in {decision.wait_seconds} s.",
                headers={**headers, "Retry-After": str(decision.wait_seconds)},
            )
            await refusal(scope, receive, send)
            return

        async def send_with_headers(message: Message) -> None:
            if message["type"] == "http.response.start":
                MutableHeaders(scope=message).update(headers)
            await send(message)

        await self._app(scope, receive, send_with_headers)
