"""The price of a trial's calls, and the output limit that its budget allows."""

import ipaddress
import json
from dataclasses import dataclass
from decimal import Decimal
from pathlib import Path
from typing import Final, Literal
from urllib.parse import urlsplit

from cli.errors import BadInputError
from shared.llm.pricing import TOKENS_PER_PRICE, LongContext, ModelPrice, Prices

FREE: Final = ModelPrice(input=Decimal(0), output=Decimal(0))
LEAST_OUTPUT_TOKENS: Final = 1024
_PART_OF_BUDGET: Final = Decimal("0.4")
"""Share of the budget that the output of one answer may cost, so that several calls fit."""


@dataclass(frozen=True)
class TrialPrice:
    price: ModelPrice
    source: Literal["listed", "given", "own_server", "fallback"]

    def sentence(self) -> str:
        """Describes the price and where it comes from."""
        usd = f"{self.price.input:f} USD in and {self.price.output:f} USD out per million tokens"
        return {
            "listed": f"{usd}, from the price list",
            "given": f"{usd}, as given with --price",
            "own_server": "nothing, because the model is not in the price list and its server is on this machine or a "
            "private network. If its calls are billed, set their price with --price IN,OUT",
            "fallback": f"{usd}: the FALLBACK price, because the model is not in the price list. Set its price with "
            "--price IN,OUT",
        }[self.source]


def price_of(prices: Prices, model: str, url: str, price: str | None) -> TrialPrice:
    """The price to count at. Raises BadInputError if `price` is not a price."""
    if price is not None:
        return TrialPrice(_parse_price(price), "given")
    if (listed := prices.listed(model)) is not None:
        return TrialPrice(listed, "listed")
    if _is_own(url):
        return TrialPrice(FREE, "own_server")
    return TrialPrice(prices.of_model(model), "fallback")


def output_limit(price: ModelPrice, budget_usd: Decimal, usual_tokens: int) -> int:
    """The output limit of an answer: `usual_tokens`, or less if the budget requires it.

    The maximum cost of a call is reserved before it is sent: with a limit above the budget no call could be sent.
    Raises BadInputError if the budget is too small for any call.
    """
    if price.output == 0:
        return usual_tokens
    affordable = int(budget_usd * _PART_OF_BUDGET * TOKENS_PER_PRICE / price.output)
    if affordable < LEAST_OUTPUT_TOKENS:
        minimum = LEAST_OUTPUT_TOKENS * price.output / TOKENS_PER_PRICE / _PART_OF_BUDGET
        raise BadInputError(
            f"a budget of {budget_usd:f} USD is too small at {price.output:f} USD per million output tokens: "
            f"use at least --budget-usd {minimum:.2f}"
        )
    return min(usual_tokens, affordable)


def write_prices(file: Path, prices: Prices, model: str, price: ModelPrice) -> None:
    """Writes the trial's price list: the model's price, and zero for the search service, which is the sandbox."""
    lines = [
        f"as_of = {prices.as_of.isoformat()}",
        "[fallback]",
        f"input = {prices.fallback.input:f}",
        f"output = {prices.fallback.output:f}",
        "operation = 0",
        "[models]",
        f"{json.dumps(model)} = {_as_toml(price)}",
        "[operations]",
    ]
    file.write_text("\n".join(lines) + "\n")


def _as_toml(price: ModelPrice) -> str:
    plain = _tokens(price)
    if (long := price.long_context) is not None:
        plain += f", long_context = {{ above_tokens = {long.above_tokens}, {_tokens(long)} }}"
    return f"{{ {plain} }}"


def _tokens(price: ModelPrice | LongContext) -> str:
    cached = "" if price.cached_input is None else f"cached_input = {price.cached_input:f}, "
    return f"input = {price.input:f}, {cached}output = {price.output:f}"


def _parse_price(text: str) -> ModelPrice:
    try:
        usd_in, usd_out = (Decimal(part.strip()) for part in text.split(","))
        return ModelPrice(input=usd_in, output=usd_out)
    except (ValueError, ArithmeticError) as error:
        raise BadInputError(
            f"--price {text!r} is not a price: enter USD per million input and output tokens, such as 0.15,0.60"
        ) from error


def _is_own(url: str) -> bool:
    """Whether the URL is this machine or a private address."""
    host = urlsplit(url).hostname or ""
    if host == "localhost" or host.endswith((".localhost", ".local", ".internal")):
        return True
    try:
        return ipaddress.ip_address(host).is_private
    except ValueError:
        return False
