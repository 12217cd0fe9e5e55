"""The prices of the sandbox's calls, and the meter that counts them."""

from collections import Counter
from collections.abc import Mapping
from decimal import Decimal
from typing import Any, Final, get_args

from sandbox.http.calls import Call, CallKind

INPUT_USD: Final = Decimal("0.75")
OUTPUT_USD: Final = Decimal("4.50")
"""Per million tokens."""
EMBEDDING_USD: Final = Decimal("0.02")
"""Per million tokens of the embedded texts."""
OPERATION_USD: Final = {
    "search": Decimal("0.008"),
    "extract": Decimal("0.008"),
    "research": Decimal("2.00"),
}
"""Per call of basic depth; an advanced search or extract costs twice as much."""
_MILLION: Final = 1_000_000


def tokens_usd(usage: Mapping[str, int]) -> Decimal:
    """The price of an answer, from its usage in chat completions' format."""
    cost = usage["prompt_tokens"] * INPUT_USD + usage["completion_tokens"] * OUTPUT_USD
    return cost / _MILLION


def embedding_usd(tokens: int) -> Decimal:
    return tokens * EMBEDDING_USD / _MILLION


def operation_usd(kind: str, body: Mapping[str, Any]) -> Decimal:
    """The price of one call of the search service."""
    depth = body.get("search_depth") or body.get("extract_depth")
    return OPERATION_USD[kind] * (2 if depth == "advanced" and kind != "research" else 1)


KINDS: tuple[CallKind, ...] = get_args(CallKind)
MAX_HASHES = 200_000
"""Repeated requests are detected among this many different ones."""


class Meter:
    """Counts the calls of one running sandbox, from zero."""

    def __init__(self) -> None:
        self._billed: Counter[CallKind] = Counter()
        self._repeated: Counter[CallKind] = Counter()
        self._usd = Decimal(0)
        self._billed_hashes: dict[str, None] = {}

    def bill(self, call: Call, usd: Decimal) -> None:
        """Count an answered call with its price, whether the answer was delivered or not."""
        request_hash = call.request_hash
        self._usd += usd
        self._billed[call.kind] += 1
        self._repeated[call.kind] += request_hash in self._billed_hashes
        self._billed_hashes[request_hash] = None
        if len(self._billed_hashes) > MAX_HASHES:
            del self._billed_hashes[next(iter(self._billed_hashes))]

    def as_json(self) -> dict[str, Any]:
        """Counts by kind of `billed` and `repeated` (billed again for the same request).

        `usd` is the total price as a string, without loss of precision.
        """
        return {
            "billed": {kind: self._billed[kind] for kind in KINDS},
            "repeated": {kind: self._repeated[kind] for kind in KINDS},
            "total": self._billed.total(),
            "usd": f"{self._usd:f}",
        }
