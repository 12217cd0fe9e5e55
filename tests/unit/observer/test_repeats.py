"""Repeated questions and insights, and similar ones that are not repeated, as tables of cases."""

from uuid import UUID

import pytest
from hypothesis import given
from hypothesis import strategies as st

from services.observer.deduplication import (
    CoveringAnalysis,
    Words,
    repeated_insight,
    repeated_query,
)
from shared.workflow.questions import is_same_question, normalize_letters, split_words
from tests.support.case_files import read_cases

CASES = read_cases(__file__)

A, B, C, D, E, F = (UUID(int=number) for number in range(1, 7))

SAME = [
    ("Find Ghana's cocoa output in 2025.", "find Ghana's cocoa output in 2025"),
    ("Find out what is reported about Northvolt.", "Find what is reported about Northvolt"),
    ("Which suppliers does Halden have?", "What supplier does Halden have"),
    ("Lithium prices in Chile", "Find the latest lithium price in Chile."),
    ("  Identify   battery makers\nin Norway ", "Find out battery makers in Norway"),
    ("ＡＢＣ output", "ABC output"),
]

OTHER = CASES["other"]


@pytest.mark.parametrize(("one", "other"), SAME)
def test_the_same_question(one: str, other: str) -> None:
    assert is_same_question(one, other)
    assert is_same_question(other, one)


@pytest.mark.parametrize(("one", "other"), OTHER)
def test_another_question(one: str, other: str) -> None:
    assert not is_same_question(one, other)
    assert not is_same_question(other, one)


def test_the_repeated_query_is_returned() -> None:
    answered = ["Output of Togo in 2025", "Output of Ghana in 2025"]
    assert repeated_query("Find the output of Ghana in 2025.", answered) == answered[1]
    assert repeated_query("Find the output of Ghana in 2026.", answered) is None


COVERED = CoveringAnalysis(
    "Exports: Ghana and Togo compared",
    frozenset({A, B}),
    "Ghana and Togo each state a figure for exports in 2025. Compare exports: who is highest and who lowest. "
    "Ghana states the highest.",
)
DIRECTION = (
    "Ghana and Togo each state a figure for exports in 2025. Compare exports: who is highest."
)


@pytest.mark.parametrize(
    ("node_ids", "direction", "is_covered"),
    [
        ({A, B}, DIRECTION, True),
        ({A, B}, DIRECTION.replace("figure", "figures"), True),
        ({A}, DIRECTION, False),
        ({A, B, C}, DIRECTION, False),
        ({C, D}, DIRECTION, False),
        (set(), DIRECTION, False),
        ({A, B}, DIRECTION.replace("2025", "2024"), False),
        ({A, B}, DIRECTION.replace("Togo", "Benin"), False),
        ({A, B}, DIRECTION.replace("exports", "imports"), False),
        ({A, B}, "Both have an edge to the same port. Say what rests on it.", False),
    ],
)
def test_an_insight_is_covered_by_an_analysis_of_its_nodes_with_the_same_content(
    node_ids: set[UUID], direction: str, is_covered: bool
) -> None:
    covering = repeated_insight(node_ids, direction, [COVERED])
    assert covering == (COVERED if is_covered else None)


def test_four_of_five_nodes_are_enough() -> None:
    wide = CoveringAnalysis("Wide", frozenset({A, B, C, D, E}), DIRECTION)
    assert repeated_insight({A, B, C, D}, DIRECTION, [wide]) == wide
    assert repeated_insight({A, B, C, D, F}, DIRECTION, [wide]) == wide
    assert repeated_insight({A, B, C}, DIRECTION, [wide]) is None


STEMS = CASES["stems"]
TEXTS = st.lists(st.sampled_from([*STEMS, *(f"{stem}. " for stem in STEMS)]), max_size=8).map(
    " ".join
)


@given(TEXTS, TEXTS)
def test_the_word_index_finds_the_same_words_as_comparing_each(text: str, other: str) -> None:
    for word in split_words(other):
        is_among = any(word.is_like(other_word) for other_word in split_words(text))
        assert Words(text).has_like(word) == is_among
        assert not is_among or any(like in normalize_letters(text) for like in word.like_texts)
