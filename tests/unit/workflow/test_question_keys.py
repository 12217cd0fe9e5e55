"""Questions that differ in a sign or a mark are different, and spellings of one letter are not."""

import unicodedata
from typing import Literal

import pytest

from shared.workflow.questions import is_same_question, question_key
from tests.support.case_files import read_cases

CASES = read_cases(__file__)

PAIRS = CASES["pairs"]


@pytest.mark.parametrize(("question", "other"), PAIRS)
def test_a_sign_makes_another_question(question: str, other: str) -> None:
    assert question_key(question) != question_key(other)
    assert not is_same_question(question, other)


QUESTIONS = CASES["questions"]


@pytest.mark.parametrize("question", QUESTIONS)
@pytest.mark.parametrize("form", ["NFC", "NFD", "NFKC", "NFKD"])
def test_a_letter_and_its_marks_have_one_spelling(
    question: str, form: Literal["NFC", "NFD", "NFKC", "NFKD"]
) -> None:
    spelled = unicodedata.normalize(form, question)
    for other in (spelled, spelled.replace(" ", "\u200b ")):
        assert question_key(other) == question_key(question)
    assert is_same_question(question, spelled)


@pytest.mark.parametrize(("question", "other"), CASES["another_mark_makes_another_question"])
def test_another_mark_makes_another_question(question: str, other: str) -> None:
    assert question_key(question) != question_key(other)
    assert not is_same_question(question, other)
