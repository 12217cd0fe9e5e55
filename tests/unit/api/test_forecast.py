"""The forecast of a day follows the prices, the interval and the measured figures of an iteration."""

from decimal import Decimal

import pytest
from pydantic import SecretStr

from services.api.resources.costs.forecast import (
    SEARCH,
    day_forecast,
    forecast,
    forecast_without_sandbox,
    starts_per_day,
)
from shared.llm.pricing import SHIPPED, read_prices
from shared.runtime.settings import Settings

PRICES = read_prices(SHIPPED)
SANDBOX = "http://127.0.0.1:8080"
KEY = SecretStr("key")


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


@pytest.mark.parametrize(
    ("seconds", "starts"), [(60, 1440), (300, 288), (7 * 3600, 3), (86_400, 1), (10**7, 1)]
)
def test_the_starts_of_a_day_follow_the_interval(seconds: int, starts: int) -> None:
    assert starts_per_day(seconds) == starts


def test_without_the_sandbox_the_default_model_and_its_searches_are_counted() -> None:
    settings = Settings(sandbox_url=SANDBOX)
    assert settings.model != "gpt-5.4-mini"
    assert not day_forecast(settings, 300).usd_per_day
    unboxed = forecast_without_sandbox(settings, 300)
    assert unboxed is not None
    assert unboxed.model == "gpt-5.4-mini"
    expected = forecast(PRICES, "gpt-5.4-mini", 300)
    assert unboxed.model_usd == float(expected.model_usd) > 0
    assert unboxed.search_usd == float(expected.search_usd) > 0


def test_only_what_the_sandbox_replaces_is_added() -> None:
    settings = Settings(sandbox_url=SANDBOX, openai_api_key=KEY, model="gpt-5-mini")
    unboxed = forecast_without_sandbox(settings, 300)
    assert unboxed is not None
    assert unboxed.model == "gpt-5-mini"
    assert unboxed.model_usd == day_forecast(settings, 300).model_usd
    assert unboxed.search_usd > day_forecast(settings, 300).search_usd == 0


def test_real_services_need_no_second_forecast() -> None:
    settings = Settings(sandbox_url=SANDBOX, openai_api_key=KEY, tavily_api_key=KEY)
    assert forecast_without_sandbox(settings, 300) is None


def test_the_operation_has_a_price() -> None:
    assert SEARCH in PRICES.operations
