"""Prices of calls, and that no call costs more than its reservation."""

import json
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sandbox.http.openai_format import truncate, usage_of
from sandbox.model.request import Answer
from shared.errors import PermanentError
from shared.llm.messages import ChatRequest
from shared.llm.pricing import SHIPPED, Prices, read_prices
from shared.llm.usage import parse_usage
from shared.runtime.prices import load_prices
from shared.runtime.settings import Settings
from tests.support.case_files import read_cases
from tests.support.hostile import MANY_DIGITS
from tests.support.sandbox import meter
from tests.support.sandbox_prices import SANDBOX_PRICES

CASES = read_cases(__file__)

MESSAGES = st.lists(
    st.fixed_dictionaries(
        {"role": st.sampled_from(["system", "user", "assistant"]), "content": st.text()}
    ),
    min_size=1,
)


def test_the_shipped_price_list_is_dated_and_has_the_default_models() -> None:
    prices = read_prices()
    assert prices.as_of.year >= 2026
    for model in ("gpt-5.4-mini", "gpt-5.4", "gpt-5.4-nano"):
        assert model in prices.models
    for model in ("text-embedding-3-small", "text-embedding-3-large"):
        assert prices.models[model].output == 0
    assert set(prices.operations) == {
        *("search", "search_advanced", "extract", "extract_advanced", "research")
    }


def test_cached_input_costs_less() -> None:
    prices = read_prices()
    assert prices.tokens_usd("gpt-5-mini", 1_000_000, 0, 1_000_000) == Decimal("0.025")
    assert prices.tokens_usd("gpt-5-mini", 1_000_000, 1000, 600_000) == Decimal("0.117")
    assert prices.tokens_usd("gpt-5.4", 300_000, 0, 100_000) == Decimal("1.05"), "a long context"
    unlisted = prices.tokens_usd("another", 1000, 0, 1000)
    assert unlisted == prices.tokens_usd("another", 1000, 0), "no discount is assumed"
    for price in prices.models.values():
        assert price.cached_input is None or price.cached_input <= price.input


def test_the_tier_that_served_an_answer_sets_its_price() -> None:
    usage = {"prompt_tokens": 1_000_000, "completion_tokens": 0}
    costs = {}
    for tier in ("flex", "default", "priority", "unheard-of", None, 7):
        read = parse_usage({"usage": usage, "service_tier": tier})
        costs[tier] = read_prices().tokens_usd(
            "gpt-5-mini", read.input_tokens, read.output_tokens, 0, read.service_tier
        )
    quarter = Decimal("0.25")
    assert costs == {
        "flex": Decimal("0.125"),
        "priority": Decimal("0.5"),
        **dict.fromkeys(("default", "unheard-of", None, 7), quarter),
    }


@pytest.mark.parametrize("requested", ["flex", "priority", "auto", None])
def test_a_requested_tier_never_lowers_the_reserved_maximum(requested: str | None) -> None:
    prices = read_prices()
    reserved = prices.max_cost_usd("gpt-5-mini", 1000, 10, requested)
    for tier in (requested, "default"):
        cost = prices.tokens_usd("gpt-5-mini", 1000, 10, 0, tier)
        assert cost is not None
        assert cost <= reserved


@pytest.mark.parametrize(
    ("details", "cached", "reasoning"), CASES["cached_and_reasoning_tokens_are_read_from_the_usage"]
)
def test_cached_and_reasoning_tokens_are_read_from_the_usage(
    details: dict[str, Any], cached: int, reasoning: int
) -> None:
    usage = parse_usage({"usage": {"prompt_tokens": 100, "completion_tokens": 10, **details}})
    assert (usage.input_tokens, usage.output_tokens, usage.fault) == (100, 10, None)
    assert (usage.cached_tokens, usage.reasoning_tokens) == (cached, reasoning)


@pytest.mark.parametrize(
    ("more", "written", "reasoning"), CASES["reasoning_beside_the_output_is_paid_for"]
)
def test_reasoning_beside_the_output_is_paid_for(
    more: dict[str, Any], written: int, reasoning: int
) -> None:
    usage = parse_usage({"usage": {"prompt_tokens": 100, "completion_tokens": 10, **more}})
    assert (usage.output_tokens, usage.reasoning_tokens) == (written, reasoning)


