"""What new claims change, and what they are told of it."""

from datetime import UTC, datetime
from typing import Any
from uuid import UUID

import pytest

from shared.graph.provenance.claims import Claim, PreviousValue, apply_claims
from shared.graph.provenance.evidence import EvidenceInput, assign_claims
from shared.tools import ToolRefusalError


def claim(number: int, year: int, **values: Any) -> Claim:
    moment = datetime(year, 1, 1, tzinfo=UTC)
    return Claim(UUID(int=number), values, moment, datetime(2026, 1, 1, tzinfo=UTC))


def at(year: int) -> datetime:
    return datetime(year, 1, 1, tzinfo=UTC)


def test_what_is_new_changes_nothing_that_stood() -> None:
    made = apply_claims({}, (), [claim(1, 2024, a=1), claim(2, 2020, b=2)])
    assert made.properties == {"a": 1, "b": 2}
    assert set(made.evidence) == {UUID(int=1), UUID(int=2)}
    assert (made.superseded, made.retained) == ({}, {})


def test_a_newer_value_supersedes_and_an_older_one_does_not() -> None:
    stood = [claim(1, 2022, a=1, b=1)]
    made = apply_claims({"a": 1, "b": 1}, stood, [claim(2, 2024, a=2), claim(3, 2020, b=3)])
    assert made.properties == {"a": 2, "b": 1}
    assert made.superseded == {"a": PreviousValue(1, at(2022))}
    assert made.retained == {"b": PreviousValue(1, at(2022))}


def test_the_same_value_again_changes_nothing() -> None:
    made = apply_claims({"a": 1}, [claim(1, 2022, a=1)], [claim(2, 2024, a=1.0)])
    assert (made.superseded, made.retained) == ({}, {})


def test_what_is_known_already_keeps_when_it_was_learned() -> None:
    known, again = claim(1, 2022, a=1), claim(1, 2022, a=1)
    made = apply_claims({"a": 1}, [known], [again])
    assert made.evidence == (UUID(int=1),)


def test_a_value_that_no_page_spoke_of_is_told_without_a_time() -> None:
    made = apply_claims({"a": 1, "b": 1}, (), [claim(1, 2024, a=2)])
    assert made.properties == {"a": 2, "b": 1}
    assert made.superseded == {"a": PreviousValue(1, None)}


def ground(*names: str, all_others: bool = False) -> EvidenceInput:
    return EvidenceInput("https://press.example", "a quote", None if all_others else names)


def test_who_names_nothing_stands_for_all_that_no_other_names() -> None:
    given = [ground("a"), ground(all_others=True), ground("a", "b"), ground()]
    found = assign_claims({"a": 1, "b": 2, "c": 3}, given)
    assert found == [{"a": 1}, {"c": 3}, {"a": 1, "b": 2}, {}]
    assert assign_claims({}, [ground(all_others=True)]) == [{}]


def test_a_property_that_rests_on_nothing_and_one_that_is_not_given_are_refused() -> None:
    with pytest.raises(ToolRefusalError, match="No evidence for b, c: add an entry"):
        assign_claims({"a": 1, "b": 2, "c": 3}, [ground("a"), ground()])
    with pytest.raises(ToolRefusalError, match="d, which is not among the properties given: a"):
        assign_claims({"a": 1}, [ground("a", "d"), ground(all_others=True)])
