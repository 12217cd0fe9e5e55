"""Similarity of names: the indexed search finds the same names as comparing all."""

import csv
from pathlib import Path

from hypothesis import given
from hypothesis import strategies as st

from shared.graph.entity_resolution.candidates import (
    DUPLICATE_THRESHOLD,
    similar_keys,
    similarity,
)
from shared.graph.entity_resolution.normalization import discriminators, normalize

_PAIRS = Path(__file__).parent / "name_pairs.csv"
_KEYS = st.lists(st.text("abé1", min_size=1, max_size=9), min_size=1, max_size=4).map(" ".join)


def _similar_keys_by_comparing_all(key: str, others: list[str], least: float) -> dict[str, float]:
    return {
        other: similarity(key, other)
        for other in others
        if similarity(key, other) >= least and discriminators(other) == discriminators(key)
    }


@given(_KEYS, st.lists(_KEYS), st.floats(0, 1))
def test_no_similar_key_is_missed(key: str, others: list[str], least: float) -> None:
    similarities = {
        candidate.key: candidate.similarity for candidate in similar_keys(key, others, least)
    }
    assert similarities == _similar_keys_by_comparing_all(key, others, least)


def test_similarity_counts_trigrams_as_pg_trgm_does() -> None:
    """`select similarity('word', 'two words')` is 0.36363637."""
    assert similarity("word", "two words") == 4 / 11
    assert similarity("a b", "b a") == 1
    assert similarity("abc", "xyz") == 0
    assert [candidate.key for candidate in similar_keys("word", ["two words"], 4 / 11)] == [
        "two words"
    ]


def _decision(type_name: str, name: str, other_name: str) -> str:
    key, other_key = (normalize(each, type_name).key for each in (name, other_name))
    if key == other_key:
        return "same"
    candidates = list(similar_keys(key, [other_key], DUPLICATE_THRESHOLD))
    return f"{candidates[0].similarity:.6f}" if candidates else "different"


def test_decisions_about_pairs_of_names_stay_the_same() -> None:
    """Variants and other names, each with what was decided about it when it was stored: a similarity, or a word."""
    with _PAIRS.open(encoding="utf-8", newline="") as file:
        pairs = list(csv.DictReader(file))
    assert len(pairs) > 500
    decisions = [_decision(pair["type"], pair["name"], pair["other_name"]) for pair in pairs]
    assert decisions == [pair["decision"] for pair in pairs]