def test_an_answer_costs_the_price_of_its_tokens() -> None:
    assert read_prices().tokens_usd("gpt-5.4-mini", 1_000_000, 0) == Decimal("0.75")
    assert read_prices().tokens_usd("gpt-5.4-mini", 1000, 100) == Decimal("0.0012")
    assert read_prices().tokens_usd("gpt-5.4-mini", None, 100) is None


def test_a_snapshot_costs_the_same_as_its_model() -> None:
    prices = read_prices()
    assert prices.of_model("gpt-5.4-mini-2026-03-17") == prices.of_model("gpt-5.4-mini")


def test_an_unlisted_model_costs_the_fallback_price() -> None:
    prices = read_prices()
    unknown = prices.of_model("a-model-of-tomorrow")
    assert (unknown.input, unknown.output) == (prices.fallback.input, prices.fallback.output)
    assert prices.of_operation("dive") == prices.fallback.operation
    assert unknown.output >= prices.of_model("gpt-5.4-mini").output


def test_a_long_request_costs_more_from_its_first_token_on() -> None:
    prices = read_prices()
    assert prices.tokens_usd("gpt-5.4", 272_000, 0) == Decimal("0.68")
    assert prices.tokens_usd("gpt-5.4", 272_001, 0) == Decimal("1.360005")


def test_settings_override_the_price_list() -> None:
    prices = read_prices().overridden({"gpt-5.4-mini": (0.0, 0.1), "mine": (1, 2)})
    assert prices.tokens_usd("gpt-5.4-mini", 5_000_000, 1_000_000) == Decimal("0.1")
    assert prices.tokens_usd("mine", 1_000_000, 1_000_000) == Decimal(3)
    assert prices.of_model("gpt-5.4") == read_prices().of_model("gpt-5.4")


def test_settings_can_have_a_price_of_cached_input() -> None:
    prices = read_prices().overridden({"mine": (1, 4, 0.02)})
    assert prices.tokens_usd("mine", 1_000_000, 0, 1_000_000) == Decimal("0.02")
    assert prices.tokens_usd("mine", 1_000_000, 1_000_000) == Decimal(5)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("as_of = ", "Invalid value"),
        ("as_of = 2026-01-01", "fallback"),
        (
            "as_of = 2026-01-01\n[models]\nm = { input = -1, output = 0 }",
            "models.m.input: it must be 0 or more",
        ),
        ("as_of = 2026-01-01\n[models]\nm = { input = nan, output = 0 }", "finite"),
        (
            "as_of = 2026-01-01\n[models]\nm = { input = 1e999, output = 0 }",
            "it must be 10000 or less",
        ),
        (f"as_of = {MANY_DIGITS}", "limit"),
        (f"as_of = {'[' * 5_000}", "cannot be used"),
    ],
)
def test_an_invalid_price_list_is_refused_with_the_reason(
    tmp_path: Path, text: str, message: str
) -> None:
    file = tmp_path / "prices.toml"
    file.write_text(text)
    with pytest.raises(PermanentError, match=message) as error:
        read_prices(file)
    assert str(file) in str(error.value)
    assert "VIGIL_PRICES_FILE" in str(error.value)
    with pytest.raises(PermanentError, match="No such file"):
        read_prices(tmp_path / "none.toml")


@given(
    input_tokens=st.integers(0, 2_000_000),
    limit=st.integers(1, 200_000),
    shares=st.tuples(st.floats(0, 1), st.floats(0, 1)),
    model=st.sampled_from(["gpt-5.4", "gpt-5.4-mini", "unlisted"]),
)
def test_no_answer_costs_more_than_the_reserved_maximum(
    input_tokens: int, limit: int, shares: tuple[float, float], model: str
) -> None:
    prices = read_prices()
    cost = prices.tokens_usd(model, int(input_tokens * shares[0]), int(limit * shares[1]))
    assert cost is not None
    assert cost <= prices.max_cost_usd(model, input_tokens, limit)


