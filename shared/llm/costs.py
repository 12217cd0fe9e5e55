"""What a call costs."""

from collections.abc import Mapping
from decimal import Decimal

TOKENS_PER_PRICE = Decimal(1_000_000)

Prices = Mapping[str, tuple[float, float]]
"""Model to USD for a million tokens, input and output."""


def cost_usd(
    prices: Prices, model: str, input_tokens: int | None, output_tokens: int | None
) -> Decimal | None:
    """None where the price or the tokens are not known, which is not the same as free."""
    if model not in prices or input_tokens is None or output_tokens is None:
        return None
    input_price, output_price = (Decimal(str(price)) for price in prices[model])
    return (input_tokens * input_price + output_tokens * output_price) / TOKENS_PER_PRICE
