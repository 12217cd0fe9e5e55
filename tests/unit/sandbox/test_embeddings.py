"""Embeddings of similar and different texts."""

import math

from hypothesis import given
from hypothesis import strategies as st

from sandbox.text.embeddings import embed

DIMENSIONS = 256


def nearness(one: str, other: str) -> float:
    pairs = zip(embed(one, DIMENSIONS), embed(other, DIMENSIONS), strict=True)
    return sum(left * right for left, right in pairs)


def test_words_of_the_same_pieces_are_near_and_others_are_not() -> None:
    assert nearness("electrified vehicles", "electric trucks, vehicle parts") > 0.3
    assert abs(nearness("electrified vehicles", "banks of Ghana")) < 0.1


@given(st.text(), st.integers(1, 64))
def test_every_text_has_a_vector_of_length_one_or_none(text: str, dimensions: int) -> None:
    made = embed(text, dimensions)
    assert len(made) == dimensions
    assert math.isclose(math.hypot(*made), 1) or not any(made)
    assert made == embed(text, dimensions)
