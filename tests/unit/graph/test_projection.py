"""The newest claim that is not retracted applies, in whatever order claims were learned."""

from datetime import UTC, datetime, timedelta
from itertools import permutations
from typing import Any
from uuid import UUID

from shared.graph.provenance.claims import Claim, current_claims, project_properties

DAY_0 = datetime(2026, 1, 1, tzinfo=UTC)


def claim(number: int, as_of: int, *, retracted: bool = False, **values: Any) -> Claim:
    learned = DAY_0 + timedelta(days=100 + number)
    return Claim(UUID(int=number), values, DAY_0 + timedelta(days=as_of), learned, retracted)


def test_the_newer_claim_applies_even_if_learned_earlier() -> None:
    newer, older = claim(1, as_of=9, price=3), claim(2, as_of=5, price=2)
    for order in permutations([newer, older]):
        assert project_properties({}, order) == {"price": 3}
        assert current_claims(order)["price"] is newer


def test_of_claims_of_the_same_day_the_last_learned_applies() -> None:
    assert project_properties({}, [claim(2, as_of=5, price=2), claim(1, as_of=5, price=3)]) == {
        "price": 2
    }


def test_each_property_has_its_own_newest_claim() -> None:
    claims = [claim(1, as_of=1, price=1, place="Oslo"), claim(2, as_of=2, price=2)]
    assert project_properties({}, claims) == {"price": 2, "place": "Oslo"}


def test_retracting_a_claim_restores_the_previous_value_and_can_be_undone() -> None:
    before, after = claim(1, as_of=1, price=1), claim(2, as_of=2, price=2, place="Oslo")
    retracted = claim(2, as_of=2, retracted=True, price=2, place="Oslo")
    properties = project_properties({}, [before, after])
    without = project_properties(properties, [before, retracted])
    assert without == {"price": 1}
    assert project_properties(without, [before, after]) == properties


def test_properties_without_claims_are_retained() -> None:
    assert project_properties({"price": 1, "place": "Oslo"}, [claim(1, as_of=1, price=2)]) == {
        "price": 2,
        "place": "Oslo",
    }
