"""How fast one caller may ask: a token bucket for each, in this process's memory.

With several api replicas behind a balancer each counts for itself, so a caller has up to that many times as much; and
a replica that restarts has forgotten. That is enough for what it is there for, one caller who would take the api from
all others; it is no quota.
"""

from collections import OrderedDict
from collections.abc import Callable
from dataclasses import dataclass
from http import HTTPStatus
from math import ceil
from time import monotonic
from typing import Final

from starlette.datastructures import MutableHeaders
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from services.api.problems import problem
from shared.runtime.connections import counted_as

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
