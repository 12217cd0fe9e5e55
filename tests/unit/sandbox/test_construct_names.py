"""Graph construction: types of names and relations between them."""

import pytest

from sandbox.model.construct.relations import Relation, relation_between
from sandbox.text.names import find_whole_name
from tests.support.sandbox.construction_requests import (
    body,
    request_after_lookups,
    request_after_types,
)
from tests.support.sandbox.requests import answer, arguments


@pytest.mark.parametrize(
    ("text", "relation"),
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
def test_relations(text: str, relation: Relation | None) -> None:
    assert relation_between(text) == relation


def node_types(
    text: str, title: str = "News", url: str = "https://press.example/x"
) -> dict[str, str]:
    document = f"# Objective\n\n## {title}\nSource: {url}\n\n{text}"
    reply = answer(request_after_types(request_after_lookups(body(document))))
    return {node["name"]: node["type"] for node in arguments(reply, "addGraphNode")}


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
def test_types_of_names(text: str, name: str, kind: str) -> None:
    assert node_types(text)[name] == kind


def test_the_url_of_a_page_determines_the_type_of_its_subject() -> None:
    text = "Sorveny — Background: a war ended in 1999."
    url = "https://press.example/countries/sorveny/"
    assert node_types(text, "Sorveny: Geography", url)["Sorveny"] == "Country"
    assert node_types(text, "Sorveny: Geography")["Sorveny"] == "Topic"


def test_the_name_of_a_country_is_enough() -> None:
    assert (
        node_types("Kosovo — Background: a war ended in 1999.", "Kosovo: Geography")["Kosovo"]
        == "Country"
    )


def test_neither_list_items_of_a_measure_nor_abbreviations_become_nodes() -> None:
    text = (
        "- Togo — Telephones, subscriptions per 100 inhabitants: few, some.\n"
        "- Togo met the International Monetary Fund; the IMF lent it money.\n"
        "- The IMF wants more.\n"
    )
    types = node_types(text, "Togo: Economy")
    assert "International Monetary Fund" in types
    assert not types.keys() & {"IMF", "few", "some"}


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


def test_a_name_inside_a_longer_name_is_not_quoted() -> None:
    reply = answer(request_after_types(request_after_lookups(body(NEIGHBOURS))))
    quotes = {
        node["name"]: {evidence["quote"] for evidence in node["evidence"]}
        for node in arguments(reply, "addGraphNode")
    }
    assert not any("cashews" in quote or "gas" in quote for quote in quotes["Guinea"])
    assert any("cashews" in quote for quote in quotes["Guinea-Bissau"])


@pytest.mark.parametrize(
    ("name", "sentence", "position"),
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
def test_only_whole_names_are_found(name: str, sentence: str, position: int) -> None:
    assert find_whole_name(name, sentence, ["Equatorial Guinea", "Guinea-Bissau"]) == position
