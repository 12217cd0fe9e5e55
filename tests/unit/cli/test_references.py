"""What a user names by the beginning of a name or of an id."""

from uuid import UUID

import pytest

from cli.references import Named, NoMatchError, find, is_id_prefix, short_ids
from tests.support.case_files import read_cases

CASES = read_cases(__file__)

LITHIUM = Named(UUID("a1b2c3d4-0000-4000-8000-000000000001"), ["Lithium Supply"])
LITHIUM_PRICES = Named(UUID("a1b2c3d4-0000-4000-8000-000000000002"), ["Lithium Supply Prices"])
COCOA = Named(UUID("c0c0a000-0000-4000-8000-000000000003"), ["Cocoa", "https://cocoa.example"])
ALL = [LITHIUM, LITHIUM_PRICES, COCOA]


def found(reference: str, items: list[Named] = ALL) -> Named:
    return find("agent", reference, items, lambda each: each, see="vigil agent list")


@pytest.mark.parametrize(
    ("reference", "expected"),
    [
        ("cocoa", COCOA),
        ("COC", COCOA),
        ("c", COCOA),
        (" Cocoa ", COCOA),
        ("https://coc", COCOA),
        ("c0c0", COCOA),
        ("c0c0a000-0000", COCOA),
        (str(COCOA.id).upper(), COCOA),
        ("lithium supply", LITHIUM),
        ("lithium  supply p", LITHIUM_PRICES),
        ("a1b2c3d4-0000-4000-8000-000000000002", LITHIUM_PRICES),
    ],
)
def test_the_beginning_of_a_name_or_id_is_enough_and_an_exact_name_wins(
    reference: str, expected: Named
) -> None:
    assert found(reference) == expected


@pytest.mark.parametrize("reference", ["l", "lithium", "a1b2c3d4"])
def test_an_ambiguous_name_lists_the_candidates_with_distinct_ids(reference: str) -> None:
    with pytest.raises(NoMatchError) as error:
        found(reference)
    for each in (LITHIUM, LITHIUM_PRICES):
        assert f"{each.names[0]} ({each.id})" in str(error.value)
    assert "Cocoa" not in str(error.value)
    assert error.value.exit_code == 1


@pytest.mark.parametrize(("reference", "words"), CASES["an_unknown_name_suggests_what_is_near"])
def test_an_unknown_name_suggests_what_is_near(reference: str, words: str) -> None:
    with pytest.raises(NoMatchError) as error:
        found(reference)
    assert words in str(error.value)


def test_many_candidates_are_counted() -> None:
    many = [Named(UUID(int=number), [f"Agent {number}"]) for number in range(9)]
    with pytest.raises(NoMatchError, match="and 4 more"):
        found("agent", many)


def test_short_ids_are_distinct() -> None:
    assert short_ids([LITHIUM.id, COCOA.id]) == {LITHIUM.id: "a1b2c3d4", COCOA.id: "c0c0a000"}
    both = short_ids([LITHIUM.id, LITHIUM_PRICES.id])
    assert len(set(both.values())) == 2


@pytest.mark.parametrize(
    ("text", "expected"),
    [("a1b2", True), ("A1B2c3d4-00", True), ("a1b", False), ("soon", False), ("a1b2" * 20, False)],
)
def test_the_beginning_of_an_id_is_recognized(text: str, expected: bool) -> None:
    assert is_id_prefix(text) is expected
