"""Names and type names that denote the same element, or similar ones."""

import unicodedata

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from shared.graph.entity_resolution.normalization import (
    discriminators,
    fold_key,
    normalize,
    normalize_key,
)
from shared.graph.entity_resolution.relations import similarity
from shared.graph.types import fold_type_name
from tests.support.case_files import read_cases

CASES = read_cases(__file__)


NORMALIZED = CASES["normalized"]


@pytest.mark.parametrize(("name", "expected"), NORMALIZED)
def test_normalized_keys(name: str, expected: str) -> None:
    assert normalize(name, "Company").key == expected


@pytest.mark.parametrize(("name", "also"), CASES["tickers_and_initials_are_aliases"])
def test_tickers_and_initials_are_aliases(name: str, also: list[str]) -> None:
    assert list(normalize(name, "Company").also) == also


@pytest.mark.parametrize("type_name", ["Product", "ConsumerProduct", "City"])
def test_legal_forms_are_removed_only_from_names_of_organizations(type_name: str) -> None:
    assert normalize_key("iPhone SE", type_name) == "iphone se"
    assert normalize_key("SAP SE", "SoftwareMaker") == "sap"


@pytest.mark.parametrize(("one", "other"), CASES["numbers_and_dates_are_discriminators"])
def test_numbers_and_dates_are_discriminators(one: str, other: str) -> None:
    assert discriminators(one) != discriminators(other)


def test_the_order_of_discriminators_does_not_matter() -> None:
    assert discriminators("2025 q1") == discriminators("q1 2025")
    assert discriminators("gpt4") == discriminators("gpt 4")


NAMES = st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\x00"), min_size=1)
COMPANIES = st.lists(
    st.sampled_from(
        [
            "The",
            "Acme",
            "Co",
            "Co.",
            "& Co.",
            "KG",
            "S.p.A.",
            "(ACME)",
            "NYSE: ACM",
            "Inc",
            "é",
            "-",
            "a.b.",
            "İ",
            "ﬁ",
        ]
    ),
    min_size=1,
).map(" ".join)


@given(NAMES | COMPANIES, st.sampled_from(["Company", "Product"]))
@example("The The Acme", "Company")
@example("S. p. A. A", "Company")
def test_normalization_is_idempotent(name: str, type_name: str) -> None:
    normalized = normalize(name, type_name)
    for key in (normalized.key, *normalized.also):
        assert normalize_key(key, type_name) == key
        assert normalize(key, type_name).key == key


@given(NAMES | COMPANIES)
@example("®")
@example("'")
def test_a_key_is_never_blank(name: str) -> None:
    if name.strip():
        assert normalize(name, "Company").key.strip()


@given(NAMES | COMPANIES)
def test_unicode_forms_and_white_space_have_the_same_key(name: str) -> None:
    spelled = f" {unicodedata.normalize('NFD', name)}\n"
    assert normalize_key(spelled) == normalize_key(unicodedata.normalize("NFC", name))


def test_similarity_counts_trigrams_as_pg_trgm_does() -> None:
    """`select similarity('word', 'two words')` is 0.36363637."""
    assert similarity("word", "two words") == 4 / 11
    assert similarity("a b", "b a") == 1
    assert similarity("abc", "xyz") == 0


@pytest.mark.parametrize(("one", "other"), CASES["spellings"])
def test_folded_keys_are_equal_for_spellings(one: str, other: str) -> None:
    assert normalize_key(one) != normalize_key(other)
    assert fold_key(normalize_key(one)) == fold_key(normalize_key(other))


@pytest.mark.parametrize(("one", "other"), CASES["same_type"])
def test_same_type(one: str, other: str) -> None:
    assert fold_type_name(one) == fold_type_name(other)


@pytest.mark.parametrize(("one", "other"), CASES["different_types"])
def test_different_types(one: str, other: str) -> None:
    assert fold_type_name(one) != fold_type_name(other)
