"""Marks for single cases of a parametrized test."""

from typing import Any

import pytest


def slow(*cases: Any) -> list[Any]:
    """Cases that repeat another one with other values; `make test-all` runs them."""
    return [pytest.param(case, marks=pytest.mark.slow) for case in cases]
