"""Who says what a quote attributes to someone."""

from collections.abc import Mapping, Sequence

import pytest

from shared.graph.grounding.passages import Cited, Page
from shared.graph.provenance.origins import Origin, join_speakers, said_by, value_origins
from shared.graph.provenance.page_reading import read_page
from shared.graph.provenance.speakers import (
    MAX_SPEAKER_CHARS,
    match_speaker,
    refuse_speaker,
    unify,
)
from shared.tools import ToolRefusalError
from tests.support.case_files import read_cases

CASES = read_cases(__file__)
ONE, OTHER, THIRD = (Origin((f"{name}.example",)) for name in "abc")


def cited(sentence: str, others: str = "") -> list[Cited]:
    text = f"{others}\n\n{sentence}".strip()
    reading = read_page(text)
    page = Page("", "a.example", None, text, reading.language, reading.decimal_sign)
    return [Cited(page, sentence)]


@pytest.mark.parametrize(
    ("given", "sentence", "others", "stored"), [*CASES["matched"], *CASES["left_out"]]
)
def test_a_speaker_is_stored_as_the_page_names_them(
    given: str, sentence: str, others: str, stored: str | None
) -> None:
    found, reason = match_speaker(given, cited(sentence, others), [])
    assert found == stored
    assert bool(reason) is (stored is None)


def test_a_node_is_known_by_its_surname() -> None:
    found, _ = match_speaker("Haddad", cited("Haddad said output rose."), [["Noor Haddad"]])
    assert found == "Haddad"


@pytest.mark.parametrize("length", [MAX_SPEAKER_CHARS, MAX_SPEAKER_CHARS + 1, 10_000])
def test_a_long_speaker_is_left_out_and_not_repeated(length: int) -> None:
    name = "Noor " + "x" * (length - 5)
    found, reason = match_speaker(name, cited(f"{name} said output rose."), [])
    assert (found == name) is (length <= MAX_SPEAKER_CHARS)
    assert len(reason) < 100


def test_an_imported_speaker_is_a_name() -> None:
    refuse_speaker("Noor Haddad")
    for name in ("<script>", "x" * 10_000, "", "Noor\nHaddad", "[node:1]"):
        with pytest.raises(ToolRefusalError):
            refuse_speaker(name)


@pytest.mark.parametrize(("names", "expected"), CASES["unified"])
def test_short_forms_are_one_speaker(names: Sequence[str], expected: Mapping[str, str]) -> None:
    assert unify(names) == expected


def test_origins_that_only_quote_one_speaker_are_one() -> None:
    joined = join_speakers([(ONE, "Haddad"), (OTHER, "Noor Haddad"), (THIRD, None)])
    both = Origin(("a.example", "b.example"), ("Noor Haddad",))
    assert joined == {ONE: both, OTHER: both, THIRD: THIRD}


def test_an_origin_that_states_something_itself_stays_one() -> None:
    quoted = [(ONE, "Noor Haddad"), (ONE, None), (OTHER, "Noor Haddad"), (THIRD, "Noor Haddad")]
    both = Origin(("b.example", "c.example"), ("Noor Haddad",))
    assert join_speakers(quoted) == {ONE: ONE, OTHER: both, THIRD: both}


def test_an_origin_that_quotes_two_speakers_stays_one() -> None:
    quoted = [(ONE, "Noor Haddad"), (ONE, "Ferndale"), (OTHER, "Ferndale")]
    assert join_speakers(quoted) == {
        ONE: Origin(ONE.sites, ("Ferndale", "Noor Haddad")),
        OTHER: Origin(OTHER.sites, ("Ferndale",)),
    }


def test_what_a_page_repeats_of_a_speaker_is_theirs() -> None:
    spoken = ("https://a.example/1", ONE, "Noor Haddad")
    repeated = ("https://a.example/1", ONE, None)
    elsewhere = ("https://a.example/2", ONE, None)
    assert value_origins([spoken, repeated]) == [Origin(ONE.sites, ("Noor Haddad",))]
    assert value_origins([spoken, elsewhere]) == [ONE]


def test_a_value_is_claimed_if_no_origin_states_it() -> None:
    claimed = [
        Origin(ONE.sites, ("Noor Haddad",)),
        Origin(OTHER.sites, ("Ferndale", "Noor Haddad")),
    ]
    assert said_by(claimed) == ["Ferndale", "Noor Haddad"]
    assert said_by([*claimed, THIRD]) == []
    assert said_by([]) == []
