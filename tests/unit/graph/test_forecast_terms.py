"""Forecast terms of conclusions, as a table of cases."""

from collections.abc import Callable
from datetime import date
from typing import Any

import pytest

from shared.graph.conclusions import commitments
from shared.tools import ToolRefusalError

TODAY = date(2026, 1, 31)


@pytest.mark.parametrize(
    ("text", "until"),
    [
        ("2026-02-01", date(2026, 2, 1)),
        (" 2026-12-31T00:00:00Z ", date(2026, 12, 31)),
        ("3 months", date(2026, 4, 30)),
        ("In 1 month", date(2026, 2, 28)),
        ("25 months", date(2028, 2, 29)),
        ("a quarter.", date(2026, 4, 30)),
        ("for two weeks".replace("two", "2"), date(2026, 2, 14)),
        ("one year", date(2027, 1, 31)),
        ("10 years", date(2036, 1, 31)),
        ("1 day", date(2026, 2, 1)),
    ],
)
def test_a_horizon_is_a_date_or_a_period_from_today(text: str, until: date) -> None:
    assert commitments.parse_horizon(text, TODAY) == until


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("2026-01-31", r"is not in the future \(today is 2026-01-31\)"),
        ("2019-05-01", "2019-05-01 is not in the future"),
        ("0 days", "is not in the future"),
        ("2026-02-30", "is not a date; write YYYY-MM-DD"),
        ("soon", "'3 months'"),
        ("", "is not a date"),
        ("3 months or so", "is not a date"),
        ("11 years", "more than 10 years away"),
        ("9999 years", "more than 10 years away"),
    ],
)
def test_an_invalid_horizon_is_refused_with_a_hint(text: str, message: str) -> None:
    with pytest.raises(ToolRefusalError, match=message):
        commitments.parse_horizon(text, TODAY)


@pytest.mark.parametrize(
    ("validate", "value", "message"),
    [
        (commitments.validate_confidence, -0.1, "not from 0 to 1"),
        (commitments.validate_confidence, 80, "not from 0 to 1"),
        (commitments.validate_confidence, float("nan"), "not from 0 to 1"),
        (commitments.validate_invalidation, "Prices fall.", "12 characters; use 20 to 600"),
        (commitments.validate_invalidation, "x" * 601, "601 characters"),
    ],
)
def test_invalid_confidence_and_invalidation_are_refused(
    validate: Callable[[Any], Any], value: Any, message: str
) -> None:
    with pytest.raises(ToolRefusalError, match=message):
        validate(value)


def test_valid_forecast_terms_are_accepted() -> None:
    assert commitments.validate_confidence(1) == 1
    assert (
        commitments.validate_invalidation(" Output\nfalls below 10 GWh. ")
        == "Output falls below 10 GWh."
    )
