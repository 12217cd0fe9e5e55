"""How many origins support a value, and what others say."""

from datetime import UTC, datetime
from typing import Any
from uuid import uuid4

from shared.graph.provenance.agreement import Agreement, OtherValue, agreements
from shared.graph.provenance.claims import Claim
from shared.graph.provenance.origins import Origin


def year(number: int) -> datetime:
    return datetime(number, 1, 1, tzinfo=UTC)


def said(
    site: str, number: int, *, is_retracted: bool = False, **values: Any
) -> tuple[Claim, Origin]:
    return Claim(uuid4(), values, year(number), year(2026), is_retracted), Origin((site,))


def origins(*sites: str) -> tuple[Origin, ...]:
    return tuple(Origin((site,)) for site in sites)


def test_pages_of_one_origin_count_once() -> None:
    found = agreements([said("a", 2024, people=3), said("a", 2025, people=3)])
    assert found == {"people": Agreement(origins("a"))}


def test_origins_that_say_the_same_agree_whatever_their_dates() -> None:
    found = agreements([said("b", 2020, people=3), said("a", 2025, people=3.0)])
    assert found == {"people": Agreement(origins("a", "b"))}


def test_only_the_newest_claim_of_an_origin_counts() -> None:
    found = agreements(
        [said("a", 2020, people=2), said("a", 2025, people=3), said("b", 2024, people=3)]
    )
    assert found == {"people": Agreement(origins("a", "b"))}


def test_what_other_origins_say_stands_beside_the_current_value() -> None:
    found = agreements(
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
        "people": Agreement(origins("a"), others),
        "capital": Agreement(origins("a", "d")),
    }


def test_retracted_claims_do_not_count() -> None:
    found = agreements([said("a", 2025, people=3, is_retracted=True), said("b", 2020, people=2)])
    assert found == {"people": Agreement(origins("b"))}
    assert agreements([said("a", 2025, people=3, is_retracted=True)]) == {}
