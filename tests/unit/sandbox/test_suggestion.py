"""The mission that is made from a corpus."""

import pytest

from sandbox.corpus import Document
from sandbox.corpus.suggestion import GENERAL, suggest_mission
from sandbox.text.missions import parse_mission
from tests.support.sandbox import battery_corpus

PAGES = [
    "Harborlight stores packages in a cache. The packages are checked before the server starts. See Harborlight for more.",
    "A server reads packages from Harborlight. Its servers are restarted at night, and the packages are kept.",
    "When servers stop, the packages of Harborlight are removed.",
]


def documents(*texts: str) -> list[Document]:
    return [
        Document(f"Page {number}", text, f"https://a.example/{number}")
        for number, text in enumerate(texts)
    ]


def test_the_mission_has_the_words_of_the_documents() -> None:
    mission = suggest_mission(documents(*PAGES))
    assert mission == "Watch packages and servers of Harborlight, and find out what is important"
    assert parse_mission(mission).topics == ("packages", "servers")


def test_names_alone_make_a_mission() -> None:
    assert "Volta Motors" in suggest_mission(battery_corpus.DOCUMENTS) or (
        "Northvale Cells" in suggest_mission(battery_corpus.DOCUMENTS)
    )


def test_names_of_single_documents_make_the_mission_of_a_small_corpus() -> None:
    mission = suggest_mission(
        documents("Harbour Line of Rotterdam grows.", "Clyde Tankers owns tankers in Leith.")
    )
    assert mission == "Watch Clyde Tankers and Harbour Line, and find out what is important"


@pytest.mark.parametrize(
    "texts",
    [
        (),
        ("",),
        ("12 34 56",),
        ("Das Werk wurde im Frühjahr eröffnet und es wird von der Stadt betrieben. " * 5,),
    ],
)
def test_without_english_sentences_the_mission_is_general(texts: tuple[str, ...]) -> None:
    assert suggest_mission(documents(*texts)) == GENERAL
