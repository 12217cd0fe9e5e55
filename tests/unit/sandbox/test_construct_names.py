"""Graph construction: types of names and relations between them."""

import pytest

from sandbox.model.construct.relations import Relation, relation_between
from sandbox.text.names import find_whole_name
from tests.support.sandbox.asking import answer, arguments
from tests.support.sandbox.constructing import body, looked, made_types


@pytest.mark.parametrize(
    ("between", "relation"),
    [
        (" acquired the recycling firm ", Relation("acquires")),
        (" was acquired by ", Relation("acquires", reversed=True)),
        (" buys its lithium from ", Relation("buys_from")),
        (", a battery maker based in ", Relation("located_in")),
        (" is a battery maker in ", Relation("located_in")),
        ("'s ", Relation("part_of", reversed=True)),
        (" and ", Relation("mentioned_with")),
        (" will send its ships around the ", Relation("mentioned_with")),
        (" ships oil to ", Relation("supplies")),
        (" met, after a long day; and much later that year ", None),
    ],
)
def test_relations(between: str, relation: Relation | None) -> None:
    assert relation_between(between) == relation


def types_made(
    text: str, title: str = "News", url: str = "https://press.example/x"
) -> dict[str, str]:
    document = f"# Objective\n\n## {title}\nSource: {url}\n\n{text}"
    given = answer(made_types(looked(body(document))))
    return {one["name"]: one["type"] for one in arguments(given, "addGraphNode")}


@pytest.mark.parametrize(
    ("text", "name", "kind"),
    [
        (
            "Harbour Line, the largest shipping company of Oslo, grew.",
            "Harbour Line",
            "Organization",
        ),
        ("The president of the European Commission spoke.", "European Commission", "Organization"),
        ("Ships met at the Port of Tema in May.", "Port of Tema", "Place"),
        ("They sailed over Lake Volta in May.", "Lake Volta", "Place"),
    ],
)
def test_kinds_of_names(text: str, name: str, kind: str) -> None:
    assert types_made(text)[name] == kind


def test_the_address_of_a_page_says_what_it_is_about() -> None:
    text = "Kosovo — Background: a war ended in 1999."
    filed = "https://press.example/countries/kosovo/"
    assert types_made(text, "Kosovo: Geography", filed)["Kosovo"] == "Country"
    assert types_made(text, "Kosovo: Geography")["Kosovo"] == "Topic"


def test_a_measure_lists_nothing_and_an_abbreviation_is_no_second_node() -> None:
    text = (
        "- Togo — Telephones, subscriptions per 100 inhabitants: few, some.\n"
        "- Togo met the International Monetary Fund; the IMF lent it money.\n"
        "- The IMF wants more.\n"
    )
    made = types_made(text, "Togo: Economy")
    assert "International Monetary Fund" in made
    assert not made.keys() & {"IMF", "few", "some"}


NEIGHBOURS = """\
# Find out about exports of West Africa

## Guinea-Bissau: Economy
Source: https://press.example/bissau

- Guinea-Bissau exports 210,000 tonnes of cashews.
- Guinea-Bissau borders Guinea.

## Guinea: Economy
Source: https://press.example/guinea

- Guinea — Land boundaries: Guinea-Bissau 421 km; Liberia 590 km.
- The gas is that of Equatorial Guinea, 5.1 million tonnes.
- Bauxite leaves Guinea by sea.
"""


def test_a_name_is_no_part_of_a_longer_one() -> None:
    given = answer(made_types(looked(body(NEIGHBOURS))))
    quotes = {
        one["name"]: {each["quote"] for each in one["evidence"]}
        for one in arguments(given, "addGraphNode")
    }
    assert not any("cashews" in quote or "gas" in quote for quote in quotes["Guinea"])
    assert any("cashews" in quote for quote in quotes["Guinea-Bissau"])


@pytest.mark.parametrize(
    ("name", "sentence", "place"),
    [
        ("Guinea", "Guinea-Bissau borders Guinea.", 22),
        ("Guinea", "Equatorial Guinea and Guinea's north", 22),
        ("Bissau", "Guinea-Bissau grows.", -1),
        ("Guinea", "Guineans vote.", -1),
        ("Guinea", "A Guinea-based firm.", 2),
        ("Niger", "Nigeria and Niger", 12),
        ("Johnson & Sons Ltd.", "By Johnson & Sons Ltd. of Accra", 3),
    ],
)
def test_names_stand_whole(name: str, sentence: str, place: int) -> None:
    assert find_whole_name(name, sentence, ["Equatorial Guinea", "Guinea-Bissau"]) == place
