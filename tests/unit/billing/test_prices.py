"""What calls cost, and that no call costs more than was reserved for it."""

import json
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sandbox.http import calls as charged
from sandbox.http.openai_format import truncate, usage_of
from sandbox.model.request import Answer
from shared.errors import PermanentError
from shared.llm.messages import ChatRequest
from shared.llm.pricing import SHIPPED, Prices, read_prices
from shared.runtime.providers import load_prices
from shared.runtime.settings import Settings
from tests.support.hostile import MANY_DIGITS
from tests.support.sandbox_prices import SANDBOX_PRICES

MESSAGES = st.lists(
    st.fixed_dictionaries(
        {"role": st.sampled_from(["system", "user", "assistant"]), "content": st.text()}
    ),
    min_size=1,
)


def test_the_shipped_list_is_dated_and_has_the_models_that_are_asked() -> None:
    prices = read_prices()
    assert prices.as_of.year >= 2026
    for model in ("gpt-5.4-mini", "gpt-5.4", "gpt-5.4-nano"):
        assert model in prices.models
    for model in ("text-embedding-3-small", "text-embedding-3-large", "sandbox-embedder"):
        assert prices.models[model].output == 0
    assert set(prices.operations) == {
        *("search", "search_advanced", "extract", "extract_advanced", "research")
    }


def test_an_answer_costs_its_tokens() -> None:
    assert read_prices().tokens_usd("gpt-5.4-mini", 1_000_000, 0) == Decimal("0.75")
    assert read_prices().tokens_usd("gpt-5.4-mini", 1000, 100) == Decimal("0.0012")
    assert read_prices().tokens_usd("gpt-5.4-mini", None, 100) is None


def test_a_snapshot_costs_what_its_model_does() -> None:
    prices = read_prices()
    assert prices.of_model("gpt-5.4-mini-2026-03-17") == prices.of_model("gpt-5.4-mini")


def test_what_is_not_listed_costs_the_fallback() -> None:
    prices = read_prices()
    unknown = prices.of_model("a-model-of-tomorrow")
    assert (unknown.input, unknown.output) == (prices.fallback.input, prices.fallback.output)
    assert prices.of_operation("dive") == prices.fallback.operation
    assert unknown.output >= prices.of_model("gpt-5.4-mini").output


def test_a_long_request_costs_more_from_its_first_token_on() -> None:
    prices = read_prices()
    assert prices.tokens_usd("gpt-5.4", 272_000, 0) == Decimal("0.68")
    assert prices.tokens_usd("gpt-5.4", 272_001, 0) == Decimal("1.360005")


def test_settings_override_the_list() -> None:
    prices = read_prices().overridden({"gpt-5.4-mini": (0.0, 0.1), "mine": (1, 2)})
    assert prices.tokens_usd("gpt-5.4-mini", 5_000_000, 1_000_000) == Decimal("0.1")
    assert prices.tokens_usd("mine", 1_000_000, 1_000_000) == Decimal(3)
    assert prices.of_model("gpt-5.4") == read_prices().of_model("gpt-5.4")


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("as_of = ", "Invalid value"),
        ("as_of = 2026-01-01", "fallback"),
        ("as_of = 2026-01-01\n[models]\nm = { input = -1, output = 0 }", "greater than or equal"),
        ("as_of = 2026-01-01\n[models]\nm = { input = nan, output = 0 }", "finite"),
        ("as_of = 2026-01-01\n[models]\nm = { input = 1e999, output = 0 }", "less than or equal"),
        (f"as_of = {MANY_DIGITS}", "limit"),
        (f"as_of = {'[' * 5_000}", "cannot be used"),
    ],
)
def test_a_list_that_cannot_be_used_is_refused_with_what_is_wrong(
    tmp_path: Path, text: str, said: str
) -> None:
    file = tmp_path / "prices.toml"
    file.write_text(text)
    with pytest.raises(PermanentError, match=said) as error:
        read_prices(file)
    assert str(file) in str(error.value)
    assert "VIGIL_PRICES_FILE" in str(error.value)
    with pytest.raises(PermanentError, match="No such file"):
        read_prices(tmp_path / "none.toml")


