"""Names, sentences, figures, labelled facts, phrases."""

import pytest

from sandbox.text.figures import amount, figures
from sandbox.text.labels import ListItem, list_items, parse_label
from sandbox.text.names import NameFinder
from sandbox.text.phrases import Subject, subject_of
from sandbox.text.sentences import sentences
from sandbox.text.words import stems


def names(text: str, *known: str) -> list[str]:
    finder = NameFinder([text], known)
    return [name.text for sentence in sentences(text) for name in finder.find(sentence)]


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("However, the Gulf of Guinea borders Ghana.", ["Gulf of Guinea", "Ghana"]),
        ("The mines of Obuasi closed. Prices rose.", ["Obuasi"]),
        (
            "Ghana's President John Dramani MAHAMA met the IMF.",
            ["Ghana", "John Dramani MAHAMA", "IMF"],
        ),
        ("Shares of Volta Motors fell in Cote d'Ivoire.", ["Volta Motors", "Cote d'Ivoire"]),
        ("It is made in St. Louis by Johnson & Sons Ltd.", ["St. Louis", "Johnson & Sons Ltd"]),
        ("On Monday in March European powers met.", []),
        ("Northvale said that it would wait.", ["Northvale"]),
        ("Batteries are heavy.", []),
        ("The Economic and Monetary Union grew.", ["Economic and Monetary Union"]),
        ("Battery Makers Face Falling Prices Again", []),
    ],
)
def test_names(text: str, found: list[str]) -> None:
    assert names(text) == found


def test_a_known_name_keeps_its_article() -> None:
    assert names("The Gambia is a country.", "The Gambia") == ["The Gambia"]


def test_sentences_are_parts_of_their_text() -> None:
    text = (
        'Dr. Amy Smith works in the U.S. today. She said 3.5% was "low." Really?\n- An item\nNo end'
    )
    assert sentences(text) == [
        "Dr. Amy Smith works in the U.S. today.",
        'She said 3.5% was "low."',
        "Really?",
        "An item",
        "No end",
    ]


def test_a_long_sentence_is_cut_at_its_semicolons() -> None:
    text = "; ".join([f"clause {number} is of some length indeed" for number in range(20)]) + "."
    parts = sentences(text)
    assert len(parts) > 1
    assert all(part in text and len(part) <= 320 for part in parts)


@pytest.mark.parametrize(
    ("sentence", "found"),
    [
        (
            "Ghana — Exports 2023: $25.365 billion (2023 est.).",
            [("Exports 2023", "$25.365 billion (2023 est.)")],
        ),
        ("Capacity 2025: 12 GWh", [("Capacity 2025", "12 GWh")]),
        (
            "Kestrel produced 14 gigawatt hours of cells in 2025.",
            [("cells produced 2025", "14 gigawatt hours of cells")],
        ),
        (
            "Revenue rose 31% to $2.4 billion in 2025.",
            [("Revenue rose", "31%"), ("Revenue 2025", "$2.4 billion")],
        ),
        ("It cut 1,600 jobs on 7 January 2025.", [("jobs", "1,600 jobs")]),
        ("The law of 1994 has 12 chapters in all.", [("chapters", "12 chapters")]),
        ("Ghana — Exports - partners: Switzerland 24%, UAE 18%.", []),
    ],
)
def test_figures(sentence: str, found: list[tuple[str, str]]) -> None:
    stated = [(figure.label, figure.value) for figure in figures(sentence)]
    assert stated == found
    assert all(value in sentence for _, value in stated)


@pytest.mark.parametrize(
    ("value", "number", "unit"),
    [
        ("$25.4 billion (2023 est.)", 25.4e9, "$"),
        ("-$1.7 million", -1.7e6, "$"),
        ("5.7%", 5.7, "%"),
        ("176,000 bbl/day", 176_000, "bbl/day"),
        ("3.1 billion cubic meters", 3.1e9, "cubic"),
    ],
)
def test_amounts(value: str, number: float, unit: str) -> None:
    found = amount(value)
    assert found is not None
    assert found.number == pytest.approx(number)
    assert found.unit == unit


def test_labelled_lists() -> None:
    line = parse_label("Ghana — Exports - partners: Switzerland 24%, UAE 18% (2023).")
    assert line is not None
    assert (line.subject, line.key) == ("Ghana", "Exports - partners")
    assert list_items(line) == [ListItem("Switzerland", "24%"), ListItem("UAE", "18%")]
    assert parse_label("The minister said: we will not wait for them.") is None


@pytest.mark.parametrize(
    ("mission", "subject"),
    [
        (
            "Watch energy security and exports of West African economies",
            Subject(("energy security", "exports"), "West African economies"),
        ),
        (
            "Find short-term opportunities among semiconductor suppliers",
            Subject(("semiconductor suppliers",), ""),
        ),
        (
            "Keep an eye on the Bank of England and inflation",
            Subject(("Bank of England", "inflation"), ""),
        ),
        ("find opportunities", Subject((), "")),
    ],
)
def test_the_subject_of_a_mission(mission: str, subject: Subject) -> None:
    assert subject_of(mission) == subject


def test_stems_meet_across_forms() -> None:
    assert stems("Economies' exports") == stems("the economy export")