def test_lower_prices_for_long_requests_do_not_lower_the_maximum() -> None:
    price_list = read_prices().model_dump(mode="json")
    price_list["models"]["odd"] = {
        "input": 10,
        "output": 10,
        "long_context": {"above_tokens": 100, "input": 1, "output": 1},
    }
    prices = Prices.model_validate(price_list)
    short_cost, max_cost = prices.tokens_usd("odd", 100, 5), prices.max_cost_usd("odd", 200, 5)
    assert short_cost is not None
    assert short_cost <= max_cost


@given(MESSAGES, st.text(), st.integers(4, 50))
def test_the_sandbox_counts_no_more_tokens_than_reserved(
    messages: list[dict[str, Any]], text: str, limit: int
) -> None:
    request = ChatRequest("sandbox-reader", tuple(messages))
    usage = usage_of(messages, [], truncate(limit, Answer(text)))
    assert usage["prompt_tokens"] <= len(request.call.canonical)
    assert usage["completion_tokens"] <= limit


def test_the_sandbox_charges_the_listed_prices() -> None:
    prices = read_prices(SANDBOX_PRICES).for_sandbox(model=True, search=True)
    usage = {"prompt_tokens": 1234, "completion_tokens": 56}
    assert meter.tokens_usd(usage) == prices.tokens_usd("sandbox-reader", 1234, 56)
    for name, usd in meter.OPERATION_USD.items():
        assert prices.of_operation(name) == usd


def settings_of(**values: str) -> Settings:
    return Settings.model_validate({"sandbox_url": "http://sandbox:8080", **values})


@pytest.mark.parametrize("model", ["sandbox-reader", "gpt-5.5", "unlisted"])
def test_the_sandbox_is_free_for_any_model(model: str) -> None:
    prices = load_prices(settings_of())
    assert prices.tokens_usd(model, 1_000_000, 1_000_000) == 0
    assert prices.max_cost_usd(model, 1_000_000, 1_000_000) == 0
    for operation in ("search", "search_advanced", "extract", "research", "dive"):
        assert prices.of_operation(operation) == 0


def test_a_real_provider_next_to_the_sandbox_has_its_listed_prices() -> None:
    shipped = read_prices()
    real_model = load_prices(settings_of(OPENAI_API_KEY="sk-real"))
    assert real_model.of_operation("search") == 0
    assert real_model.of_model("gpt-5.4-mini") == shipped.of_model("gpt-5.4-mini")
    assert real_model.of_model("unlisted") == shipped.of_model("unlisted")
    real_search = load_prices(settings_of(TAVILY_API_KEY="tvly-real"))
    assert real_search.of_operation("search") == shipped.of_operation("search") > 0
    assert real_search.of_operation("dive") == shipped.fallback.operation
    assert real_search.tokens_usd("unlisted", 1_000, 1_000) == 0


def test_the_sandbox_is_free_with_a_custom_price_file(tmp_path: Path) -> None:
    file = tmp_path / "prices.toml"
    file.write_text(SHIPPED.read_text().replace('"sandbox-', '"another-'))
    prices = load_prices(settings_of(prices_file=str(file)))
    assert prices.tokens_usd("sandbox-reader", 1_000, 1_000) == 0
    assert prices.of_operation("search") == 0


def test_an_explicit_price_for_the_sandbox_applies() -> None:
    settings = settings_of().model_copy(update={"prices": {"sandbox-reader": (2.0, 8.0)}})
    assert load_prices(settings).tokens_usd("sandbox-reader", 1_000_000, 0) == 2


def test_the_output_limit_is_sent_but_not_part_of_the_call_hash() -> None:
    request = ChatRequest("m", ({"role": "user", "content": "x"},), max_output_tokens=7)
    other = ChatRequest("m", ({"role": "user", "content": "x"},), max_output_tokens=8)
    assert request.sent_body["max_completion_tokens"] == 7
    assert request.call.hash == other.call.hash
    assert "max_completion_tokens" not in json.dumps(request.body)


@pytest.mark.parametrize(
    ("counts", "expected"), CASES["usage_is_read_in_the_words_of_other_interfaces"]
)
def test_usage_is_read_in_the_words_of_other_interfaces(
    counts: dict[str, Any], expected: list[int]
) -> None:
    usage = parse_usage({"usage": counts})
    assert [usage.input_tokens, usage.output_tokens, usage.cached_tokens] == expected
    assert usage.fault is None
