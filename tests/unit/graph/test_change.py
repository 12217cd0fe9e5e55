"""Changes made by new claims, and the values reported as superseded or retained."""

from datetime import UTC, datetime
from typing import Any
from uuid import UUID

from shared.graph.provenance.claims import Claim, PreviousValue, apply_claims
from shared.graph.provenance.evidence import EvidenceInput, assign_claims

NOW = datetime(2026, 1, 1, tzinfo=UTC)


def claim(number: int, year: int, **values: Any) -> Claim:
    moment = datetime(year, 1, 1, tzinfo=UTC)
    return Claim(UUID(int=number), values, moment, NOW)


def start_of(year: int) -> datetime:
    return datetime(year, 1, 1, tzinfo=UTC)


def test_new_properties_supersede_nothing() -> None:
    change = apply_claims({}, (), [claim(1, 2024, a=1), claim(2, 2020, b=2)], NOW)
    assert change.properties == {"a": 1, "b": 2}
    assert set(change.evidence) == {UUID(int=1), UUID(int=2)}
    assert (change.superseded, change.retained) == ({}, {})


def test_a_newer_value_supersedes_and_an_older_one_does_not() -> None:
    previous = [claim(1, 2022, a=1, b=1)]
    change = apply_claims(
        {"a": 1, "b": 1}, previous, [claim(2, 2024, a=2), claim(3, 2020, b=3)], NOW
    )
    assert change.properties == {"a": 2, "b": 1}
    assert change.superseded == {"a": PreviousValue(1, start_of(2022))}
    assert change.retained == {"b": PreviousValue(1, start_of(2022))}


def test_the_same_value_again_changes_nothing() -> None:
    change = apply_claims({"a": 1}, [claim(1, 2022, a=1)], [claim(2, 2024, a=1.0)], NOW)
    assert (change.superseded, change.retained) == ({}, {})


def test_a_repeated_claim_is_stored_once() -> None:
    existing, repeated = claim(1, 2022, a=1), claim(1, 2022, a=1)
    change = apply_claims({"a": 1}, [existing], [repeated], NOW)
    assert change.evidence == (UUID(int=1),)


def test_a_superseded_value_without_evidence_has_no_time() -> None:
    change = apply_claims({"a": 1, "b": 1}, (), [claim(1, 2024, a=2)], NOW)
    assert change.properties == {"a": 2, "b": 1}
    assert change.superseded == {"a": PreviousValue(1, None)}


def evidence_input(*names: str, all_others: bool = False) -> EvidenceInput:
    return EvidenceInput("https://press.example", "a quote", None if all_others else names)


def test_evidence_without_properties_supports_all_unnamed_ones() -> None:
    inputs = [
        evidence_input("a"),
        evidence_input(all_others=True),
        evidence_input("a", "b"),
        evidence_input(),
    ]
    claims = assign_claims({"a": 1, "b": 2, "c": 3}, inputs)
    assert claims == [{"a": 1}, {"c": 3}, {"a": 1, "b": 2}, {}]
    assert assign_claims({}, [evidence_input(all_others=True)]) == [{}]


def test_properties_that_no_evidence_names_are_supported_by_all_of_it() -> None:
    inputs = [evidence_input("a"), evidence_input()]
    claims = assign_claims({"a": 1, "b": 2, "c": 3}, inputs)
    assert claims == [{"a": 1, "b": 2, "c": 3}, {"b": 2, "c": 3}]


def test_evidence_for_unknown_properties_supports_the_others() -> None:
    inputs = [evidence_input("a", "d"), evidence_input(all_others=True)]
    assert assign_claims({"a": 1, "b": 2}, inputs) == [{"a": 1}, {"b": 2}]
