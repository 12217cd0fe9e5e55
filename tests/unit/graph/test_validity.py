"""Which value holds at a moment, which are upcoming or have ended, and which are contested."""

from collections.abc import Sequence
from dataclasses import replace
from datetime import UTC, date, datetime, time, timedelta
from itertools import permutations
from random import Random
from typing import Any, Final
from uuid import UUID

import pytest

from shared.graph.provenance.agreement import agreements
from shared.graph.provenance.beside import beside
from shared.graph.provenance.claims import (
    UNKNOWN_DATE,
    Claim,
    apply_claims,
    current_claims,
    project_properties,
    upcoming_claims,
)
from shared.graph.provenance.contradiction import contradict
from shared.graph.provenance.origins import Origin
from shared.graph.retraction.doubts import invalidated_by
from tests.support.case_files import read_cases
from tests.support.seeds import first_seed, repeatable, seed_count

CASES: Final = read_cases(__file__)
NOW: Final = datetime(2026, 11, 30, tzinfo=UTC)
Said = Sequence[Any]
"""Value, day of publication, start and end of validity, site."""


def moment(day: date | None) -> datetime | None:
    return None if day is None else datetime.combine(day, time(), UTC)


def claims_of(said: Sequence[Said]) -> list[Claim]:
    """In the order in which they are learned, on the day before NOW."""
    return [_claim(number, *each) for number, each in enumerate(said)]


def _claim(
    number: int, value: Any, published: date, start: date | None, end: date | None, site: str
) -> Claim:
    learned = NOW - timedelta(days=1, seconds=-number)
    page, valid_from, valid_to = map(moment, (published, start, end))
    dates = [each for each in (page, valid_from) if each is not None]
    if page is None:
        dates = [each for each in dates if each <= learned]
    return Claim(
        UUID(int=number),
        {"rate": value},
        min([*dates, learned]) if dates else UNKNOWN_DATE,
        learned,
        url=f"https://{site}.example/",
        valid_from=valid_from,
        valid_to=valid_to,
        published=page,
    )


@pytest.mark.parametrize(("said", "value", "upcoming"), CASES["the_value_that_holds_today"])
def test_the_value_that_holds_today(
    said: Sequence[Said], value: Any, upcoming: Sequence[tuple[date, Any]]
) -> None:
    for order in permutations(claims_of(said)):
        assert project_properties({}, order, NOW) == {"rate": value}
        coming = upcoming_claims(order, NOW).get("rate", [])
        assert [(each.valid_from, each.values["rate"]) for each in coming] == [
            (moment(day), each) for day, each in upcoming
        ]


@pytest.mark.parametrize(
    ("speakers", "is_contested"),
    [
        (("Ada Roe", "Ole Vind"), True),
        (("Ada Roe", "Roe"), False),
        (("Ada Roe", None), False),
        ((None, "Ole Vind"), False),
    ],
)
def test_the_word_of_another_speaker_overtakes_none(
    speakers: Sequence[str | None], is_contested: bool
) -> None:
    said = [[5, date(2026, 11, 20), None, None, "a"], [4, date(2026, 11, 2), None, None, "b"]]
    claims = [
        replace(claim, speaker=speaker)
        for claim, speaker in zip(claims_of(said), speakers, strict=True)
    ]
    found = agreements(((claim, Origin((claim.url,))) for claim in claims), NOW)["rate"]
    assert (found.value, bool(found.contested)) == (5, is_contested)


@pytest.mark.parametrize(("said", "contested"), CASES["contested_values"])
def test_contested_values(said: Sequence[Said], contested: Sequence[Any]) -> None:
    for order in permutations(claims_of(said)):
        found = agreements(((claim, Origin((claim.url,))) for claim in order), NOW)["rate"]
        values = [other.value for other in found.contested]
        # Of what two sites say on one day, what was learned last is the present value.
        assert sorted(map(str, values)) == sorted(map(str, contested))


@pytest.mark.parametrize(("value", "other", "expected"), CASES["values_that_contradict_each_other"])
def test_values_that_contradict_each_other(value: Any, other: Any, expected: bool) -> None:
    assert contradict("rate", value, other) is expected
    assert contradict("rate", other, value) is expected
    assert not contradict("summary", value, other)


