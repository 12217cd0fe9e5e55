"""The forecast of a day follows the prices, the interval and the measured figures of an iteration."""

from decimal import Decimal

import pytest

from services.api.queries.forecast import SEARCH, forecast
from shared.llm.pricing import SHIPPED, read_prices

PRICES = read_prices(SHIPPED)


def test_an_agent_with_a_small_model_costs_less_than_the_daily_cap() -> None:
    cost = forecast(PRICES, "gpt-5-mini", 300)
    assert cost.is_priced
    assert Decimal("0.3") < cost.model_usd < Decimal("0.8")
    assert Decimal("0.5") < cost.search_usd < Decimal("1.5")


@pytest.mark.parametrize(
    ("seconds", "iterations"), [(60, 37), (300, 37), (3600, 24), (86_400, 1), (10**7, 1)]
)
def test_an_agent_works_at_most_at_every_tick(seconds: int, iterations: int) -> None:
    assert forecast(PRICES, "gpt-5-mini", seconds).iterations == iterations


def test_a_model_without_a_price_is_said_to_have_none() -> None:
    assert not forecast(PRICES, "my-own-model", 300).is_priced


def test_the_sandbox_costs_nothing() -> None:
    prices = PRICES.for_sandbox(model=True, search=True)
    cost = forecast(prices, "sandbox-reader", 300)
    assert not cost.model_usd
    assert not cost.search_usd


def test_the_operation_has_a_price() -> None:
    assert SEARCH in PRICES.operations
