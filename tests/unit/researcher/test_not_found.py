"""What a document says that it did not find, in the forms that models write."""

from uuid import UUID

import pytest

from services.researcher.not_found import MAX_STATEMENTS, by_request, find_statements

PAGE = "## A report\nSource: https://example.org/a\n\n[1.2] Chile produced 44,000 tonnes in 2024."
WHAT = "the output of Peru in 2025"

FORMS = [
    f"Not found: {WHAT}",
    f"**Not found:** {WHAT}",
    f"**Not found**: {WHAT}",
    f"- Not found: {WHAT}",
    f"* **Not found** — {WHAT}",
    f"_Not found_: {WHAT}",
    f"> Not found: {WHAT}",
    f"1. Not found: {WHAT}",
    f"NOT FOUND: {WHAT}",
    f"### Not found\n- {WHAT}",
    f"## Not found:\n\n{WHAT}",
    f"Not found (searched the web twice): {WHAT}",
    f"Still not found: {WHAT}",
    f"What I looked for and did not find: {WHAT}",
    f"What was not found: {WHAT}",
    f"Could not find: {WHAT}",
    f"Nicht gefunden: {WHAT}",
    f"Non trouvé : {WHAT}",
    f"No encontrado: {WHAT}",
]


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize(
    "place", ["{page}\n\n{form}", "{form}\n\n{page}", "{form}", "{form}\n{page}"]
)
def test_a_labelled_statement_is_found_in_any_place(form: str, place: str) -> None:
    assert find_statements(place.format(page=PAGE, form=form)) == [WHAT]


@pytest.mark.parametrize(
    "sentence",
    [
        "I looked for the output of Peru in 2025 and did not find it.",
        "I could not find the output of Peru in 2025.",
        "We didn't find the output of Peru in 2025.",
        "No source was found for the output of Peru in 2025.",
        "Nothing relevant was found for these searches: Peru output.",
        "The output of Peru in 2025 was not found.",
        "The output of Peru in 2025 could not be found in the pages.",
    ],
)
def test_a_sentence_at_the_end_is_found(sentence: str) -> None:
    assert find_statements(f"{PAGE}\n\n{sentence}") == [sentence]


@pytest.mark.parametrize(
    "text",
    [
        PAGE,
        f"{PAGE}\n\nNot found: none.",
        f"{PAGE}\n\nNot found: -",
        f"{PAGE}\n\n**Not found:** nothing",
        f"{PAGE}\n\nNot found: everything was found.",
        "## 404 Not found\nSource: https://example.org/b\n\n[1.1] The ship was not found.",
        f"The ship was not found.\n\n{PAGE}",
        f"{PAGE}\n[1.3] We could not find the ship.",
    ],
)
def test_pages_and_empty_statements_are_none(text: str) -> None:
    assert find_statements(text) == []


def test_several_statements_are_kept_once_each() -> None:
    lines = [f"Not found: figure {number}" for number in range(MAX_STATEMENTS + 3)]
    found = find_statements("\n".join([lines[0], PAGE, *lines]))
    assert found == [f"figure {number}" for number in range(MAX_STATEMENTS)]
    listed = find_statements(f"{PAGE}\n\nNot found:\n- the price\n- the owner")
    assert listed == ["the price", "the owner"]


def test_a_statement_is_about_the_request_that_it_names() -> None:
    chile, peru = UUID(int=1), UUID(int=2)
    objectives = {chile: "The copper output of Chile in 2024", peru: "The copper output of Peru"}
    assert by_request([WHAT], objectives) == {peru: WHAT}
    assert by_request(["más datos"], objectives) == {chile: "más datos", peru: "más datos"}


@pytest.mark.parametrize(
    ("statement", "is_about"),
    [
        ("No source gives a figure for 2027.", False),
        ("The output of Ghana in 2024 was not found.", False),
        ("No source gives the output of Ghana in 2025.", True),
        ("Neither 2025 nor 2026 was found.", True),
        ("The output of Ghana was not found.", True),
        ("Nothing was found.", True),
    ],
)
def test_a_statement_about_other_years_leaves_a_request_answered(
    statement: str, *, is_about: bool
) -> None:
    request = UUID(int=1)
    found = by_request([statement], {request: "The cocoa output of Ghana in 2025"})
    assert found == ({request: statement} if is_about else {})
