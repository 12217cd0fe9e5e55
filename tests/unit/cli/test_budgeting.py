"""`vigil budget` and `vigil costs`: what is meant, and what is shown."""

import io
from datetime import UTC, date, datetime, timedelta
from typing import Any
from uuid import UUID

import pytest
from rich.console import Console

from cli.commands.costs import BudgetChange
from cli.config.durations import parse_day
from cli.demo import Summary, show_summary
from cli.errors import BadInputError
from cli.render.console import THEME
from cli.render.costs import show_budget, show_costs
from shared.schemas.base import CallTotals, CountsView, GraphView
from shared.schemas.costs import AllowanceView, BudgetView, CostGroup, CostsView, CostTotals

ALLOWANCE = AllowanceView(
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
SUMS = CostTotals(
    calls=1200, attempts=1201, input_tokens=34567, output_tokens=89, cost_usd=0.25, assumed_usd=0
)
AGENT = UUID("a1b2c3d4-0000-4000-8000-000000000001")


def budget_change(agent: str | None = "Lithium", **given: object) -> BudgetChange:
    usual = {"of_installation": False, "usd": None, "calls": None, "none": False}
    return BudgetChange.from_options(agent, **{**usual, **given})  # type: ignore[arg-type]  # each as it is given


def test_what_is_not_named_stays() -> None:
    assert budget_change(usd=2.0).caps(ALLOWANCE) == {"usd_per_day": 2.0, "calls_per_day": None}
    assert budget_change(calls=0).caps(ALLOWANCE) == {"usd_per_day": 1.5, "calls_per_day": 0}
    assert budget_change(none=True).caps(ALLOWANCE) == {"usd_per_day": None, "calls_per_day": None}
    assert not budget_change().changes_anything
    assert budget_change(usd=0.0).changes_anything


@pytest.mark.parametrize(
    ("agent", "given", "said"),
    [
        (None, {}, "name an agent, or give --installation"),
        ("Lithium", {"of_installation": True}, "one of the two"),
        ("Lithium", {"none": True, "usd": 1.0}, "leave out --usd and --calls"),
    ],
)
def test_what_is_not_clear_is_asked_for(
    agent: str | None, given: dict[str, object], said: str
) -> None:
    with pytest.raises(BadInputError, match=said):
        budget_change(agent, **given)


def test_days_are_written_as_dates_or_as_how_long_ago_they_are() -> None:
    now = datetime(2026, 1, 31, 1, tzinfo=UTC)
    assert parse_day("2026-01-30", now) == date(2026, 1, 30)
    assert parse_day("7d", now) == date(2026, 1, 24)
    assert parse_day("2h", now) == date(2026, 1, 30)
    for wrong in ("yesterday", "2026-02-30", f"{10**12}d"):
        with pytest.raises(BadInputError, match="is not a day: write"):
            parse_day(wrong, now)


def shown(told: CostsView | BudgetView | AllowanceView) -> str:
    file = io.StringIO()
    console = Console(file=file, theme=THEME, width=160)
    if isinstance(told, CostsView):
        show_costs(console, told, "Lithium [bold]")
    else:
        show_budget(console, told)
    return file.getvalue()


def costs(*groups: CostGroup) -> CostsView:
    return CostsView(
        since=date(2026, 1, 1),
        until=date(2026, 1, 31),
        by="model",
        totals=SUMS,
        groups=list(groups),
        next=None,
        allowance=ALLOWANCE,
    )


def test_costs_are_shown_with_what_is_uncertain_and_what_is_left() -> None:
    group = CostGroup(**{**SUMS.model_dump(), "assumed_usd": 0.0725}, key="gpt [/]", agent_id=None)
    told = shown(costs(group))
    assert "gpt [/]" in told
    assert "34,567" in told
    assert "0.2500 +0.0725?" in told
    assert "total" in told
    assert (
        "Lithium [bold] today: 0.2500 USD and 12 calls spent, up to 0.0700 USD in progress" in told
    )
    assert "; 1.18 USD of 1.50 USD left" in told
    assert "No calls were made from 2026-01-01 to 2026-01-31." in shown(costs())


def test_what_is_not_billed_is_shown_so() -> None:
    group = CostGroup(**FREE.model_dump(), key="sandbox-reader", agent_id=None)
    free = ALLOWANCE.model_copy(update={"spent_usd": 0.0, "reserved_usd": 0.0})
    told = shown(costs(group).model_copy(update={"totals": FREE, "allowance": free}))
    assert told.count("not billed") == 3
    assert "0.00 USD (not billed) and 12 calls spent" in told


def test_a_budget_is_shown_with_the_rest_that_it_led_to() -> None:
    until = datetime.now(UTC) + timedelta(hours=5, minutes=1)
    told = shown(
        BudgetView(agent_id=AGENT, agent_name="Lithium", suspended_until=until, allowance=ALLOWANCE)
    )
    assert "Lithium today: 0.2500 USD" in told
    assert "suspended; it resumes in 5 h" in told
    none = ALLOWANCE.model_copy(update={"usd_per_day": None, "left_usd": None})
    assert "no budget is set" in shown(none)


@pytest.mark.parametrize(
    ("cost_usd", "unpriced", "said"),
    [(0.0, 0, "not billed"), (0.0, 2, "cost unknown"), (0.25, 0, "0.2500 USD")],
)
def test_a_demo_says_what_it_has_cost(cost_usd: float, unpriced: int, said: str) -> None:
    file = io.StringIO()
    counts = CountsView(nodes=0, edges=0, analyses=0, advice=0)
    empty = GraphView(counts=counts, node_types=[], edge_types=[], nodes=[], edges=[])
    calls = CallTotals(llm_calls=3, cost_usd=cost_usd, unpriced_calls=unpriced)
    agent: Any = None  # nothing of it is shown
    account = Summary(agent, (), empty, (), (), calls, (), seconds=7)
    show_summary(Console(file=file, theme=THEME, width=160), account)
    assert f"tokens, {said}, " in file.getvalue()
