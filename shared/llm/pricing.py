"""Prices: the cost of an answered call, and the maximum cost of a call before it is sent."""

import re
import tomllib
from collections.abc import Mapping, Sequence
from datetime import date
from decimal import ROUND_CEILING, Decimal
from pathlib import Path
from typing import Annotated, Final

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from shared.errors import PermanentError, describe_invalid_value

SHIPPED: Final = Path(__file__).with_name("prices.toml")
MAX_FAULTS: Final = 3
"""Of a price list, that its error names."""
TOKENS_PER_PRICE: Final = Decimal(1_000_000)

SMALLEST_USD: Final = Decimal("0.00000001")
"""The smallest amount that can be stored. Amounts are rounded up to it."""
LARGEST_USD: Final = Decimal(1_000_000)
"""A call of this cost cannot be stored. Its token usage must be wrong."""

SANDBOX_MODELS: Final = "sandbox-"
SANDBOX_OPERATIONS: Final = "sandbox_"
"""Prefixes of the sandbox's models and operations."""
_FREE: Final = Decimal(0)

Usd = Annotated[Decimal, Field(ge=0, le=10_000)]

_SNAPSHOT: Final = re.compile(r"-\d{4}-\d{2}-\d{2}$")


class _Entry(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)


class _TokenPrice(_Entry):
    """Price in USD per million tokens."""

    input: Usd
    output: Usd
    cached_input: Usd | None = None
    """Of input that the provider reads from its cache; None: as other input."""


class LongContext(_TokenPrice):
    """The price of the whole request if it has more than `above_tokens` input tokens."""

    above_tokens: Annotated[int, Field(ge=0)]


class ModelPrice(_TokenPrice):
    long_context: LongContext | None = None

    def cost_usd(self, input_tokens: int, output_tokens: int, cached_tokens: int = 0) -> Decimal:
        """`cached_tokens` are those of the input that were cached."""
        price: _TokenPrice = self
        if self.long_context is not None and input_tokens > self.long_context.above_tokens:
            price = self.long_context
        cached_input = price.input if price.cached_input is None else price.cached_input
        usd = (
            (input_tokens - cached_tokens) * price.input
            + cached_tokens * cached_input
            + output_tokens * price.output
        ) / TOKENS_PER_PRICE
        return usd.quantize(SMALLEST_USD, ROUND_CEILING)


class Fallback(_TokenPrice):
    """Prices of unlisted models, and of unlisted search operations (USD each)."""

    operation: Usd


class Prices(_Entry):
    """A price list, in the format of its file."""

    as_of: date
    fallback: Fallback
    models: dict[str, ModelPrice]
    operations: dict[str, Usd]
    tiers: dict[str, Annotated[Decimal, Field(ge=0, le=100)]] = {}
    """Factors of the prices of tokens, by the provider's service tier. A tier that is not listed costs the listed price."""

    def of_model(self, name: str) -> ModelPrice:
        """Returns the model's price, or the fallback if it is not listed."""
        listed = self.listed(name)
        return listed or ModelPrice(input=self.fallback.input, output=self.fallback.output)

    def listed(self, name: str) -> ModelPrice | None:
        """Returns the price of the model, or of the model that it is a dated snapshot of; None if neither is listed.

        A model of another provider, `provider/model`, can be listed with and without the provider.
        """
        bare = name.partition("/")[2] or name
        names = (name, _SNAPSHOT.sub("", name), bare, _SNAPSHOT.sub("", bare))
        return next((self.models[each] for each in names if each in self.models), None)

    def of_operation(self, name: str) -> Decimal:
        usd = self.operations.get(name, self.fallback.operation)
        return usd.quantize(SMALLEST_USD, ROUND_CEILING)

    def tokens_usd(
        self,
        model: str,
        input_tokens: int | None,
        output_tokens: int | None,
        cached_tokens: int = 0,
        service_tier: str | None = None,
    ) -> Decimal | None:
        """Returns the cost of an answer; None if its token usage is unknown or implausible."""
        if input_tokens is None or output_tokens is None:
            return None
        usd = self.of_model(model).cost_usd(input_tokens, output_tokens, cached_tokens)
        usd = (usd * self._factor(service_tier)).quantize(SMALLEST_USD, ROUND_CEILING)
        return usd if usd < LARGEST_USD else None

    def _factor(self, service_tier: str | None) -> Decimal:
        return self.tiers.get(service_tier or "", Decimal(1))

    def max_cost_usd(
        self,
        model: str,
        request_bytes: int,
        max_output_tokens: int,
        service_tier: str | None = None,
    ) -> Decimal:
        """Returns the maximum cost of a request of this size (JSON in UTF-8).

        The request has at most as many input tokens as bytes: a token of a byte-level encoding is at least one byte, and
        a server adds less to each message than the JSON around it. A requested `service_tier` that costs less is not
        counted on, because the server may use another one.
        """
        price = self.of_model(model)
        # The price for long contexts may be the lower one, so compare with the largest request below its threshold.
        few = min(request_bytes, price.long_context.above_tokens) if price.long_context else 0
        most = max(price.cost_usd(tokens, max_output_tokens) for tokens in (few, request_bytes))
        return (most * max(self._factor(service_tier), Decimal(1))).quantize(
            SMALLEST_USD, ROUND_CEILING
        )

    def for_sandbox(self, *, model: bool, search: bool) -> "Prices":
        """Returns the prices for a sandbox that replaces the model or the search service.

        Everything is free, unless the list has prices for the sandbox itself, for tests.
        """
        fallback, models, operations = self.fallback, self.models, self.operations
        if model:
            models = {name: models[name] for name in models if name.startswith(SANDBOX_MODELS)}
            fallback = fallback.model_copy(update={"input": _FREE, "output": _FREE})
        if search:
            operations = {
                name: operations.get(f"{SANDBOX_OPERATIONS}{name}", _FREE) for name in operations
            }
            fallback = fallback.model_copy(update={"operation": _FREE})
        changes = {"fallback": fallback, "models": models, "operations": operations}
        return self.model_copy(update=changes)

    def overridden(self, models: Mapping[str, Sequence[float]]) -> "Prices":
        """Returns the list with these prices (input, output and, if it differs, cached input) by model name."""
        names = ("input", "output", "cached_input")
        overrides = {
            name: ModelPrice(
                **{key: Decimal(str(usd)) for key, usd in zip(names, prices, strict=False)}
            )
            for name, prices in models.items()
        }
        return self.model_copy(update={"models": {**self.models, **overrides}})


def read_prices(file: Path = SHIPPED) -> Prices:
    """Reads a price list. Raises PermanentError if `file` cannot be read or is not a valid list."""
    try:
        with file.open("rb") as stream:
            return Prices.model_validate(tomllib.load(stream, parse_float=Decimal))
    except (OSError, ValueError, RecursionError) as error:
        # ValueError: invalid TOML, numbers or fields.
        raise PermanentError(
            "prices_file",
            f"the prices in {file} cannot be used: {_reason(error)}. Correct the file, or set VIGIL_PRICES_FILE to"
            " another one",
        ) from error


def _reason(error: Exception) -> str:
    match error:
        case ValidationError():
            return "; ".join(
                f"{'.'.join(map(str, fault['loc']))}: {describe_invalid_value(fault)}"
                for fault in error.errors()[:MAX_FAULTS]
            )
        case OSError():
            return error.strerror or str(error)
        case UnicodeDecodeError():
            return "it is not UTF-8"
        case tomllib.TOMLDecodeError():
            return f"it is not valid TOML: {error}"
        case _:
            return str(error) or "it is nested too deeply"
