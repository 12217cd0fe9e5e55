"""Names, sentences, figures, labelled facts, phrases."""

import pytest

from sandbox.text.english import is_group_of_actors, is_plural, snake_case
from sandbox.text.figures import find_figures, parse_amount
from sandbox.text.missions import Scope, Subject, parse_mission
from sandbox.text.names import NameFinder
from sandbox.text.sentences import ListItem, list_items, parse_label, sentences
from sandbox.text.tokens import stems


def names(text: str, *known_names: str) -> list[str]:
    finder = NameFinder([text], known_names)
    return [name.text for sentence in sentences(text) for name in finder.find(sentence)]


@pytest.mark.parametrize(
    ("text", "expected"),
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
        ("It handled 1.6 million TEU in 2025.", []),
        ("The Danish Refugee Council (DRC) met them.", ["Danish Refugee Council"]),
        ("Harbour Line of Rotterdam ordered ships.", ["Harbour Line", "Rotterdam"]),
        ("They met Australian Prime Minister Robert Menzies.", ["Robert Menzies"]),
        ("It joined the Middle Eastern powers.", []),
    ],
)
def test_names(text: str, expected: list[str]) -> None:
    assert names(text) == expected


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


def test_a_long_sentence_is_split_at_its_semicolons() -> None:
    text = "; ".join([f"clause {number} is of some length indeed" for number in range(20)]) + "."
    parts = sentences(text)
    assert len(parts) > 1
    assert all(part in text and len(part) <= 320 for part in parts)


@pytest.mark.parametrize(
    ("sentence", "expected"),
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
        (
            "Togo — Telephones: less than 1 (2023 est.).",
            [("Telephones", "less than 1 (2023 est.)")],
        ),
        ("Peru — Coastline: 823 km (Pacific 669 km; lakes 154 km).", [("Coastline", "823 km")]),
        ("Peru — Service age: 18 years of age for men and women who volunteer.", []),
        ("Suryam Power employs 5,100 people.", [("people employed", "5,100 people")]),
    ],
)
def test_figures(sentence: str, expected: list[tuple[str, str]]) -> None:
    figures = [(figure.label, figure.value) for figure in find_figures(sentence)]
    assert figures == expected
    assert all(value in sentence for _, value in figures)


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
    amount = parse_amount(value)
    assert amount is not None
    assert amount.number == pytest.approx(number)
    assert amount.unit == unit


def test_labelled_lists() -> None:
    line = parse_label("Ghana — Exports - partners: Switzerland 24%, UAE 18% (2023).")
    assert line is not None
    assert (line.subject, line.key) == ("Ghana", "Exports - partners")
    assert list_items(line) == [ListItem("Switzerland", "24%"), ListItem("UAE", "18%")]


def test_the_comma_in_a_number_separates_no_entries() -> None:
    line = parse_label("Peru — Land boundaries, border countries: Chile 168 km; Brazil 2,659 km")
    assert line is not None
    assert list_items(line) == [ListItem("Chile", "168 km"), ListItem("Brazil", "2,659 km")]
    assert parse_label("The minister said: we will not wait for them.") is None


@pytest.mark.parametrize(
    ("mission", "subject"),
    [
        (
            "Watch energy security and exports of West African economies",
            Subject(("energy security", "exports"), (Scope("West African economies"),)),
        ),
        (
            "Find short-term opportunities among semiconductor suppliers",
            Subject(("semiconductor suppliers",)),
        ),
        (
            "Keep an eye on the Bank of England and inflation",
            Subject(("the Bank of England", "inflation")),
        ),
        ("find opportunities", Subject(())),
        (
            "Watch copper mining in Zambia and Chile",
            Subject(("copper mining",), (Scope("Zambia", "in"), Scope("Chile", "in"))),
        ),
        (
            "watch oil exports of nigeria, angola and gabon",
            Subject(("oil exports",), (Scope("nigeria"), Scope("angola"), Scope("gabon"))),
        ),
        (
            "Watch exports of African economies and inflation",
            Subject(("exports", "inflation"), (Scope("African economies"),)),
        ),
        (
            "How exposed are European chemical makers to gas prices?",
            Subject(("European chemical makers", "gas prices")),
        ),
        ("What drives Brazil's soy prices?", Subject(("soy prices",), (Scope("Brazil"),))),
        (
            "Watch the aging of Japan's and Italy's populations.",
            Subject(("aging of populations",), (Scope("Japan"), Scope("Italy"))),
        ),
        (
            "Which Central Asian states depend on remittances from Russia?",
            Subject(("remittances from Russia",), (Scope("Central Asian states"),)),
        ),
        (
            "Understand migration from Venezuela to Colombia",
            Subject(("migration",), (Scope("Venezuela", "from"), Scope("Colombia", "to"))),
        ),
        (
            "tourism in island states of the Caribbean",
            Subject(("tourism in island states",), (Scope("Caribbean", "of the"),)),
        ),
        ("Who supplies China with rare earths?", Subject(("China", "rare earths"))),
        ("Zambia and Chile", Subject(("Zambia", "Chile"))),
        ("US", Subject(("US",))),
    ],
)
def test_the_subject_of_a_mission(mission: str, subject: Subject) -> None:
    assert parse_mission(mission) == subject


def test_forms_of_a_word_have_the_same_stem() -> None:
    assert stems("Economies' exports") == stems("the economy export")


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        ("gold, other metals, and copper", ["gold", "copper"]),
        ("fish, lobster; coffee, corn", ["fish", "lobster", "coffee", "corn"]),
        ("none, zinc", ["zinc"]),
        ("The Gambia, Mali", ["The Gambia", "Mali"]),
    ],
)
def test_fragments_are_not_list_items(value: str, expected: list[str]) -> None:
    line = parse_label(f"Togo — Exports - commodities: {value}.")
    assert line is not None
    assert [item.name for item in list_items(line)] == expected


def test_names_of_edge_types_are_cut_after_a_whole_word() -> None:
    assert snake_case("Telephones - fixed lines, subscriptions per 100 inhabitants") == (
        "telephones_fixed_lines_subscriptions"
    )


@pytest.mark.parametrize(
    ("phrase", "plural", "is_service_group"),
    [("chip makers", True, True), ("soy prices", True, False), ("economics", False, False)],
)
def test_plurals(phrase: str, plural: bool, is_service_group: bool) -> None:
    assert (is_plural(phrase), is_group_of_actors(phrase)) == (plural, is_service_group)
