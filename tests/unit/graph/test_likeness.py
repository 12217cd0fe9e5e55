"""How much alike names read: the quick way finds what the plain way finds."""

from hypothesis import given
from hypothesis import strategies as st

from shared.graph.entity_resolution.candidates import alike, likeness
from shared.graph.entity_resolution.normalization import marks

_KEYS = st.lists(st.text("abé1", min_size=1, max_size=9), min_size=1, max_size=4).map(" ".join)


def _plain(key: str, others: list[str], least: float) -> dict[str, float]:
    return {
        other: likeness(key, other)
        for other in others
        if likeness(key, other) >= least and marks(other) == marks(key)
    }


@given(_KEYS, st.lists(_KEYS), st.floats(0, 1))
def test_none_is_left_out_that_reads_alike(key: str, others: list[str], least: float) -> None:
    found = {each.key: each.likeness for each in alike(key, others, least)}
    assert found == _plain(key, others, least)


def test_it_counts_the_trigrams_of_words_as_pg_trgm_does() -> None:
    """`select similarity('word', 'two words')` is 0.36363637."""
    assert likeness("word", "two words") == 4 / 11
    assert likeness("a b", "b a") == 1
    assert likeness("abc", "xyz") == 0
    assert [each.key for each in alike("word", ["two words"], 4 / 11)] == ["two words"]
