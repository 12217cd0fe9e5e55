"""Marks for single cases of a parametrized test."""

from typing import Any

import pytest


def slow(*cases: Any) -> list[Any]:
    """Cases that repeat another one with other values; a tuple has the values of several arguments."""
    values = [case if isinstance(case, tuple) else (case,) for case in cases]
    return [pytest.param(*each, marks=pytest.mark.slow) for each in values]
