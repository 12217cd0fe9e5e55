"""The labelled claims: number, balance and form of the cases, in all languages, half of them false."""

import json
from collections import Counter
from typing import get_args

import pytest

from tests.support.evidence_cases import EvidenceCase, Expected, Fault, evidence_cases

LANGUAGES = {"en", "de", "fr", "es", "it"}
COUNTS = {"first": (1471, 1493), "second": (627, 685), "held_out": (375, 388)}
"""True and false cases."""


@pytest.fixture(scope="module", params=COUNTS)
def name(request: pytest.FixtureRequest) -> str:
    name: str = request.param
    return name


@pytest.fixture(scope="module")
def cases(name: str) -> tuple[EvidenceCase, ...]:
    return evidence_cases(name)


@pytest.fixture(scope="module")
def false_cases(cases: tuple[EvidenceCase, ...]) -> list[EvidenceCase]:
    return [case for case in cases if case.fault]


def _content(case: EvidenceCase) -> str:
    """All that a check may read of a case: the evidence and the claim, without their label."""
    evidence = (case.title, case.heading, case.page, case.quotes)
    ends = (case.kind, case.type_name, case.subject, case.aliases, case.target, case.target_aliases)
    return json.dumps([*evidence, *ends, case.properties], sort_keys=True)


def test_half_of_the_cases_are_false(
    name: str, cases: tuple[EvidenceCase, ...], false_cases: list[EvidenceCase]
) -> None:
    assert (len(cases) - len(false_cases), len(false_cases)) == COUNTS[name]
    assert 0.45 <= len(false_cases) / len(cases) <= 0.55


def test_ids_are_unique_and_no_case_is_labelled_twice(cases: tuple[EvidenceCase, ...]) -> None:
    assert len({case.id for case in cases}) == len(cases)
    assert len({_content(case) for case in cases}) == len(cases)


def test_the_page_contains_every_quote(cases: tuple[EvidenceCase, ...]) -> None:
    assert all(case.quotes for case in cases)
    assert [case.id for case in cases for quote in case.quotes if quote not in case.page] == []


def test_every_language_has_its_share_of_true_and_of_false_cases(
    cases: tuple[EvidenceCase, ...], false_cases: list[EvidenceCase]
) -> None:
    all_of, false_of = (Counter(case.language for case in some) for some in (cases, false_cases))
    assert all_of.keys() == LANGUAGES
    for language, count in all_of.items():
        assert count >= 0.12 * len(cases)
        assert 0.45 <= false_of[language] / count <= 0.57


def test_a_true_case_has_a_rule_and_a_false_one_a_fault(cases: tuple[EvidenceCase, ...]) -> None:
    assert [case.id for case in cases if bool(case.rule) == bool(case.fault)] == []


def test_every_fault_occurs(name: str, false_cases: list[EvidenceCase]) -> None:
    assert {case.fault for case in false_cases} == {*get_args(Fault)}
    if name == "first":
        faults = {(case.language, case.fault) for case in false_cases}
        assert len(faults) == len(LANGUAGES) * len(get_args(Fault))


def test_an_edge_has_a_target_and_a_node_claims_properties(
    name: str, cases: tuple[EvidenceCase, ...]
) -> None:
    assert {case.kind for case in cases} == {"node", "edge"}
    assert [case.id for case in cases if (case.kind == "edge") != bool(case.target)] == []
    if name != "first":
        assert [case.id for case in cases if case.kind == "node" and not case.properties] == []


def test_adversarial_cases_say_what_is_expected() -> None:
    cases = evidence_cases("adversarial")
    assert len(cases) == 667
    assert {case.expected for case in cases} == {*get_args(Expected)}
