"""What is compared: sizes in one unit of different things, and nothing else."""

import pytest

from sandbox.model.facts import comparisons
from sandbox.model.graph_view import ViewNode
from sandbox.text.figures import is_quantity, parse_amount
from tests.support.case_files import read_cases

CASES = read_cases(__file__)


@pytest.mark.parametrize(("label", "value"), CASES["sizes_are_quantities"])
def test_sizes_are_quantities(label: str, value: str) -> None:
    assert is_quantity(label, value)
    assert parse_amount(value) is not None


@pytest.mark.parametrize(("label", "value"), CASES["numbers_that_name_something_are_none"])
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


def test_a_decimal_comma_is_not_read() -> None:
    assert parse_amount("12,3 Mio. EUR") is None
