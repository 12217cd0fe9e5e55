"""The newest claim that is not retracted applies, in whatever order claims were learned."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from itertools import permutations
from typing import Any
from uuid import UUID

import pytest

from shared.graph.provenance.claims import (
    UNKNOWN_DATE,
    Claim,
    apply_claims,
    current_claims,
    project_properties,
)

DAY_0 = datetime(2026, 1, 1, tzinfo=UTC)
NOW = datetime(2026, 11, 30, tzinfo=UTC)


def claim(number: int, as_of: int, *, retracted: bool = False, **values: Any) -> Claim:
    learned = DAY_0 + timedelta(days=100 + number)
    return Claim(UUID(int=number), values, DAY_0 + timedelta(days=as_of), learned, retracted)


def test_the_newer_claim_applies_even_if_learned_earlier() -> None:
    newer, older = claim(1, as_of=9, price=3), claim(2, as_of=5, price=2)
    for order in permutations([newer, older]):
        assert project_properties({}, order, NOW) == {"price": 3}
        assert current_claims(order, NOW)["price"] is newer


def test_of_claims_of_the_same_day_the_last_learned_applies() -> None:
    assert project_properties(
        {}, [claim(2, as_of=5, price=2), claim(1, as_of=5, price=3)], NOW
    ) == {"price": 2}


def test_each_property_has_its_own_newest_claim() -> None:
    claims = [claim(1, as_of=1, price=1, place="Oslo"), claim(2, as_of=2, price=2)]
    assert project_properties({}, claims, NOW) == {"price": 2, "place": "Oslo"}


def test_retracting_a_claim_restores_the_previous_value_and_can_be_undone() -> None:
    before, after = claim(1, as_of=1, price=1), claim(2, as_of=2, price=2, place="Oslo")
    retracted = claim(2, as_of=2, retracted=True, price=2, place="Oslo")
    properties = project_properties({}, [before, after], NOW)
    without = project_properties(properties, [before, retracted], NOW)
    assert without == {"price": 1}
    assert project_properties(without, [before, after], NOW) == properties


def test_properties_without_claims_are_retained() -> None:
    assert project_properties({"price": 1, "place": "Oslo"}, [claim(1, as_of=1, price=2)], NOW) == {
        "price": 2,
        "place": "Oslo",
    }


@dataclass(frozen=True)
class Said:
    """One value that a page states for a property, in the order in which it is learned."""

    price: int
    day: int | None
    """Day of the page's date; None if it has none."""
    page: str = "a"
    retracted: bool = False


UNDATED_CASES = {
    "a dated value stays when an undated one is learned": ([Said(12, 5), Said(9, None, "b")], 12),
    "a dated value replaces an undated one": ([Said(9, None), Said(12, 5, "b")], 12),
    "however old its date is": ([Said(9, None), Said(12, -9_000, "b")], 12),
    "the first of two undated values stays": ([Said(1, None), Said(2, None, "b")], 1),
    "until its own page says otherwise": ([Said(1, None), Said(2, None, "b"), Said(3, None)], 3),
    "another page changes nothing twice": ([Said(1, None), Said(2, None, "b"), Said(3, None, "b")], 1),
    "the next holds if the first is retracted": ([Said(1, None, retracted=True), Said(2, None, "b")], 2),
    "an undated value holds if the dated one is retracted": ([Said(12, 5, retracted=True), Said(9, None, "b")], 9),
    "an undated version of a dated page does not replace it": ([Said(12, 5), Said(9, None)], 12),
}  # fmt: skip


def _claims(said: Sequence[Said]) -> list[Claim]:
    return [
        Claim(
            UUID(int=number),
            {"price": each.price},
            UNKNOWN_DATE if each.day is None else DAY_0 + timedelta(days=each.day),
            DAY_0 + timedelta(days=100 + number),
            each.retracted,
            f"https://{each.page}.example/",
        )
        for number, each in enumerate(said)
    ]


@pytest.mark.parametrize(("said", "expected"), UNDATED_CASES.values(), ids=UNDATED_CASES)
def test_an_unknown_date_never_wins(said: Sequence[Said], expected: int) -> None:
    for order in permutations(_claims(said)):
        assert project_properties({}, order, NOW) == {"price": expected}


@pytest.mark.parametrize(
    ("said", "expected"),
    [case for case in UNDATED_CASES.values() if not any(each.retracted for each in case[0])],
)
def test_writing_one_after_the_other_gives_the_same(said: Sequence[Said], expected: int) -> None:
    properties: dict[str, Any] = {}
    claims = _claims(said)
    for number, new in enumerate(claims):
        change = apply_claims(properties, claims[:number], [new], NOW)
        is_kept = change.properties["price"] != new.values["price"]
        assert ("price" in change.retained) is is_kept
        properties = change.properties
    assert properties == {"price": expected}


def test_a_page_without_a_date_replaces_what_an_older_version_has_dated_by_its_reading() -> None:
    old = Claim(
        UUID(int=1), {"price": 1}, DAY_0, DAY_0, url="https://a.example/", is_dated_by_reading=True
    )
    later = [Said(2, None, "b"), Said(3, None), Said(4, None), Said(5, None, "b")]
    for order in permutations([old, *_claims(later)]):
        assert project_properties({}, order, NOW) == {"price": 4}
    dated = _claims([*later, Said(6, 5, "b")])
    for order in permutations([old, *dated]):
        assert project_properties({}, order, NOW) == {"price": 6}


def test_a_value_without_a_date_is_reported_without_one() -> None:
    first, second = _claims([Said(1, None), Said(2, None, "b")])
    change = apply_claims({"price": 1}, [first], [second], NOW)
    assert change.retained["price"].as_of is None
    dated, undated = _claims([Said(1, None), Said(2, 5, "b")])
    assert apply_claims({"price": 1}, [dated], [undated], NOW).superseded["price"].as_of is None
