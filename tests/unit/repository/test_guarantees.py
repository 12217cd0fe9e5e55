"""The page of guarantees names tests that exist, and says where something was not measured."""

import re
from pathlib import Path

import pytest

from tests.support.chaos.guarantees import NOT_MEASURED, PROMISES, page

TESTS = Path(__file__).parents[2]
NOTHING = {"measured_on": "today", "machine": "none", "counts": {}, "seconds": {}}


@pytest.mark.parametrize("named", sorted({test for each in PROMISES for test in each.tests}))
def test_a_named_test_exists(named: str) -> None:
    file, _, function = named.partition("::")
    assert f"def {function}" in (TESTS / file).read_text()


def test_what_was_not_measured_is_said() -> None:
    assert page(NOTHING).count(NOT_MEASURED) >= 5


def test_figures_stand_in_their_rows() -> None:
    counts = {"kills at a chosen point": 7, "iterations compared": 8, "strikes: kill": 3}
    text = page({**NOTHING, "counts": counts, "seconds": {"a death": [1, 2, 0.5]}})
    assert "7 kills at chosen points and 3 random strikes; 8 iterations" in text
    assert "| a death | 1.00 | 2.00 |" in text


def test_every_figure_that_is_named_finds_its_place() -> None:
    named = {name for each in PROMISES for name in re.findall(r"{([^}]+)}", each.measured)}
    counts = dict.fromkeys(named, 4711)
    rows = [row for row in page({**NOTHING, "counts": counts}).splitlines() if "tests/" not in row]
    promised = [row for row in rows if any(each.says in row for each in PROMISES)]
    assert len(promised) == len(PROMISES)
    assert not any("{" in row or NOT_MEASURED in row for row in promised)
