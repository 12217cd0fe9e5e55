"""Queries that the graph answers, and similar ones that it does not, as tables of cases."""

from itertools import permutations

import pytest

from services.observer.planning import known_answer
from shared.graph.context import FreshNode
from tests.support.case_files import read_cases

CASES = read_cases(__file__)


def node(
    name: str, fresh: str = "", *, type_name: str = "Country", **properties: object
) -> FreshNode:
    return FreshNode(type_name, name, properties, fresh.split() or list(properties))


NODES = [
    node("Togo", population=8_500_000, populationYear=2024, cocoaExportsUsd2023=40, capital="Lomé"),
    node("Chile", lithiumProductionTonnes=49_000, copperProduction=5.3, area_km2=756_102),
    node("Bank of Chile", type_name="Bank", revenueMillionUsd=3_100, founded=""),
    node("Ghana", "population", population=33_000_000, area=238_533, population_f=16_000_000),
    node(
        "Acme", type_name="MiningCompany", revenue2019=1, revenue2024=2, owner="Bolt", target2030=9
    ),
    node("Bolt", type_name="Company", revenueUsd=7, foundedYear=1998, news=3, revenueÉ=4),
    node("Georgia", type_name="Country", population=3),
    node("Georgia", type_name="State", population=11),
    node("Disney", type_name="Company", subscribers=1),
    node("C", type_name="Language", popularity=1),
]

KNOWN = [
    ("Find the population of Togo in 2024.", "Togo: population is 8500000"),
    ("What was Togo's population in 2024?", "Togo: population is 8500000"),
    ("Togo's cocoa exports in 2023", "Togo: cocoaExportsUsd2023 is 40"),
    ("The lithium production of Chile", "Chile: lithiumProductionTonnes is 49000"),
    ("Area of the country Chile", "Chile: area_km2 is 756102"),
    ("Revenue of the Bank of Chile", "Bank of Chile: revenueMillionUsd is 3100"),
    ("Population of Ghana", "Ghana: population is 33000000"),
    ("Determine the revenue of Acme in 2024", "Acme: revenue2024 is 2"),
    ("Revenue of Bolt", "Bolt: revenueUsd is 7"),
]

UNKNOWN = CASES["unknown"]


@pytest.mark.parametrize(("objective", "answer"), KNOWN)
def test_a_property_of_a_named_node_is_known(objective: str, answer: str) -> None:
    assert known_answer(objective, NODES) == answer


@pytest.mark.parametrize("objective", UNKNOWN)
def test_anything_else_is_unknown(objective: str) -> None:
    assert known_answer(objective, NODES) is None


def test_the_order_of_nodes_does_not_matter() -> None:
    few = [node("Chile", gold=1), node("Bank of Chile", gold=2), node("Chile Bank", gold=3)]
    for nodes in permutations(few):
        assert known_answer("Gold of Chile", nodes) == "Chile: gold is 1"
        assert known_answer("Gold of the Bank of Chile", nodes) == "Bank of Chile: gold is 2"
