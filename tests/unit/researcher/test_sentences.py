"""The sentences of pages that a model can quote by their numbers."""

from services.researcher.acquisition import (
    MAX_DOCUMENT_CHARS,
    MAX_SENTENCE_CHARS,
    MAX_SENTENCES,
    Sentence,
    assemble_document,
    quotable_sentences,
)
from shared.tools import Json
from tests.support.graph.shown_pages import shown_pages

OBJECTIVE = "Lithium exports of Ghana"


def page(*sentences: str, url: str = "https://a.example/") -> Json:
    return {"url": url, "content": "\n".join(sentences)}


def test_sentences_that_share_more_words_with_the_objective_come_first() -> None:
    pages = shown_pages(
        page("Cocoa is sold at the port of Tema. Ghana has started to sell lithium to Europe."),
        page("The exports of lithium from Ghana began in 2026.", url="https://b.example/"),
    )
    assert quotable_sentences(pages, OBJECTIVE) == [
        Sentence(2, 1, "The exports of lithium from Ghana began in 2026."),
        Sentence(1, 2, "Ghana has started to sell lithium to Europe."),
        Sentence(1, 1, "Cocoa is sold at the port of Tema."),
    ]


def test_a_sentence_of_two_pages_is_listed_once_with_the_first_page() -> None:
    text = "Ghana has started to sell lithium to Europe."
    pages = shown_pages(page(text), page(text, url="https://b.example/"))
    assert quotable_sentences(pages, OBJECTIVE) == [Sentence(1, 1, text)]


def test_short_and_long_sentences_are_left_out_and_the_number_is_limited() -> None:
    pages = shown_pages(
        page(
            "Too short.",
            "x" * (MAX_SENTENCE_CHARS + 1),
            *(f"Lithium was mined at site number {number}." for number in range(50)),
        )
    )
    sentences = quotable_sentences(pages, OBJECTIVE)
    assert len(sentences) == MAX_SENTENCES
    assert all("Lithium" in sentence.text for sentence in sentences)


def test_a_document_of_pages_has_their_sentences_with_their_numbers() -> None:
    pages = shown_pages(
        page("Cocoa is sold. As [2.1] says, it rots."),
        page("Lithium is mined.", url="https://b.example/"),
        page("Gold is dug.\n" * 2_000, url="https://c.example/"),
    )
    document = assemble_document(pages)
    assert document.startswith(
        "## https://a.example/\nSource: https://a.example/\n\n"
        "[1.1] Cocoa is sold.\n[1.2] As [2.1] says, it rots.\n\n"
        "## https://b.example/\nSource: https://b.example/\n\n[2.1] Lithium is mined.\n\n"
    )
    assert len(document) < MAX_DOCUMENT_CHARS
