"""The order in which a page shows what an iteration changed."""

from typing import Any

import pytest

from services.api.resources.iterations.model import rank_of_value


@pytest.mark.parametrize(
    ("value", "rank"),
    [
        (722, 0),
        (-4.7, 0),
        ("2027-06-30", 1),
        ("30.5 million", 1),
        ("chair", 2),
        (True, 2),
        (None, 2),
    ],
)
def test_figures_come_first_then_texts_with_figures(value: Any, rank: int) -> None:
    assert rank_of_value(value) == rank
