"""Type names that denote the same type."""

import pytest

from shared.graph.types import fold_type_name


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("TradeDeal", "Tradedeal"),
        ("TradeDeal", "TradeDeals"),
        ("Country", "Countries"),
        ("Business", "Businesses"),
        ("Tax", "Taxes"),
        ("Branch", "Branches"),
        ("is_part_of", "ispart_of"),
        ("supplies", "supply"),
        ("borders", "border"),
    ],
)
def test_same_type(one: str, other: str) -> None:
    assert fold_type_name(one) == fold_type_name(other)


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("Status", "Statu"),
        ("Analysis", "Analysi"),
        ("Process", "Proces"),
        ("Gas", "Ga"),
        ("Bank", "Bond"),
    ],
)
def test_different_types(one: str, other: str) -> None:
    assert fold_type_name(one) != fold_type_name(other)
