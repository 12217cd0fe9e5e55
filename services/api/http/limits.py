"""Limits of requests: rates and sizes of bodies.

A body is no longer than `VIGIL_MAX_BODY_BYTES`, counted while it arrives, whatever its Content-Length says; the head is
held to 64 KiB by the server. What is in them is JSON, of a sane depth, in characters that Postgres can store.
"""

from collections import OrderedDict
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from http import HTTPStatus
from math import ceil
from time import monotonic
from typing import Any, Final

from fastapi import Request
from starlette.datastructures import Headers, MutableHeaders
from starlette.exceptions import HTTPException
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from services.api.http.problem_details import ProblemError, problem
from shared.runtime.connection_limits import counted_as

DEEPEST: Final = 64
LONGEST_LENGTH: Final = 18
"""Digits of a Content-Length; a longer one is too much without being read."""
JSON: Final = "application/json"
_WITH_BODY: Final = frozenset({"POST", "PUT", "PATCH"})


class BodyLimit:
    """Refuses a longer body: before it is sent where it says how long it is, else where it becomes too long."""

    def __init__(self, app: ASGIApp, max_bytes: int) -> None:
        self._app = app
        self._max_bytes = max_bytes

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        length = Headers(scope=scope).get("content-length", "")
        if length.isdecimal() and (len(length) > LONGEST_LENGTH or int(length) > self._max_bytes):
            told = f"The body is longer than the {self._max_bytes:,} bytes that this api takes."
            refusal = problem(HTTPStatus.REQUEST_ENTITY_TOO_LARGE, None, told)
            await refusal(scope, receive, send)
            return
        await self._app(scope, self._counted(receive), send)

    def _counted(self, receive: Receive) -> Receive:
        arrived_bytes = 0

        async def counted() -> Message:
            nonlocal arrived_bytes
            message = await receive()
            arrived_bytes += len(message.get("body", b""))
            if arrived_bytes > self._max_bytes:
                # FastAPI lets this through from where it reads the body, and nothing else.
                raise HTTPException(HTTPStatus.REQUEST_ENTITY_TOO_LARGE)
            return message

        return counted


async def readable(request: Request) -> None:
    """For every route of the api. Raises ProblemError where the request holds what cannot be read or stored."""
    if not _storable(request.url.path) or "%00" in request.url.query:
        raise _refused(
            HTTPStatus.BAD_REQUEST, "The address holds the character NUL, which names nothing here."
        )
    if request.method in _WITH_BODY and await request.body():
        _refuse_other_media(request)
        try:
            body = await request.json()
        except (ValueError, RecursionError) as error:
            raise _refused(HTTPStatus.BAD_REQUEST, f"The body is no JSON: {error}.") from error
        _refuse_unstorable(body)


def _refuse_other_media(request: Request) -> None:
    given = request.headers.get("content-type", "")
    media_type = given.partition(";")[0].strip().lower()
    if media_type != JSON and not (
        media_type.startswith("application/") and media_type.endswith("+json")
    ):
        raise ProblemError(
            HTTPStatus.UNSUPPORTED_MEDIA_TYPE,
            "no-json",
            f"The body is declared as {given!r}: send JSON, with Content-Type: {JSON}.",
        )


def _refuse_unstorable(body: Any) -> None:
    for value, depth in _inside(body):
        if depth > DEEPEST:
            raise _refused(
                HTTPStatus.UNPROCESSABLE_ENTITY,
                f"The body is nested more than {DEEPEST} deep: send it flatter.",
            )
        if isinstance(value, str) and not _storable(value):
            raise _refused(
                HTTPStatus.UNPROCESSABLE_ENTITY,
                "The body holds the character NUL or half of a surrogate pair, which cannot be stored: leave it out.",
            )


def _inside(body: Any) -> Iterator[tuple[Any, int]]:
    """Every value and key with its depth; without recursion, for the depth is what is in question."""
    waiting = [(body, 1)]
    while waiting:
        value, depth = waiting.pop()
        yield value, depth
        if isinstance(value, dict):
            waiting += ((each, depth + 1) for pair in value.items() for each in pair)
        elif isinstance(value, list):
            waiting += ((each, depth + 1) for each in value)


def _storable(text: str) -> bool:
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return "\x00" not in text


def _refused(status: HTTPStatus, told: str) -> ProblemError:
    return ProblemError(status, "unreadable", told)


MOST_CALLERS: Final = 10_000
"""Remembered at once; beyond it, who has not asked for longest is forgotten, and starts with a full bucket."""
FREE: Final = ("/health/", "/metrics")
"""Asked by machines that look after this one, which must not be told to wait."""


def by_address(scope: Scope) -> str:
    """Who asks: the address that the connection comes from, or that a proxy of `VIGIL_PROXIES` names."""
    client = scope.get("client")
    return counted_as(client[0]) if client else ""


@dataclass
class _Bucket:
    tokens: float
    at: float
    """A reading of the clock, in seconds."""


@dataclass(frozen=True)
class Turn:
    """Whether a request may go on."""

    allowed: bool
    left: int
    """Requests that may follow at once."""
    wait_seconds: int
    """Until one may follow; 0 where one may at once."""


class Buckets:
    def __init__(self, per_second: float, burst: int, clock: Callable[[], float]) -> None:
        self.burst = burst
        self._per_second = per_second
        self._clock = clock
        self._of: OrderedDict[str, _Bucket] = OrderedDict()

    def take(self, caller: str) -> Turn:
        now = self._clock()
        bucket = self._of.pop(caller, None) or _Bucket(self.burst, now)
        self._of[caller] = bucket
        if len(self._of) > MOST_CALLERS:
            self._of.popitem(last=False)
        refilled = bucket.tokens + (now - bucket.at) * self._per_second
        bucket.tokens, bucket.at = min(self.burst, refilled), now
        allowed = bucket.tokens >= 1
        if allowed:
            bucket.tokens -= 1
        wait = 0.0 if bucket.tokens >= 1 else (1 - bucket.tokens) / self._per_second
        return Turn(allowed, int(bucket.tokens), ceil(wait))


class Rates:
    """Refuses who asks too fast, and tells everybody how much is left."""

    def __init__(
        self,
        app: ASGIApp,
        *,
        per_second: float,
        burst: int,
        caller_of: Callable[[Scope], str] = by_address,
        clock: Callable[[], float] = monotonic,
    ) -> None:
        """`caller_of` must not believe what anybody can make up, such as an unchecked token: else each is a new caller."""
        self._app = app
        self._buckets = Buckets(per_second, burst, clock)
        self._caller_of = caller_of

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http" or scope["path"].startswith(FREE):
            await self._app(scope, receive, send)
            return
        turn = self._buckets.take(self._caller_of(scope))
        told = self._told(turn)
        if not turn.allowed:
            refusal = problem(
                HTTPStatus.TOO_MANY_REQUESTS,
                "too-fast",
                f"You ask faster than this api answers one caller: go on in {turn.wait_seconds} s.",
                headers={**told, "Retry-After": str(turn.wait_seconds)},
            )
            await refusal(scope, receive, send)
            return

        async def tell(message: Message) -> None:
            if message["type"] == "http.response.start":
                MutableHeaders(scope=message).update(told)
            await send(message)

        await self._app(scope, receive, tell)

    def _told(self, turn: Turn) -> dict[str, str]:
        return {
            "RateLimit-Limit": str(self._buckets.burst),
            "RateLimit-Remaining": str(turn.left),
            "RateLimit-Reset": str(turn.wait_seconds),
        }
