"""Forecast terms of conclusions, as a table of cases."""

from collections.abc import Callable
from datetime import date
from typing import Any

import pytest

from shared.graph.conclusions import commitments
from shared.tools import ToolRefusalError
from tests.support.case_files import read_cases

CASES = read_cases(__file__)

TODAY = date(2026, 1, 31)


@pytest.mark.parametrize(("text", "until"), CASES["a_horizon_is_a_date_or_a_period_from_today"])
def test_a_horizon_is_a_date_or_a_period_from_today(text: str, until: date) -> None:
    assert commitments.parse_horizon(text, TODAY) == until


@pytest.mark.parametrize(("text", "message"), CASES["an_invalid_horizon_is_refused_with_a_hint"])
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
