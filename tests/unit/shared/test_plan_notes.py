"""Why an iteration worked, in words."""

import pytest

from shared.enums import WorkReason
from shared.schemas.iterations import (
    NOTES_KEY,
    REASON_WORDS,
    SERVER_NOTE,
    UNREAD_CALLS,
    plan_notes,
    run_notes,
)


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


def test_each_note_of_a_run_is_shown_once_and_missing_usage_is_not_one_of_a_step() -> None:
    unread = f"{SERVER_NOTE}m {UNREAD_CALLS}."
    notes = [unread, "A page was left out.", unread, f"{SERVER_NOTE}m reports no usage."]
    assert run_notes({NOTES_KEY: notes}) == [unread, "A page was left out."]
    assert run_notes({}) == []
