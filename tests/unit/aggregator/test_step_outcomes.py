"""What the join learns from the row of a step that has ended."""

from typing import Any
from uuid import UUID

import pytest

from services.aggregator.transitions import step_outcome
from shared.enums import StepKind, StepStatus
from shared.workflow.iterations import StepRow
from tests.support.case_files import read_cases

CASES = read_cases(__file__)


@pytest.mark.parametrize(
    ("result", "has_results"), CASES["a_query_has_results_if_it_has_written_something"]
)
def test_a_query_has_results_if_it_has_written_something(
    result: dict[str, Any] | None, *, has_results: bool
) -> None:
    row = StepRow(
        UUID(int=1), UUID(int=2), UUID(int=3), StepKind.QUERY, 0, {}, StepStatus.COMPLETED, result
    )
    outcome = step_outcome(row)
    assert outcome is not None
    assert outcome.has_results is has_results
