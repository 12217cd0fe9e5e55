"""Which sources put a conclusion in doubt because their own quotes contradict what they support."""

from datetime import UTC, datetime, timedelta
from typing import Any
from uuid import UUID

import pytest

from shared.graph.provenance.claims import Claim
from shared.graph.retraction.doubts import contradicted_sources

START = datetime(2026, 1, 1, tzinfo=UTC)
BAD, GOOD = UUID(int=1), UUID(int=2)
BAD_SOURCE, GOOD_SOURCE = UUID(int=11), UUID(int=12)
SOURCES = {BAD: BAD_SOURCE, GOOD: GOOD_SOURCE}


def _claim(evidence_id: UUID, day: int, *, is_retracted: bool = False, **values: Any) -> Claim:
    return Claim(evidence_id, values, START + timedelta(days=day), START, is_retracted)


@pytest.mark.parametrize(
    ("claims", "is_doubted"),
    [
        ([_claim(BAD, 1, value=7)], True),
        ([_claim(BAD, 1)], True),
        ([_claim(BAD, 1, is_retracted=True, value=7)], False),
        ([_claim(BAD, 2, value=7), _claim(GOOD, 1, value=7)], False),
        ([_claim(BAD, 2, value=7), _claim(GOOD, 1, value=8)], True),
        ([_claim(BAD, 1, value=7), _claim(GOOD, 2, value=8)], False),
        ([_claim(BAD, 1, value=7), _claim(GOOD, 2, other=8)], True),
        ([_claim(BAD, 1, value=7), _claim(GOOD, 2, is_retracted=True, value=7)], True),
        ([_claim(BAD, 1), _claim(GOOD, 2, value=7)], False),
        ([_claim(GOOD, 1, value=7)], False),
        ([], False),
    ],
)
def test_only_evidence_on_which_a_current_value_rests_doubts(
    claims: list[Claim], is_doubted: bool
) -> None:
    expected = {BAD_SOURCE} if is_doubted else set()
    assert contradicted_sources(claims, SOURCES, {BAD}) == expected
