"""Type names that denote the same type."""

import pytest

from shared.graph.types import fold_type_name
from tests.support.case_files import read_cases

CASES = read_cases(__file__)


@pytest.mark.parametrize(("one", "other"), CASES["same_type"])
def test_same_type(one: str, other: str) -> None:
    assert fold_type_name(one) == fold_type_name(other)


@pytest.mark.parametrize(("one", "other"), CASES["different_types"])
def test_different_types(one: str, other: str) -> None:
    assert fold_type_name(one) != fold_type_name(other)
