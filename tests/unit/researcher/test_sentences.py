"""The sentences of pages that a model can quote by their numbers."""

from services.researcher.acquisition import (
    MAX_SENTENCE_CHARS,
    MAX_SENTENCES,
    Sentence,
    quotable_sentences,
)
from shared.tools import Json

OBJECTIVE = "Lithium exports of Ghana"


def page(*sentences: str, url: str = "https://a.example/") -> Json:
    return {"url": url, "content": "\n".join(sentences)}


def test_sentences_that_share_more_words_with_the_objective_come_first() -> None:
    pages = [
        page("Cocoa is sold at the port of Tema. Ghana has started to sell lithium to Europe."),
        page("The exports of lithium from Ghana began in 2026.", url="https://b.example/"),
    ]
    assert quotable_sentences(pages, OBJECTIVE) == [
        Sentence("https://b.example/", "The exports of lithium from Ghana began in 2026."),
        Sentence("https://a.example/", "Ghana has started to sell lithium to Europe."),
        Sentence("https://a.example/", "Cocoa is sold at the port of Tema."),
    ]


def test_a_sentence_of_two_pages_is_listed_once_with_the_first_page() -> None:
    text = "Ghana has started to sell lithium to Europe."
    pages = [page(text), page(text, url="https://b.example/")]
    assert quotable_sentences(pages, OBJECTIVE) == [Sentence("https://a.example/", text)]


def test_short_and_long_sentences_are_left_out_and_the_number_is_limited() -> None:
    pages = [
        page(
            "Too short.",
            "x" * (MAX_SENTENCE_CHARS + 1),
            *(f"Lithium was mined at site number {number}." for number in range(50)),
        )
    ]
    sentences = quotable_sentences(pages, OBJECTIVE)
    assert len(sentences) == MAX_SENTENCES
    assert all("Lithium" in sentence.text for sentence in sentences)


def test_pages_without_text_have_no_sentences() -> None:
    assert quotable_sentences([{"url": "https://a.example/"}], OBJECTIVE) == []
