"""The generators of cases whose authors had not read the rules: number, balance and form of the cases."""

from collections import Counter
from types import ModuleType
from typing import get_args

import pytest

from tests.support.evidence_cases import EvidenceCase, Fault, held_out, second


@pytest.fixture(scope="module", params=[second, held_out], ids=["second", "held_out"])
def generator(request: pytest.FixtureRequest) -> ModuleType:
    module: ModuleType = request.param
    return module


@pytest.fixture(scope="module")
def cases(generator: ModuleType) -> list[EvidenceCase]:
    found: list[EvidenceCase] = generator.cases()
    return found


def test_there_are_enough_cases_with_unique_ids(cases: list[EvidenceCase]) -> None:
    assert len(cases) >= 550
    assert len({case.id for case in cases}) == len(cases)


def test_half_of_the_cases_are_false(cases: list[EvidenceCase]) -> None:
    false_share = sum(case.fault is not None for case in cases) / len(cases)
    assert 0.45 <= false_share <= 0.55


def test_a_case_is_true_by_a_rule_or_false_by_a_fault(cases: list[EvidenceCase]) -> None:
    assert [case.id for case in cases if (case.fault is None) != bool(case.rule)] == []


def test_every_quote_is_in_its_page(cases: list[EvidenceCase]) -> None:
    assert [c.id for c in cases if not c.quotes or any(q not in c.page for q in c.quotes)] == []


def test_nodes_claim_properties_and_edges_have_a_target(cases: list[EvidenceCase]) -> None:
    assert {case.kind for case in cases} == {"node", "edge"}
    assert [c.id for c in cases if not (c.target if c.kind == "edge" else c.properties)] == []


def test_every_language_has_its_share(cases: list[EvidenceCase]) -> None:
    numbers = Counter(case.language for case in cases)
    assert set(numbers) == {"en", "de", "fr", "es", "it"}
    assert min(numbers.values()) >= 0.12 * len(cases)


def test_every_language_has_true_and_false_cases_in_balance(
    generator: ModuleType, cases: list[EvidenceCase]
) -> None:
    for language in generator.LANGUAGES:
        faults = [case.fault for case in cases if case.language == language]
        assert 0.45 <= sum(fault is not None for fault in faults) / len(faults) <= 0.57


def test_every_fault_occurs(cases: list[EvidenceCase]) -> None:
    assert {case.fault for case in cases} == {None, *get_args(Fault)}


def test_many_cases_are_written_by_hand(cases: list[EvidenceCase]) -> None:
    assert sum("-story-" in case.id for case in cases) >= 80


def test_equal_seeds_give_equal_cases(generator: ModuleType, cases: list[EvidenceCase]) -> None:
    assert generator.cases() == cases
    assert generator.cases(seed=2) != cases


def test_the_documented_numbers_are_those_of_the_first_seed(
    generator: ModuleType, cases: list[EvidenceCase]
) -> None:
    false_count = sum(case.fault is not None for case in cases)
    true_count = len(cases) - false_count
    stated = f"there are {len(cases)} cases, {true_count} true and {false_count} false"
    assert stated in (generator.__doc__ or "")
