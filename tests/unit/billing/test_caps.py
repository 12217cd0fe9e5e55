"""Caps: which calls they allow, and the messages about an exceeded one."""

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
FREE = CapUsage(None)
AMOUNTS = st.decimals(0, 1000, places=8)


def standing(usd: CapUsage = FREE, calls: CapUsage = FREE) -> BudgetStatus:
    return BudgetStatus(usd, calls)


def account(cap: str, spent: str = "0", reserved: str = "0") -> CapUsage:
    return CapUsage(Decimal(cap), Decimal(spent), Decimal(reserved))


def test_without_caps_nothing_is_in_the_way() -> None:
    assert (
        find_exceeded_cap(standing(), standing(), usd=Decimal(10**6), calls=10**6, day=DAY) is None
    )


@given(AMOUNTS, AMOUNTS, AMOUNTS, AMOUNTS)
def test_what_is_let_through_never_passes_the_cap(
    cap: Decimal, spent: Decimal, reserved: Decimal, cost: Decimal
) -> None:
    usage = CapUsage(cap, spent, reserved)
    exceeded = find_exceeded_cap(standing(usage), standing(), usd=cost, calls=1, day=DAY)
    assert (exceeded is None) == (spent + reserved + cost <= cap)
    assert usage.left is not None
    assert usage.left >= 0
    if exceeded is not None:
        assert exceeded.is_temporary == (spent + cost <= cap)


@pytest.mark.parametrize(
    ("agent", "installation", "cause", "is_temporary"),
    [
        (standing(account("1", "1")), standing(), "agent-usd", False),
        (standing(calls=account("1", "1")), standing(), "agent-calls", False),
        (standing(), standing(account("1", "0.9")), "installation-usd", False),
        (standing(), standing(calls=account("3", "1", "2")), "installation-calls", True),
        (standing(account("1", "0", "1")), standing(account("1", "1")), "installation-usd", False),
        (standing(account("1", "0", "1")), standing(account("1", "0", "1")), "agent-usd", True),
    ],
)
def test_a_cap_that_stays_in_the_way_is_named_before_one_that_may_not(
    agent: BudgetStatus, installation: BudgetStatus, cause: str, is_temporary: bool
) -> None:
    exceeded = find_exceeded_cap(agent, installation, usd=Decimal("0.2"), calls=1, day=DAY)
    assert exceeded is not None
    assert (exceeded.cause, exceeded.is_temporary) == (cause, is_temporary)


def test_a_day_ends_at_midnight_in_utc() -> None:
    assert end_of_day(DAY) == datetime(2027, 1, 1, tzinfo=UTC)


def test_what_is_said_names_the_cap_and_what_to_do() -> None:
    exceeded = find_exceeded_cap(
        standing(account("1.50", "1.4999")), standing(), usd=Decimal("0.07"), calls=1, day=DAY
    )
    assert exceeded is not None
    assert notice_title("Watch", exceeded) == (
        "Watch rests until tomorrow: its budget of 1.5 USD a day is used up"
    )
    assert explain_exceeded_cap(exceeded, "Watch") == (
        "the budget of Watch for 2026-12-31 is used up: of 1.5 USD a day 1.4999 USD are spent, and the next call could"
        " cost 0.07 USD. Watch rests until midnight (UTC); a higher budget (`vigil budget AGENT --usd …`) ends its rest"
        " at once"
    )


def test_the_installations_cap_is_for_whoever_looks_after_it() -> None:
    exceeded = find_exceeded_cap(
        standing(), standing(calls=account("1", "1")), usd=Decimal(0), calls=1, day=DAY
    )
    assert exceeded is not None
    assert (exceeded.scope, exceeded.unit) == (Scope.INSTALLATION, Unit.CALLS)
    explanation = explain_exceeded_cap(exceeded)
    assert explanation.startswith(
        "the installation's budget for 2026-12-31 is used up: of 1 call a day"
    )
    assert "1 call is spent, and none is left. The agent rests" in explanation
    assert "`vigil budget --installation --calls …`" in explanation


def test_amounts_are_told_without_noise() -> None:
    assert format_amount(Decimal("0.00000000"), Unit.USD) == "0 USD"
    assert format_amount(Decimal("100.00000000"), Unit.USD) == "100 USD"
    assert format_amount(Decimal("0.12345678"), Unit.USD) == "0.1235 USD"
    assert format_amount(Decimal(2), Unit.CALLS) == "2 calls"
