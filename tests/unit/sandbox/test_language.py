"""The language of documents, and what the model does with those that it cannot read."""

from pathlib import Path

import pytest

from sandbox.corpus import load
from sandbox.model.acquire import Page, Query, write_findings
from sandbox.search.index import build_index, open_index
from sandbox.text.language import language_of

TEXTS = {
    "English": "The plant was opened in the spring, and it is expected that output will rise to the level of last year.",
    "German": "Das Werk wurde im Frühjahr eröffnet, und es wird erwartet, dass die Produktion nicht mehr steigt.",
    "French": "L'usine a été ouverte au printemps, et il est prévu que la production atteigne le niveau des mois.",
    "Spanish": "La fábrica se abrió en la primavera, y se espera que la producción suba por la demanda.",
    "Chinese": "该工厂于春季开业，预计产量将恢复到去年的水平，公司表示将继续投资新的生产线。",
    "Japanese": "工場は春に開業し、生産量は昨年の水準まで回復すると予想されています。",
    "Korean": "공장은 봄에 문을 열었고 생산량은 작년 수준으로 늘어날 것으로 예상된다.",
    "a language in Cyrillic script": "Завод был открыт весной, и ожидается, что выпуск продукции вырастет.",
    "Greek": "Το εργοστάσιο άνοιξε την άνοιξη και η παραγωγή αναμένεται να φτάσει στο επίπεδο του περασμένου έτους.",
}


@pytest.mark.parametrize("language", TEXTS)
def test_the_language_of_a_text_is_found(language: str) -> None:
    assert language_of(TEXTS[language] * 3) == language


@pytest.mark.parametrize(
    "text",
    [
        "",
        "Capacity 2025: 12 GWh",
        "Customers: Volta Motors, Helios Trucks, Baltic Rail",
        "for (int i = 0; i < n; i++) { sum += values[i]; } return sum;",
        "François Müller met Iñaki Etxebarria in Zürich, and they signed the contract in the presence of the mayor of Köln.",
    ],
)
def test_a_text_without_a_sign_of_another_language_counts_as_english(text: str) -> None:
    assert language_of(text) == "English"


def test_the_languages_of_a_corpus_are_reported(tmp_path: Path) -> None:
    for language in ("English", "German", "Chinese"):
        (tmp_path / f"{language}.txt").write_text(TEXTS[language] * 3)
    (tmp_path / "zweiter.txt").write_text(TEXTS["German"] * 4)
    report = load(tmp_path).report
    assert (report.documents, report.foreign_documents) == (4, 3)
    assert report.describe_foreign().startswith("2 in German and 1 in Chinese (") or (
        report.describe_foreign().startswith("2 in German, 1 in Chinese (")
    )
    assert report.describe_english() == "English"


def test_a_cached_index_reports_the_same(tmp_path: Path) -> None:
    corpus = tmp_path / "corpus"
    corpus.mkdir()
    (corpus / "a.txt").write_text(TEXTS["German"] * 3)
    (corpus / "b.txt").write_text(TEXTS["English"] * 3)
    (corpus / "c.json").write_text("{")
    first = open_index(corpus, tmp_path / "cache").report()
    assert open_index(corpus, tmp_path / "cache").report() == first == load(corpus).report


def test_a_corpus_in_another_language_is_searched_all_the_same(tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_text(TEXTS["German"] * 3)
    assert len(build_index(load(tmp_path))) == 1


def test_the_model_quotes_no_page_in_another_language() -> None:
    pages = [
        Page(language, f"https://a.example/{language}", "", TEXTS[language] * 3, 1.0, True)
        for language in ("English", "German")
    ]
    findings = write_findings(
        Query("output of the plant Werk", ("plant output Produktion",)), pages, []
    )
    assert "https://a.example/English" in findings
    assert "https://a.example/German" not in findings
