"""Resolution on labelled pairs: how often it merges wrongly, and how often it misses what is the same."""

from typing import Final

import pytest

from shared.graph.entity_resolution.comparison import Verdict, is_ambiguous
from shared.graph.entity_resolution.facts import (
    Fact,
    contradictions,
    describes,
    identifying_facts,
)
from shared.graph.entity_resolution.relations import Relation, relate
from tests.support.case_files import read_cases
from tests.support.identity_pairs import Figures, compare_pair, load_pairs, measure

CASES = read_cases(__file__)
MIN_PAIRS, MIN_HELD_OUT = 600, 150
MIN_PRECISION, MIN_RECALL = 0.99, 0.9


PUBLISHED: Final = {
    "development": Figures(147, 0, 258, 240, 142, 139, 274, 66),
    "held_out": Figures(43, 0, 70, 64, 40, 39, 75, 24),
}
"""In decision 0067: change both."""


@pytest.mark.parametrize("name", PUBLISHED)
def test_precision_and_recall_at_the_operating_point(name: str) -> None:
    figures = measure(load_pairs(name))
    assert figures.precision >= MIN_PRECISION, figures
    assert figures.recall >= MIN_RECALL, figures
    assert figures == PUBLISHED[name]


def test_there_are_enough_pairs() -> None:
    assert len(load_pairs("development")) >= MIN_PAIRS
    assert len(load_pairs("held_out")) >= MIN_HELD_OUT


@pytest.mark.parametrize("name", PUBLISHED)
def test_what_cannot_be_known_is_never_merged(name: str) -> None:
    merged = [
        pair.text
        for pair in load_pairs(name)
        if pair.label == "unknown" and compare_pair(pair).verdict is Verdict.SAME
    ]
    assert not merged


@pytest.mark.parametrize(("type_name", "one", "other", "relation"), CASES["relations"])
def test_relations(type_name: str, one: str, other: str, relation: str) -> None:
    assert relate(type_name, one, other).relation is Relation[relation]
    assert relate(type_name, other, one).relation is Relation[relation]


@pytest.mark.parametrize(("type_name", "name", "expected"), CASES["ambiguous"])
def test_ambiguous_names(type_name: str, name: str, expected: bool) -> None:
    assert is_ambiguous(type_name, name) is expected


@pytest.mark.parametrize(("name", "one", "other", "contradict"), CASES["facts"])
def test_facts_contradict_or_agree(name: str, one: str, other: str, contradict: bool) -> None:
    own, theirs = (identifying_facts("Event", {name: value}, {}) for value in (one, other))
    assert own
    assert bool(contradictions(own, theirs)) is contradict


def test_a_schema_adds_and_removes_identifying_properties() -> None:
    schema = {"properties": {"colour": {"identifies": "role"}, "office": {"identifies": False}}}
    facts = identifying_facts("Horse", {"colour": "brown", "office": "mayor", "legs": 4}, schema)
    assert facts == [Fact("colour", "role", "brown")]


@pytest.mark.parametrize(("description", "kind", "value", "expected"), CASES["descriptions"])
def test_descriptions(description: str, kind: str, value: str, expected: bool | None) -> None:
    assert describes(description, [Fact("state", kind, value)]) is expected  # type: ignore[arg-type]  # a kind
