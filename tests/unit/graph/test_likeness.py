"""How much alike names read: the quick way finds what the plain way finds."""

from hypothesis import given
from hypothesis import strategies as st

from shared.graph.entity_resolution.candidates import similar_keys, similarity
from shared.graph.entity_resolution.normalization import discriminators

_KEYS = st.lists(st.text("abé1", min_size=1, max_size=9), min_size=1, max_size=4).map(" ".join)


def _plain(key: str, others: list[str], least: float) -> dict[str, float]:
    return {
        other: similarity(key, other)
        for other in others
        if similarity(key, other) >= least and discriminators(other) == discriminators(key)
    }


@given(_KEYS, st.lists(_KEYS), st.floats(0, 1))
def test_none_is_left_out_that_reads_alike(key: str, others: list[str], least: float) -> None:
    found = {each.key: each.similarity for each in similar_keys(key, others, least)}
    assert found == _plain(key, others, least)


def test_it_counts_the_trigrams_of_words_as_pg_trgm_does() -> None:
    """`select similarity('word', 'two words')` is 0.36363637."""
    assert similarity("word", "two words") == 4 / 11
    assert similarity("a b", "b a") == 1
    assert similarity("abc", "xyz") == 0
    assert [each.key for each in similar_keys("word", ["two words"], 4 / 11)] == ["two words"]
