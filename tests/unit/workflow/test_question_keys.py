"""Questions that differ in a sign are different."""

import pytest

from shared.workflow.questions import is_same_question, question_key

PAIRS = [
    ("The newest release of C++ by ISO", "The newest release of C by ISO"),
    ("The newest release of C# by ISO", "The newest release of C by ISO"),
    ("Years in which revenue of Acme was > 5 bn", "Years in which revenue of Acme was < 5 bn"),
    ("Years in which revenue of Acme was >= 5 bn", "Years in which revenue of Acme was 5 bn"),
    ("Days with less than -5 degrees in Oslo", "Days with less than 5 degrees in Oslo"),
]


@pytest.mark.parametrize(("question", "other"), PAIRS)
def test_a_sign_makes_another_question(question: str, other: str) -> None:
    assert question_key(question) != question_key(other)
    assert not is_same_question(question, other)
