"""What calls cost, and the most that one can cost before it is sent."""

import re
import tomllib
from collections.abc import Mapping
from datetime import date
from decimal import ROUND_CEILING, Decimal
from pathlib import Path
from typing import Annotated, Final

from pydantic import BaseModel, ConfigDict, Field

from shared.errors import PermanentError

SHIPPED: Final = Path(__file__).with_name("prices.toml")
TOKENS_PER_PRICE: Final = Decimal(1_000_000)

SMALLEST_USD: Final = Decimal("0.00000001")
"""What is finer cannot be stored; amounts are rounded up to it."""
LARGEST_USD: Final = Decimal(1_000_000)
"""A single call that costs as much cannot be stored, so its count of tokens is wrong."""

SANDBOX_MODELS: Final = "sandbox-"
SANDBOX_OPERATIONS: Final = "sandbox_"
"""What the names of the sandbox's models and operations begin with."""
_FREE: Final = Decimal(0)

Usd = Annotated[Decimal, Field(ge=0, le=10_000)]

_SNAPSHOT: Final = re.compile(r"-\d{4}-\d{2}-\d{2}$")


class _Entry(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)


class LongContext(_Entry):
    """What a request with more than `above_tokens` of input costs, all of it."""

    above_tokens: Annotated[int, Field(ge=0)]
    input: Usd
    output: Usd


class ModelPrice(_Entry):
    """USD for a million tokens."""

    input: Usd
    output: Usd
    long_context: LongContext | None = None

    def cost_usd(self, input_tokens: int, output_tokens: int) -> Decimal:
        price: ModelPrice | LongContext = self
        if self.long_context is not None and input_tokens > self.long_context.above_tokens:
            price = self.long_context
        usd = (input_tokens * price.input + output_tokens * price.output) / TOKENS_PER_PRICE
        return usd.quantize(SMALLEST_USD, ROUND_CEILING)


class Fallback(_Entry):
    """What is not listed costs: a model for a million tokens, an operation of the search service for one."""

    input: Usd
    output: Usd
    operation: Usd


class Prices(_Entry):
    """A list of prices, as a file has it."""

    as_of: date
    fallback: Fallback
    models: dict[str, ModelPrice]
    operations: dict[str, Usd]

    def of_model(self, name: str) -> ModelPrice:
        """The fallback's where it is not listed."""
        listed = self.listed(name)
        return listed or ModelPrice(input=self.fallback.input, output=self.fallback.output)

    def listed(self, name: str) -> ModelPrice | None:
        """None where neither the model nor what it is a dated snapshot of is."""
        return self.models.get(name) or self.models.get(_SNAPSHOT.sub("", name))

    def of_operation(self, name: str) -> Decimal:
        usd = self.operations.get(name, self.fallback.operation)
        return usd.quantize(SMALLEST_USD, ROUND_CEILING)

    def tokens_usd(
        self, model: str, input_tokens: int | None, output_tokens: int | None
    ) -> Decimal | None:
        """What an answer has cost; None where the server did not say how many tokens it took, or said what cannot be."""
        if input_tokens is None or output_tokens is None:
            return None
        usd = self.of_model(model).cost_usd(input_tokens, output_tokens)
        return usd if usd < LARGEST_USD else None

    def most_usd(self, model: str, request_bytes: int, most_output_tokens: int) -> Decimal:
        """The most that a request of that size (UTF-8, as JSON) can cost.

        A token of a byte-level encoding stands for one byte or more, and what a server puts around each message is less
        than the JSON around it, so that there are no more input tokens than bytes.
        """
        price = self.of_model(model)
        # Between none and the most of the input: a price for long contexts need not be the higher one.
        few = min(request_bytes, price.long_context.above_tokens) if price.long_context else 0
        return max(price.cost_usd(tokens, most_output_tokens) for tokens in (few, request_bytes))

    def of_sandbox(self, *, model: bool, search: bool) -> "Prices":
        """Where the built-in sandbox answers for the model or the search service: nothing costs, unless the list has
        prices of the sandbox's own, for tests.
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
        given = {"fallback": fallback, "models": models, "operations": operations}
        return self.model_copy(update=given)

    def overridden(self, models: Mapping[str, tuple[float, float]]) -> "Prices":
        """With these prices (input, output) in place of what is listed for their models."""
        given = {
            name: ModelPrice(input=Decimal(str(given_input)), output=Decimal(str(given_output)))
            for name, (given_input, given_output) in models.items()
        }
        return self.model_copy(update={"models": {**self.models, **given}})


def read_prices(file: Path = SHIPPED) -> Prices:
    """Raises PermanentError where `file` cannot be read, or is no list of prices."""
    try:
        with file.open("rb") as opened:
            return Prices.model_validate(tomllib.load(opened, parse_float=Decimal))
    except (
        OSError,
        ValueError,
        RecursionError,
    ) as error:  # ValueError: TOML, its numbers, and what they mean
        raise PermanentError(
            "prices_file",
            f"the prices in {file} cannot be used: {error}; mend them, or name another file by VIGIL_PRICES_FILE",
        ) from error
