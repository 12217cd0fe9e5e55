"""The first generator of labelled claims: enough cases, in all languages, half of them false."""

import json
from collections import Counter

import pytest

from tests.support.evidence_cases import EvidenceCase
from tests.support.evidence_cases.first import LANGUAGES, cases


@pytest.fixture(scope="module")
def all_cases() -> list[EvidenceCase]:
    return cases()


@pytest.fixture(scope="module")
def false_cases(all_cases: list[EvidenceCase]) -> list[EvidenceCase]:
    return [case for case in all_cases if case.fault]


def _content(case: EvidenceCase) -> str:
    """All that a check may read of a case: the evidence and the claim, without their label."""
    evidence = (case.title, case.heading, case.page, case.quotes)
    ends = (case.kind, case.type_name, case.subject, case.aliases, case.target, case.target_aliases)
    return json.dumps([*evidence, *ends, case.properties], sort_keys=True)


def test_there_are_enough_cases_and_half_are_false(
    all_cases: list[EvidenceCase], false_cases: list[EvidenceCase]
) -> None:
    assert len(all_cases) >= 1100
    assert 0.45 <= len(false_cases) / len(all_cases) <= 0.55


def test_ids_are_unique_and_no_case_is_labelled_twice(all_cases: list[EvidenceCase]) -> None:
    assert len({case.id for case in all_cases}) == len(all_cases)
    assert len({_content(case) for case in all_cases}) == len(all_cases)


def test_the_page_contains_every_quote(all_cases: list[EvidenceCase]) -> None:
    assert all(case.quotes for case in all_cases)
    assert [case.id for case in all_cases for quote in case.quotes if quote not in case.page] == []


def test_every_language_has_its_share_of_true_and_of_false_cases(
    all_cases: list[EvidenceCase], false_cases: list[EvidenceCase]
) -> None:
    for some in (all_cases, false_cases):
        languages = Counter(case.language for case in some)
        assert set(languages) == set(LANGUAGES)
        assert min(languages.values()) / len(some) >= 0.12


def test_a_true_case_has_a_rule_and_a_false_one_a_fault(all_cases: list[EvidenceCase]) -> None:
    assert [case.id for case in all_cases if bool(case.rule) == bool(case.fault)] == []


def test_every_fault_occurs_in_every_language(false_cases: list[EvidenceCase]) -> None:
    faults = {(case.language, case.fault) for case in false_cases}
    assert len(faults) == len(LANGUAGES) * len({fault for _, fault in faults})
    assert len({fault for _, fault in faults}) == 12


def test_an_edge_has_a_target_and_a_node_has_none(all_cases: list[EvidenceCase]) -> None:
    assert [case.id for case in all_cases if (case.kind == "edge") != bool(case.target)] == []


def test_the_same_seed_gives_the_same_cases(all_cases: list[EvidenceCase]) -> None:
    assert cases() == all_cases
    assert cases(2) != all_cases
