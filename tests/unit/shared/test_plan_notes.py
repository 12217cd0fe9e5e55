"""Why an iteration worked, in words."""

import pytest

from shared.enums import WorkReason
from shared.schemas.iterations import REASON_WORDS, plan_notes


def test_every_reason_has_words_of_its_own() -> None:
    assert set(REASON_WORDS) == set(WorkReason) - {WorkReason.DUE}
    assert len(set(REASON_WORDS.values())) == len(REASON_WORDS)


def test_a_quiet_iteration_says_that_no_model_was_called() -> None:
    assert plan_notes({"quiet": True, "reasons": [], "due": [], "pages_checked": 3}) == [
        "Nothing was new or due, so no model was called.",
        "Pages checked: 3.",
    ]


def test_the_notes_of_a_run_are_among_those_of_its_step() -> None:
    assert plan_notes({"notes": ["A page was left out."]}) == ["A page was left out."]


@pytest.mark.parametrize("result", [{}, {"reasons": ["of an older version"]}])
def test_a_step_without_known_reasons_has_no_notes(result: dict[str, object]) -> None:
    assert plan_notes(result) == []
