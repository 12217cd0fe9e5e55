"""Similarity of names: the indexed search finds the same names as comparing all."""

from hypothesis import given
from hypothesis import strategies as st

from shared.graph.entity_resolution.candidates import similar_keys, similarity
from shared.graph.entity_resolution.normalization import discriminators

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