@given(
    sent=st.integers(0, 2_000_000),
    limit=st.integers(1, 200_000),
    shares=st.tuples(st.floats(0, 1), st.floats(0, 1)),
    model=st.sampled_from(["gpt-5.4", "gpt-5.4-mini", "unlisted"]),
)
def test_no_answer_costs_more_than_the_most_that_was_reserved(
    sent: int, limit: int, shares: tuple[float, float], model: str
) -> None:
    prices = read_prices()
    cost = prices.tokens_usd(model, int(sent * shares[0]), int(limit * shares[1]))
    assert cost is not None
    assert cost <= prices.max_cost_usd(model, sent, limit)


def test_a_price_that_falls_for_long_requests_is_no_way_below_the_most() -> None:
    given_prices = read_prices().model_dump(mode="json")
    given_prices["models"]["odd"] = {
        "input": 10,
        "output": 10,
        "long_context": {"above_tokens": 100, "input": 1, "output": 1},
    }
    prices = Prices.model_validate(given_prices)
    of_few, most = prices.tokens_usd("odd", 100, 5), prices.max_cost_usd("odd", 200, 5)
    assert of_few is not None
    assert of_few <= most


@given(MESSAGES, st.text(), st.integers(4, 50))
def test_the_sandbox_counts_no_more_tokens_than_are_reserved_for(
    messages: list[dict[str, Any]], text: str, limit: int
) -> None:
    request = ChatRequest("sandbox-reader", tuple(messages))
    usage = usage_of(messages, [], truncate(limit, Answer(text)))
    assert usage["prompt_tokens"] <= len(request.as_call().canonical)
    assert usage["completion_tokens"] <= limit


def test_the_sandbox_charges_what_is_listed() -> None:
    prices = read_prices(SANDBOX_PRICES).for_sandbox(model=True, search=True)
    usage = {"prompt_tokens": 1234, "completion_tokens": 56}
    assert charged.tokens_usd(usage) == prices.tokens_usd("sandbox-reader", 1234, 56)
    for name, usd in charged.OPERATIONS_USD.items():
        assert prices.of_operation(name) == usd


def settings_of(**given: str) -> Settings:
    return Settings.model_validate({"sandbox_url": "http://sandbox:8080", **given})


@pytest.mark.parametrize("model", ["sandbox-reader", "sandbox-embedder", "gpt-5.5", "unlisted"])
def test_the_sandbox_costs_nothing_whatever_model_it_is_asked_for(model: str) -> None:
    prices = load_prices(settings_of())
    assert prices.tokens_usd(model, 1_000_000, 1_000_000) == 0
    assert prices.max_cost_usd(model, 1_000_000, 1_000_000) == 0
    for operation in ("search", "search_advanced", "extract", "research", "dive"):
        assert prices.of_operation(operation) == 0


def test_beside_the_sandbox_a_real_service_costs_what_it_costs() -> None:
    listed = read_prices()
    searching = load_prices(settings_of(OPENAI_API_KEY="sk-real"))
    assert searching.of_operation("search") == 0
    assert searching.of_model("gpt-5.4-mini") == listed.of_model("gpt-5.4-mini")
    assert searching.of_model("unlisted") == listed.of_model("unlisted")
    reading = load_prices(settings_of(TAVILY_API_KEY="tvly-real"))
    assert reading.of_operation("search") == listed.of_operation("search") > 0
    assert reading.of_operation("dive") == listed.fallback.operation
    assert reading.tokens_usd("unlisted", 1_000, 1_000) == 0


def test_prices_of_ones_own_make_the_sandbox_free_as_well(tmp_path: Path) -> None:
    file = tmp_path / "prices.toml"
    file.write_text(SHIPPED.read_text().replace('"sandbox-', '"another-'))
    prices = load_prices(settings_of(prices_file=str(file)))
    assert prices.tokens_usd("sandbox-reader", 1_000, 1_000) == 0
    assert prices.of_operation("search") == 0


def test_a_price_that_is_given_for_the_sandbox_counts() -> None:
    named = settings_of().model_copy(update={"prices": {"sandbox-reader": (2.0, 8.0)}})
    assert load_prices(named).tokens_usd("sandbox-reader", 1_000_000, 0) == 2


def test_the_limit_of_an_answer_is_sent_and_no_part_of_what_is_asked() -> None:
    request = ChatRequest("m", ({"role": "user", "content": "x"},), max_output_tokens=7)
    other = ChatRequest("m", ({"role": "user", "content": "x"},), max_output_tokens=8)
    assert request.sent_body["max_completion_tokens"] == 7
    assert request.as_call().hash == other.as_call().hash
    assert "max_completion_tokens" not in json.dumps(request.body)
