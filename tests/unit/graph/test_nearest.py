"""The sentence of a page that a quote was probably meant to be."""

from shared.graph.provenance.quotes import nearest_sentence

PAGE = (
    "Output rose. The price of lithium fell 18% in 2025.\nA strike stopped the port! It ended soon."
)


def test_the_sentence_most_like_it_is_told_as_it_stands() -> None:
    assert (
        nearest_sentence([PAGE], "The lithium price fell by 18 % in 2025")
        == "The price of lithium fell 18% in 2025."
    )
    assert (
        nearest_sentence(["", PAGE], "a strike stopped the harbour") == "A strike stopped the port!"
    )


def test_where_none_is_like_it_none_is_told() -> None:
    assert nearest_sentence([PAGE], "Zebras zigzag, quizzically") is None
    assert nearest_sentence([], "anything at all") is None
    assert nearest_sentence([" \n "], "anything at all") is None


def test_pages_without_an_end_are_looked_at_in_part() -> None:
    told = nearest_sentence(["lithium " * 100_000], "lithium " * 120)
    assert told is not None
    assert len(told) <= 500
