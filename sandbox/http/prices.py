"""What the sandbox would charge, in USD: what those charge whom it stands in for, so that costs can be seen and tested."""

from collections.abc import Mapping
from decimal import Decimal
from typing import Any, Final

INPUT_USD: Final = Decimal("0.75")
OUTPUT_USD: Final = Decimal("4.50")
"""For a million tokens."""
EMBEDDING_USD: Final = Decimal("0.02")
"""Likewise, of what is embedded."""
OPERATIONS_USD: Final = {
    "search": Decimal("0.008"),
    "search_advanced": Decimal("0.016"),
    "extract": Decimal("0.008"),
    "extract_advanced": Decimal("0.016"),
    "research": Decimal("2.00"),
}

_MILLION: Final = 1_000_000


def tokens_usd(usage: Mapping[str, int]) -> Decimal:
    """Of an answer's usage, as chat completions tell it."""
    spent = usage["prompt_tokens"] * INPUT_USD + usage["completion_tokens"] * OUTPUT_USD
    return spent / _MILLION


def embedding_usd(tokens: int) -> Decimal:
    return tokens * EMBEDDING_USD / _MILLION


def operation_usd(kind: str, body: Mapping[str, Any]) -> Decimal:
    """Of one call of the search service."""
    depth = body.get("search_depth") or body.get("extract_depth")
    return OPERATIONS_USD[f"{kind}_advanced" if depth == "advanced" else kind]
