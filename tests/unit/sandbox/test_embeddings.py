"""Embeddings of similar and different texts."""

import math

from hypothesis import given
from hypothesis import strategies as st

from tests.support.sandbox.embeddings import embed

DIMENSIONS = 256


def similarity(first: str, second: str) -> float:
    pairs = zip(embed(first, DIMENSIONS), embed(second, DIMENSIONS), strict=True)
    return sum(left * right for left, right in pairs)


def test_texts_with_common_word_parts_are_similar_and_others_are_not() -> None:
    assert similarity("electrified vehicles", "electric trucks, vehicle parts") > 0.3
    assert abs(similarity("electrified vehicles", "banks of Ghana")) < 0.1


@given(st.text(), st.integers(1, 64))
def test_every_text_has_a_vector_of_length_one_or_none(text: str, dimensions: int) -> None:
    vector = embed(text, dimensions)
    assert len(vector) == dimensions
    assert math.isclose(math.hypot(*vector), 1) or not any(vector)
    assert vector == embed(text, dimensions)
