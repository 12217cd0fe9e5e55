"""Counts what a real provider would have charged for."""

from collections import Counter, deque
from dataclasses import dataclass
from decimal import Decimal
from typing import Any

from sandbox.http.call import Call, CallKind

KINDS: tuple[CallKind, ...] = ("llm", "embedding", "search", "extract", "research")
KEPT_HASHES = 200_000
"""A repetition is noticed within this many different requests."""
KEPT_CALLS = 20_000
"""The detail forgets the oldest calls beyond this many; the counts do not."""


@dataclass(frozen=True, slots=True)
class MeteredCall:
    """One request and how it ended."""

    received: int
    """Its place among all requests, by when it came."""
    answered: int
    """Its place among all requests, by when it was answered."""
    kind: CallKind
    phase: str
    path: str
    request_hash: str
    status: int
    """What was answered; 0 where nothing was."""
    delivered: bool
    """False where the client had gone before the answer, or the answer was cut."""

    def described(self) -> dict[str, Any]:
        """As JSON. A call is billed when it was answered with 200, whether or not anybody was left to read it."""
        facts = {name: getattr(self, name) for name in self.__slots__}
        return {**facts, "billed": self.status == 200}


class Meter:
    """Belongs to one running sandbox; starts at nothing."""

    def __init__(self) -> None:
        self._received = 0
        self._answered = 0
        self._billed: Counter[CallKind] = Counter()
        self._repeated: Counter[CallKind] = Counter()
        self._usd = Decimal(0)
        self._seen: dict[str, None] = {}
        self._calls: deque[MeteredCall] = deque(maxlen=KEPT_CALLS)

    def receive(self) -> int:
        """Note that a request came in; gives its place in that order."""
        self._received += 1
        return self._received

    def record(
        self,
        call: Call,
        received: int,
        status: int,
        *,
        delivered: bool,
        usd: Decimal = Decimal(0),
    ) -> None:
        """Note how it ended, and what was charged."""
        self._usd += usd
        self._answered += 1
        request_hash = call.request_hash
        if status == 200:
            self._billed[call.kind] += 1
            self._repeated[call.kind] += request_hash in self._seen
            self._seen[request_hash] = None
            if len(self._seen) > KEPT_HASHES:
                del self._seen[next(iter(self._seen))]
        self._calls.append(
            MeteredCall(
                received,
                self._answered,
                call.kind,
                call.phase,
                call.path,
                request_hash,
                status,
                delivered,
            )
        )

    def described(self, *, detail: bool) -> dict[str, Any]:
        """`billed` and `repeated` (billed before for the very same request) by kind, and each call where wanted.

        `usd` is what all of it was charged at, as a text, so that nothing of it is lost.
        """
        counts: dict[str, Any] = {
            "billed": {kind: self._billed[kind] for kind in KINDS},
            "repeated": {kind: self._repeated[kind] for kind in KINDS},
            "total": self._billed.total(),
            "usd": f"{self._usd:f}",
        }
        return counts | ({"calls": [call.described() for call in self._calls]} if detail else {})
