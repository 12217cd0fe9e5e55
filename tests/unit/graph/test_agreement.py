"""How many origins support a value, and what others say."""

from collections.abc import Sequence
from datetime import UTC, datetime
from typing import Any
from uuid import uuid4

from shared.graph.provenance.agreement import OtherValue, agreements
from shared.graph.provenance.claims import Claim
from shared.graph.provenance.origins import Origin

NOW = datetime(2026, 11, 30, tzinfo=UTC)


def year(number: int) -> datetime:
    return datetime(number, 1, 1, tzinfo=UTC)


def said(
    site: str, number: int, *, is_retracted: bool = False, **values: Any
) -> tuple[Claim, Origin]:
    return Claim(uuid4(), values, year(number), year(2026), is_retracted), Origin((site,))


def origins(*sites: str) -> tuple[Origin, ...]:
    return tuple(Origin((site,)) for site in sites)


def agreeing(
    claims: list[tuple[Claim, Origin]],
) -> dict[str, tuple[Sequence[Origin], Sequence[OtherValue]]]:
    return {name: (each.origins, each.others) for name, each in agreements(claims, NOW).items()}


def test_pages_of_one_origin_count_once() -> None:
    found = agreeing([said("a", 2024, people=3), said("a", 2025, people=3)])
    assert found == {"people": (origins("a"), ())}


def test_origins_that_say_the_same_agree_whatever_their_dates() -> None:
    found = agreeing([said("b", 2020, people=3), said("a", 2025, people=3.0)])
    assert found == {"people": (origins("a", "b"), ())}


def test_only_the_newest_claim_of_an_origin_counts() -> None:
    found = agreeing(
        [said("a", 2020, people=2), said("a", 2025, people=3), said("b", 2024, people=3)]
    )
    assert found == {"people": (origins("a", "b"), ())}


def test_what_other_origins_say_stands_beside_the_current_value() -> None:
    found = agreeing(
        [
            said("a", 2025, people=3, capital="Accra"),
            said("b", 2024, people=4),
            said("c", 2023, people=4),
            said("d", 2024, people=5),
            said("d", 2022, capital="Accra"),
        ]
    )
    others = (OtherValue(4, origins("b", "c"), year(2024)), OtherValue(5, origins("d"), year(2024)))
    assert found == {
        "people": (origins("a"), others),
        "capital": (origins("a", "d"), ()),
    }


def test_retracted_claims_do_not_count() -> None:
    found = agreeing([said("a", 2025, people=3, is_retracted=True), said("b", 2020, people=2)])
    assert found == {"people": (origins("b"), ())}
    assert agreeing([said("a", 2025, people=3, is_retracted=True)]) == {}
