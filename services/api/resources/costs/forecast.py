"""What an agent will cost, before it has run: from figures of a usual agent, and the prices of the installation.

The figures are those of `make bench-tokens` and `make bench-day` of 2026-11-27: an agent on a corpus of which a tenth
changes in a day. A model that writes or thinks more costs more.
"""

from decimal import Decimal
from typing import Final, NamedTuple

from shared.llm.pricing import SHIPPED, Prices, read_prices
from shared.runtime.prices import load_prices
from shared.runtime.settings import Settings
from shared.schemas.costs import ForecastResponse

DAY_SECONDS: Final = 24 * 3600
WORKING_ITERATIONS: Final = 37
"""Of a day at five minutes; all others are quiet."""
INPUT_TOKENS: Final = 59_000
"""Of an iteration that works, as are the next ones."""
CACHED_TOKENS: Final = 26_000
OUTPUT_TOKENS: Final = 4_000
SEARCHES: Final = 4
SEARCH: Final = "search"
"""The operation whose price counts."""


class Forecast(NamedTuple):
    """Dollars of a day."""

    iterations: int
    """Those that work."""
    model_usd: Decimal
    search_usd: Decimal
    is_priced: bool
    """Whether the model has a price of its own."""


def forecast(prices: Prices, model: str, interval_seconds: float) -> Forecast:
    """The cost of an agent that uses this model in all phases.

    At most WORKING_ITERATIONS are counted, and fewer if the interval leaves room for fewer.
    """
    iterations = min(WORKING_ITERATIONS, starts_per_day(interval_seconds))
    of_iteration = prices.tokens_usd(model, INPUT_TOKENS, OUTPUT_TOKENS, CACHED_TOKENS)
    return Forecast(
        iterations,
        (of_iteration or Decimal(0)) * iterations,
        prices.of_operation(SEARCH) * SEARCHES * iterations,
        prices.listed(model) is not None,
    )


def starts_per_day(interval_seconds: float) -> int:
    """How often an agent with this interval starts in a day; at least once, as on the day of a start."""
    return max(int(DAY_SECONDS // interval_seconds), 1)


def day_forecast(
    settings: Settings, interval_seconds: int, model: str | None = None
) -> ForecastResponse:
    """What an agent will cost in a day. Raises PermanentError if the prices cannot be read."""
    return _response(load_prices(settings), model or settings.first_model, interval_seconds)


def forecast_without_sandbox(settings: Settings, interval_seconds: int) -> ForecastResponse | None:
    """What the agent would cost in a day with the model and the search service that the sandbox replaces.

    The model is the default one where the sandbox replaces it. None without the sandbox. Raises PermanentError if the
    prices cannot be read.
    """
    if not settings.sandboxed_providers:
        return None
    default = str(Settings.model_fields["model"].default)
    prices = read_prices(settings.prices_file or SHIPPED).overridden(settings.prices)
    name = default if settings.model_is_sandbox else settings.first_model
    return _response(prices, name, interval_seconds)


def _response(prices: Prices, name: str, interval_seconds: int) -> ForecastResponse:
    cost = forecast(prices, name, interval_seconds)
    return ForecastResponse(
        model=name if cost.is_priced else None,
        interval_seconds=interval_seconds,
        working_iterations=cost.iterations,
        usd_per_day=float(cost.model_usd + cost.search_usd),
        model_usd=float(cost.model_usd),
        search_usd=float(cost.search_usd),
        is_priced=cost.is_priced,
    )
