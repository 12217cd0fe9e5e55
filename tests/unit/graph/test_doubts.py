"""Which retracted sources invalidate what was concluded about an element."""

from datetime import UTC, datetime, timedelta
from typing import Any
from uuid import UUID

import pytest

from shared.graph.provenance.claims import Claim
from shared.graph.retraction.doubts import invalidated_by
from tests.support.case_files import read_cases

CASES = read_cases(__file__)

START = datetime(2026, 1, 1, tzinfo=UTC)
RETRACTED, ACTIVE = UUID(int=1), UUID(int=2)


@pytest.mark.parametrize(
    ("retracted", "active", "is_invalidated"),
    CASES["another_value_of_the_remaining_page_invalidates"],
)
def test_another_value_of_the_remaining_page_invalidates(
    retracted: Any, active: Any, is_invalidated: bool
) -> None:
    """True and 1 are different values in JSON, as they are for the properties."""
    claims = [
        Claim(RETRACTED, {"value": retracted}, START + timedelta(days=1), START, is_retracted=True),
        Claim(ACTIVE, {"value": active}, START, START),
    ]
    sources = {RETRACTED: RETRACTED, ACTIVE: ACTIVE}
    retracted_at = {RETRACTED: START + timedelta(days=2)}
    expected = {RETRACTED} if is_invalidated else set()
    assert invalidated_by(claims, sources, retracted_at) == expected