def test_one_short_form_of_what_stands_beside() -> None:
    claims = [
        Claim(UUID(int=1), {"rate": 4}, NOW, NOW, url="a"),
        Claim(UUID(int=2), {"rate": 5}, NOW, NOW - timedelta(hours=1), url="b"),
        Claim(UUID(int=3), {"rate": 5}, UNKNOWN_DATE, NOW, url="c"),
        Claim(UUID(int=4), {"rate": 6}, NOW, NOW, url="a", valid_from=NOW + timedelta(days=32)),
        Claim(UUID(int=5), {"fee": 1}, NOW, NOW, url="a", valid_to=NOW),
        Claim(UUID(int=6), {"tax": 2}, NOW, NOW, url="a", valid_from=NOW + timedelta(days=1)),
        Claim(UUID(int=7), {"name": "x"}, NOW, NOW, url="a"),
    ]
    found = agreements(((claim, Origin((claim.url,))) for claim in claims), NOW)
    assert beside(found) == (
        "fee ended 2026-11-29; contested rate: 4 (1 origin, 2026-11-30) or 5 (2 origins, 2026-11-30);"
        " rate from 2027-01-01: 6; tax only from 2026-12-01"
    )
    assert [name for name, each in found.items() if each.is_plain] == ["name"]


def test_a_given_value_that_is_not_valid_yet_is_reported_with_its_day() -> None:
    held, announced = claims_of(
        [
            (4, date(2026, 1, 10), None, None, "a"),
            (5, date(2026, 11, 20), date(2027, 1, 1), None, "a"),
        ]
    )
    change = apply_claims({"rate": 4}, [held], [announced], NOW)
    assert change.properties == {"rate": 4}
    assert change.upcoming == {"rate": moment(date(2027, 1, 1))}
    assert (change.superseded, change.retained) == ({}, {})


def test_retracting_an_announcement_invalidates_what_rests_on_it() -> None:
    held, announced, confirmed = claims_of(
        [
            (4, date(2026, 1, 10), None, None, "a"),
            (5, date(2026, 11, 20), date(2027, 1, 1), None, "b"),
            (5, date(2026, 11, 21), date(2027, 1, 1), None, "c"),
        ]
    )
    retracted = Claim(**{**vars(announced), "is_retracted": True})
    sources = {each.evidence_id: each.evidence_id for each in (held, announced, confirmed)}
    at = {announced.evidence_id: NOW}
    later = NOW + timedelta(days=60)
    for now in (NOW, later):
        assert invalidated_by([held, retracted], sources, at, now) == {announced.evidence_id}
        assert invalidated_by([held, retracted, confirmed], sources, at, now) == set()


def test_the_clock_alone_changes_the_value_at_boundaries_only() -> None:
    first = first_seed()
    for seed in range(first, first + (seed_count() or 200)):
        with repeatable(seed):
            _move_the_clock(Random(seed))


def _move_the_clock(chance: Random) -> None:
    """At any moment, the present value holds if any does, and between two boundaries nothing changes."""
    said = [
        (
            chance.randint(1, 4),
            chance.choice([None, date(2026, chance.randint(1, 11), chance.randint(1, 28))]),
            chance.choice([None, date(2026, chance.randint(1, 12), 1), date(2027, 5, 1)]),
            chance.choice([None, None, date(2026, chance.randint(1, 12), 15), date(2027, 8, 1)]),
            chance.choice("abc"),
        )
        for _ in range(chance.randint(1, 8))
    ]
    claims = claims_of(said)
    days = [NOW + timedelta(days=days) for days in range(-400, 400, 3)]
    before: tuple[datetime, Any] | None = None
    for now in days:
        winner = current_claims(claims, now)["rate"]
        if any(claim.holds(now) for claim in claims):
            assert winner.holds(now)
        elif any(claim.has_ended(now) for claim in claims):
            assert winner.has_ended(now)
        value = project_properties({}, claims, now)
        if before is not None and value != before[1]:
            boundaries = [each for claim in claims for each in (claim.valid_from, claim.valid_to)]
            assert any(each and before[0] < each <= now for each in boundaries)
        before = now, value
