"""Options and output of `vigil budget` and `vigil costs`."""

from datetime import UTC, date, datetime, timedelta
from typing import Any
from uuid import UUID

import pytest

from cli.app import run
from cli.commands.costs import new_caps
from cli.config.durations import parse_day
from cli.demo import Summary, show_results
from cli.errors import BadInputError
from cli.render.costs import describe_forecast, show_budget, show_costs
from shared.schemas.base import CallTotals, GraphCounts, GraphResponse
from shared.schemas.costs import (
    BudgetResponse,
    BudgetUsage,
    CostGroup,
    CostsResponse,
    CostTotals,
    ForecastResponse,
)
from tests.support.case_files import read_cases
from tests.support.cli.console import printed
from tests.support.responses import agent

CASES = read_cases(__file__)

USAGE = BudgetUsage(
    day=date(2026, 1, 31),
    usd_per_day=1.5,
    spent_usd=0.25,
    reserved_usd=0.07,
    left_usd=1.18,
    calls_per_day=None,
    spent_calls=12,
    reserved_calls=1,
    left_calls=None,
)
FREE = CostTotals(
    calls=1200, attempts=1200, input_tokens=34567, output_tokens=89, cost_usd=0, assumed_usd=0
)
TOTALS = CostTotals(
    calls=1200, attempts=1201, input_tokens=34567, output_tokens=89, cost_usd=0.25, assumed_usd=0
)
AGENT = UUID("a1b2c3d4-0000-4000-8000-000000000001")


@pytest.mark.parametrize(
    ("usd", "calls", "none", "caps"),
    [(2.0, None, False, (2.0, None)), (None, 0, False, (1.5, 0)), (None, None, True, (None, None))],
)
def test_caps_that_are_not_named_are_unchanged(
    usd: float | None, calls: int | None, none: bool, caps: tuple[float | None, int | None]
) -> None:
    usd_per_day, calls_per_day = caps
    expected = {"usd_per_day": usd_per_day, "calls_per_day": calls_per_day}
    assert new_caps(USAGE, usd, calls, none=none) == expected


@pytest.mark.parametrize(("arguments", "message"), CASES["ambiguous_options_are_rejected"])
def test_ambiguous_options_are_rejected(arguments: list[str], message: str) -> None:
    with pytest.raises(BadInputError, match=message):
        run(["budget", *arguments])


def test_days_are_parsed_from_dates_and_ages() -> None:
    now = datetime(2026, 1, 31, 1, tzinfo=UTC)
    assert parse_day("2026-01-30", now) == date(2026, 1, 30)
    assert parse_day("7d", now) == date(2026, 1, 24)
    assert parse_day("2h", now) == date(2026, 1, 30)
    for text in ("yesterday", "2026-02-30", f"{10**12}d"):
        with pytest.raises(BadInputError, match="is not a date: enter one such as"):
            parse_day(text, now)


def render(response: CostsResponse | BudgetResponse | BudgetUsage) -> str:
    if isinstance(response, CostsResponse):
        return printed(show_costs, response, "Lithium [bold]")
    return printed(show_budget, response)


def costs(*groups: CostGroup) -> CostsResponse:
    return CostsResponse(
        since=date(2026, 1, 1),
        until=date(2026, 1, 31),
        by="model",
        totals=TOTALS,
        groups=list(groups),
        next=None,
        usage=USAGE,
    )


def test_costs_are_shown_with_assumed_amounts_and_the_remaining_budget() -> None:
    group = CostGroup(
        **{**TOTALS.model_dump(), "assumed_usd": 0.0725}, key="gpt [/]", agent_id=None
    )
    output = render(costs(group))
    assert "gpt [/]" in output
    assert "34,567" in output
    assert "0.2500 +0.0725?" in output
    assert "total" in output
    assert "Lithium [bold] today: $0.25 and 12 calls spent, up to $0.07 in progress" in output
    assert "; $1.18 of $1.50 left" in output
    assert "There were no calls from 2026-01-01 to 2026-01-31." in render(costs())


def test_what_is_not_billed_is_shown_without_dollars() -> None:
    group = CostGroup(**FREE.model_dump(), key="sandbox-reader", agent_id=None)
    free = USAGE.model_copy(update={"spent_usd": 0.0, "reserved_usd": 0.0})
    output = render(costs(group).model_copy(update={"totals": FREE, "usage": free}))
    assert "$" not in output
    assert "Nothing was billed." in output
    assert "Lithium [bold] today: 12 calls, not billed" in output
    assert "$" not in printed(show_costs, costs(), None, sandbox=True)


def test_a_budget_is_shown_with_the_suspension_it_caused() -> None:
    until = datetime.now(UTC) + timedelta(hours=5, minutes=1)
    output = render(
        BudgetResponse(agent_id=AGENT, agent_name="Lithium", suspended_until=until, usage=USAGE)
    )
    assert "Lithium today: $0.25" in output
    assert "suspended; it resumes in 5 h" in output
    no_budget = USAGE.model_copy(update={"usd_per_day": None, "left_usd": None})
    assert "no budget is set" in render(no_budget)


def test_costs_are_shown_with_cached_tokens_and_parts_of_the_input() -> None:
    sums = {
        "input_tokens": 1000,
        "cached_tokens": 250,
        "system_tokens": 100,
        "tools_tokens": 200,
        "context_tokens": 400,
        "results_tokens": 150,
    }
    totals = TOTALS.model_copy(update=sums)
    group = CostGroup(**totals.model_dump(), key="gpt", agent_id=None)
    output = render(costs(group).model_copy(update={"totals": totals}))
    assert output.count("25%") == 2
    assert (
        "Tokens in, by part: graph context 40%, tools 20%, results of tools 15%, tasks and answers 15%,"
        " system prompts 10%" in output
    )
    assert "by part" not in render(costs(CostGroup(**FREE.model_dump(), key="x", agent_id=None)))


def test_the_parts_of_the_input_never_exceed_it() -> None:
    """Parts are estimates: their sum can be a little more than what the provider counted."""
    sums = {"input_tokens": 100, "system_tokens": 60, "tools_tokens": 50}
    assert TOTALS.model_copy(update=sums).parts["tasks and answers"] == 0


@pytest.mark.parametrize(("changes", "expected"), CASES["a_forecast_names_its_price"])
def test_a_forecast_names_its_price(changes: dict[str, Any], expected: str) -> None:
    forecast = ForecastResponse(
        model="gpt-5-mini",
        interval_seconds=300,
        working_iterations=37,
        usd_per_day=1.9,
        model_usd=1.5,
        search_usd=0.4,
        is_priced=True,
    )
    assert describe_forecast(forecast.model_copy(update=changes)) == expected


@pytest.mark.parametrize(
    ("cost_usd", "unpriced", "expected"),
    [(0.0, 0, "not billed"), (0.0, 2, "cost unknown"), (0.25, 0, "$0.25")],
)
def test_a_demo_reports_its_cost(cost_usd: float, unpriced: int, expected: str) -> None:
    counts = GraphCounts(nodes=0, edges=0, analyses=0, advice=0)
    empty = GraphResponse(counts=counts, node_types=[], edge_types=[], nodes=[], edges=[])
    calls = CallTotals(llm_calls=3, cost_usd=cost_usd, unpriced_calls=unpriced)
    summary = Summary(agent(), (), empty, (), (), calls, (), None, seconds=7)
    assert f"tokens, {expected}, " in printed(show_results, summary)
