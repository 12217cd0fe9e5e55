"""Budget caps: the calls they allow, and the messages about an exceeded cap."""

from datetime import UTC, date, datetime
from decimal import Decimal

import pytest
from hypothesis import given
from hypothesis import strategies as st

from shared.billing.budgets import (
    BudgetStatus,
    CapUsage,
    Scope,
    Unit,
    end_of_day,
    explain_exceeded_cap,
    find_exceeded_cap,
    format_amount,
    notice_title,
)

DAY = date(2026, 12, 31)
UNCAPPED = CapUsage(None)
AMOUNTS = st.decimals(0, 1000, places=8)


def budget_status(usd: CapUsage = UNCAPPED, calls: CapUsage = UNCAPPED) -> BudgetStatus:
    return BudgetStatus(usd, calls)


def cap_usage(cap: str, spent: str = "0", reserved: str = "0") -> CapUsage:
    return CapUsage(Decimal(cap), Decimal(spent), Decimal(reserved))


def test_without_caps_every_call_is_allowed() -> None:
    assert (
        find_exceeded_cap(
            budget_status(), budget_status(), usd=Decimal(10**6), calls=10**6, day=DAY
        )
        is None
    )


@given(AMOUNTS, AMOUNTS, AMOUNTS, AMOUNTS)
def test_allowed_calls_never_exceed_the_cap(
    cap: Decimal, spent: Decimal, reserved: Decimal, cost: Decimal
) -> None:
    usage = CapUsage(cap, spent, reserved)
    exceeded = find_exceeded_cap(budget_status(usage), budget_status(), usd=cost, calls=1, day=DAY)
    assert (exceeded is None) == (spent + reserved + cost <= cap)
    assert usage.left is not None
    assert usage.left >= 0
    if exceeded is not None:
        assert exceeded.is_temporary == (spent + cost <= cap)


@pytest.mark.parametrize(
    ("agent", "installation", "cause", "is_temporary"),
    [
        (budget_status(cap_usage("1", "1")), budget_status(), "agent-usd", False),
        (budget_status(calls=cap_usage("1", "1")), budget_status(), "agent-calls", False),
        (budget_status(), budget_status(cap_usage("1", "0.9")), "installation-usd", False),
        (
            budget_status(),
            budget_status(calls=cap_usage("3", "1", "2")),
            "installation-calls",
            True,
        ),
        (
            budget_status(cap_usage("1", "0", "1")),
            budget_status(cap_usage("1", "1")),
            "installation-usd",
            False,
        ),
        (
            budget_status(cap_usage("1", "0", "1")),
            budget_status(cap_usage("1", "0", "1")),
            "agent-usd",
            True,
        ),
    ],
)
def test_a_permanently_exceeded_cap_is_named_before_a_temporary_one(
    agent: BudgetStatus, installation: BudgetStatus, cause: str, is_temporary: bool
) -> None:
    exceeded = find_exceeded_cap(agent, installation, usd=Decimal("0.2"), calls=1, day=DAY)
    assert exceeded is not None
    assert (exceeded.cause, exceeded.is_temporary) == (cause, is_temporary)


def test_a_day_ends_at_midnight_in_utc() -> None:
    assert end_of_day(DAY) == datetime(2027, 1, 1, tzinfo=UTC)


def test_the_messages_name_the_cap_and_the_remedy() -> None:
    exceeded = find_exceeded_cap(
        budget_status(cap_usage("1.50", "1.4999")),
        budget_status(),
        usd=Decimal("0.07"),
        calls=1,
        day=DAY,
    )
    assert exceeded is not None
    assert notice_title("Watch", exceeded) == (
        "Watch is suspended until tomorrow: its daily budget of 1.5 USD is reached"
    )
    assert explain_exceeded_cap(exceeded) == (
        "the daily budget of the agent for 2026-12-31 is reached: 1.4999 of 1.5 USD is spent, and the next call could"
        " cost 0.07 USD. The agent is suspended until midnight (UTC); a higher budget"
        " (`vigil budget AGENT --usd …`) resumes it immediately"
    )


def test_an_exceeded_installation_cap_is_explained_to_its_operator() -> None:
    exceeded = find_exceeded_cap(
        budget_status(), budget_status(calls=cap_usage("1", "1")), usd=Decimal(0), calls=1, day=DAY
    )
    assert exceeded is not None
    assert (exceeded.scope, exceeded.unit) == (Scope.INSTALLATION, Unit.CALLS)
    explanation = explain_exceeded_cap(exceeded)
    assert explanation.startswith(
        "the installation's daily budget for 2026-12-31 is reached: 1 of 1 call is used. The agent is suspended"
    )
    assert "`vigil budget --installation --calls …`" in explanation


def test_amounts_are_formatted_without_trailing_zeros() -> None:
    assert format_amount(Decimal("0.00000000"), Unit.USD) == "0 USD"
    assert format_amount(Decimal("100.00000000"), Unit.USD) == "100 USD"
    assert format_amount(Decimal("0.12345678"), Unit.USD) == "0.1235 USD"
    assert format_amount(Decimal(2), Unit.CALLS) == "2 calls"
