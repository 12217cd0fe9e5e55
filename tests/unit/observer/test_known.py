"""Queries that the graph answers, and similar ones that it does not, as tables of cases."""

import pytest

from services.observer.known import known_answer
from shared.graph.context import FreshNode


def node(
    name: str, fresh: str = "", *, type_name: str = "Country", **properties: object
) -> FreshNode:
    return FreshNode(type_name, name, properties, fresh.split() or list(properties))


NODES = [
    node(
        "Togo",
        population=8_500_000,
        populationYear=2024,
        cocoaExportsUsd2023=40,
        summary="A state.",
    ),
    node("Chile", lithiumProductionTonnes=49_000, copperProduction=5.3, area_km2=756_102),
    node("Bank of Chile", type_name="Bank", revenueMillionUsd=3_100, founded=""),
    node("Ghana", "population", population=33_000_000, capital="Accra"),
]

KNOWN = [
    ("What is the population of Togo?", "Togo: population is 8500000"),
    ("Find the population of Togo in 2024.", "Togo: population is 8500000"),
    ("Togo's cocoa exports in 2023", "Togo: cocoaExportsUsd2023 is 40"),
    ("The lithium production of Chile", "Chile: lithiumProductionTonnes is 49000"),
    ("Area of the country Chile", "Chile: area_km2 is 756102"),
    ("Revenue of the Bank of Chile", "Bank of Chile: revenueMillionUsd is 3100"),
    ("Populations of Togo and Ghana", "Togo: population is 8500000; Ghana: population is 33000000"),
    ("Population of Ghana", "Ghana: population is 33000000"),
]

UNKNOWN = [
    "What is the population of Benin?",
    "Find the population of Togo in 2025",
    "Growth of the population of Togo",
    "Why does the population of Togo grow",
    "Production of Chile",
    "Lithium and copper production of Chile",
    "Lithium production of Chile by company",
    "Lithium exports of Chile",
    "Not the lithium production of Chile",
    "The lithium production of Chile and Togo",
    "The capital of Ghana",
    "When was the Bank of Chile founded",
    "What is new about Togo",
    "Find out about the population of Togo",
    "What is reported of the population of Togo",
    "Togo",
    "",
]


@pytest.mark.parametrize(("objective", "answer"), KNOWN)
def test_a_property_of_a_named_node_is_known(objective: str, answer: str) -> None:
    assert known_answer(objective, NODES) == answer


@pytest.mark.parametrize("objective", UNKNOWN)
def test_anything_else_is_unknown(objective: str) -> None:
    assert known_answer(objective, NODES) is None


def test_each_named_node_must_have_the_property() -> None:
    two = [node("Togo", population=1), node("Benin", population=2)]
    asked = "The population of Togo, the population of Benin"
    assert known_answer(asked, two) == "Togo: population is 1; Benin: population is 2"
    assert known_answer(asked, [two[0], node("Benin", capital="x")]) is None
