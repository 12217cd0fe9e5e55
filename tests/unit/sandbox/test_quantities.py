"""What is compared: sizes in one unit of different things, and nothing else."""

import pytest

from sandbox.model.facts import comparisons
from sandbox.model.graph_view import ViewNode
from sandbox.text.figures import is_quantity, parse_amount


@pytest.mark.parametrize(
    ("label", "value"),
    [
        ("Exports", "$25.4 billion (2023 est.)"),
        ("Capacity", "12 GWh"),
        ("Share of gas", "27%"),
        ("Fleet size", "96 ships"),
        ("Employees", "1,200"),
        ("Revenue 2019", "1950 million"),
    ],
)
def test_sizes_are_quantities(label: str, value: str) -> None:
    assert is_quantity(label, value)
    assert parse_amount(value) is not None


@pytest.mark.parametrize(
    ("label", "value"),
    [
        ("Version", "4.6"),
        ("Standards", "4.6.2.0"),
        ("Newest release", "3.11.2-6"),
        ("Release", "12"),
        ("Section", "5.1"),
        ("Page", "112"),
        ("Telephone", "555"),
        ("Contact", "+49 30 1234567"),
        ("Contact", "(030) 123-4567"),
        ("ISBN", "9783161484100"),
        ("Founded", "1987"),
        ("Established", "1987"),
        ("Last change", "19 October 1987"),
        ("Last change", "1987-10-19"),
        ("Last change", "19.10.1987"),
        ("Opening hours", "9:30"),
        ("Range", "10-20 km"),
        ("Ratio", "1/3"),
        ("Geographic coordinates", "8 00 N, 2 00 W"),
        ("Bug", "20515"),
        ("Serial number", "17"),
    ],
)
def test_numbers_that_name_something_are_none(label: str, value: str) -> None:
    assert not is_quantity(label, value)


def node(name: str, kind: str = "Country", /, **figures: str) -> ViewNode:
    properties = {label.replace("_", " "): value for label, value in figures.items()}
    return ViewNode(f"{kind} {name}", kind, name, properties)


def test_a_thing_is_not_compared_with_itself() -> None:
    nodes = [node("Ghana", Exports="$3 billion"), node("Ghana ".strip(), Exports="$2 billion")]
    assert comparisons(nodes) == []
    assert comparisons([node("Ghana", Exports="$3"), node("Ghana", "Topic", Exports="$2")]) == []


@pytest.mark.parametrize("other", ["€2 billion", "2 billion cedis", "12%", "£2 billion"])
def test_other_units_and_currencies_are_not_compared(other: str) -> None:
    assert comparisons([node("Ghana", Exports="$3 billion"), node("Togo", Exports=other)]) == []


def test_dollars_are_dollars() -> None:
    (comparison,) = comparisons(
        [node("Ghana", Exports="US$3 billion"), node("Togo", Exports="$2 billion")]
    )
    assert [figure.node.name for figure in comparison.figures] == ["Ghana", "Togo"]


def test_a_count_of_something_unnamed_is_not_compared() -> None:
    assert (
        comparisons([node("A", "Topic", bytes="8 bytes"), node("B", "Topic", bytes="4 bytes")])
        == []
    )
