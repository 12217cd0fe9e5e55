"""The sentence of a page that is most similar to a quote."""

from shared.graph.provenance.page_reading import nearest_sentence

PAGE = (
    "Output rose. The price of lithium fell 18% in 2025.\nA strike stopped the port! It ended soon."
)


def test_the_most_similar_sentence_is_returned_verbatim() -> None:
    assert (
        nearest_sentence([PAGE], "The lithium price fell by 18 % in 2025")
        == "The price of lithium fell 18% in 2025."
    )
    assert (
        nearest_sentence(["", PAGE], "a strike stopped the harbour") == "A strike stopped the port!"
    )


def test_without_a_similar_sentence_none_is_returned() -> None:
    assert nearest_sentence([PAGE], "Zebras zigzag, quizzically") is None
    assert nearest_sentence([], "anything at all") is None
    assert nearest_sentence([" \n "], "anything at all") is None


def test_long_sentences_are_cut() -> None:
    sentence = nearest_sentence(["lithium " * 100_000], "lithium " * 120)
    assert sentence is not None
    assert len(sentence) <= 500
