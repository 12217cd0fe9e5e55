"""The prices of an installation, from its settings."""

from shared.llm.pricing import SHIPPED, Prices, read_prices
from shared.runtime.settings import Settings


def load_prices(settings: Settings) -> Prices:
    """Prices of calls; zero for the sandbox. Raises PermanentError if the price file cannot be read."""
    prices = read_prices(settings.prices_file or SHIPPED)
    with_sandbox = prices.for_sandbox(
        model=settings.model_is_sandbox, search=settings.search_is_sandbox
    )
    return with_sandbox.overridden(settings.prices)
