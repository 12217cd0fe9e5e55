"""Queries and insights that repeat earlier ones, and similar ones that do not, as tables of cases."""

from itertools import permutations
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
from services.observer.planning import known_answer
from shared.graph.context import FreshNode
from shared.workflow.questions import is_same_question, normalize_letters, split_words
from tests.support.case_files import read_cases

CASES = read_cases(__file__)


def node(
    name: str, fresh: str = "", *, type_name: str = "Country", **properties: object
) -> FreshNode:
    return FreshNode(type_name, name, properties, fresh.split() or list(properties))


NODES = [
    node("Togo", population=8_500_000, populationYear=2024, cocoaExportsUsd2023=40, capital="Lomé"),
    node("Chile", lithiumProductionTonnes=49_000, copperProduction=5.3, area_km2=756_102),
    node("Bank of Chile", type_name="Bank", revenueMillionUsd=3_100, founded=""),
    node("Ghana", "population", population=33_000_000, area=238_533, population_f=16_000_000),
    node(
        "Acme", type_name="MiningCompany", revenue2019=1, revenue2024=2, owner="Bolt", target2030=9
    ),
    node("Bolt", type_name="Company", revenueUsd=7, foundedYear=1998, news=3, revenueÉ=4),
    node("Georgia", type_name="Country", population=3),
    node("Georgia", type_name="State", population=11),
    node("Disney", type_name="Company", subscribers=1),
    node("C", type_name="Language", popularity=1),
]

KNOWN = CASES["known"]

UNKNOWN = CASES["unknown"]


@pytest.mark.parametrize(("objective", "answer"), KNOWN)
def test_a_property_of_a_named_node_is_known(objective: str, answer: str) -> None:
    assert known_answer(objective, NODES) == answer


@pytest.mark.parametrize("objective", UNKNOWN)
def test_anything_else_is_unknown(objective: str) -> None:
    assert known_answer(objective, NODES) is None


def test_the_order_of_nodes_does_not_matter() -> None:
    few = [node("Chile", gold=1), node("Bank of Chile", gold=2), node("Chile Bank", gold=3)]
    for nodes in permutations(few):
        assert known_answer("Gold of Chile", nodes) == "Chile: gold is 1"
        assert known_answer("Gold of the Bank of Chile", nodes) == "Bank of Chile: gold is 2"


A, B, C, D, E, F = (UUID(int=number) for number in range(1, 7))

SAME = CASES["same"]

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
