"""The guarantees page names existing tests, and states what was not measured."""

import re
from pathlib import Path

from tests.support.chaos.guarantees import NOT_MEASURED, PROMISES, page

TESTS = Path(__file__).parents[2]
NOTHING = {"measured_on": "today", "machine": "none", "counts": {}, "seconds": {}}


def test_the_named_tests_exist() -> None:
    named = {name.partition("::") for promise in PROMISES for name in promise.tests}
    missing = [
        (file, function)
        for file, _, function in named
        if f"def {function}" not in (TESTS / file).read_text()
    ]
    assert missing == []


def test_missing_measurements_are_stated() -> None:
    assert page(NOTHING).count(NOT_MEASURED) >= 5


def test_figures_are_in_their_rows() -> None:
    counts = {"kills at a chosen point": 7, "iterations compared": 8, "strikes: kill": 3}
    text = page({**NOTHING, "counts": counts, "seconds": {"a death": [1, 2, 0.5]}})
    assert "7 kills at chosen points and 3 random strikes; 8 iterations" in text
    assert "| a death | 1.00 | 2.00 |" in text


def test_every_named_figure_is_filled_in() -> None:
    names = {name for promise in PROMISES for name in re.findall(r"{([^}]+)}", promise.measured)}
    counts = dict.fromkeys(names, 4711)
    rows = [row for row in page({**NOTHING, "counts": counts}).splitlines() if "tests/" not in row]
    promised = [row for row in rows if any(promise.says in row for promise in PROMISES)]
    assert len(promised) == len(PROMISES)
    assert not any("{" in row or NOT_MEASURED in row for row in promised)
