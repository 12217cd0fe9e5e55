"""Whether what a query wrote answers its requests, and statements that something was not found."""

from datetime import UTC, datetime
from uuid import UUID

import pytest

from services.researcher.handler import RequestOutcomes, settle_requests
from services.researcher.not_found import (
    MAX_STATEMENTS,
    Statement,
    by_request,
    find_statements,
)
from services.researcher.prompts import acquisition_message
from shared.events.models import Query
from shared.workflow.investigations import Answer
from tests.support.case_files import read_cases

CASES = read_cases(__file__)

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
    f"Not found in the pages: {WHAT}",
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
    assert find_statements(place.format(page=PAGE, form=form)) == [Statement(WHAT)]


@pytest.mark.parametrize(
    "form",
    [
        f"Not found 2: {WHAT}",
        f"**Not found 2:** {WHAT}",
        f"- Not found (2): {WHAT}",
        f"Not found #2: {WHAT}",
        f"Not found 2 — {WHAT}",
        f"Nicht gefunden 2: {WHAT}",
        f"## Not found 2\n- {WHAT}",
    ],
)
def test_a_statement_has_the_number_of_its_request(form: str) -> None:
    [statement] = find_statements(f"{PAGE}\n\n{form}")
    assert statement == Statement(WHAT, 2)
    requests = {UUID(int=7): "Who owns the mine?", UUID(int=5): "When does it open?"}
    assert by_request([statement], requests) == {UUID(int=5): WHAT}


@pytest.mark.parametrize("sentence", CASES["a_sentence_without_the_label_is_no_statement"])
@pytest.mark.parametrize(
    "place", ["{page}\n\n{sentence}", "{page}\n{sentence}\n[1.3] More.", "{sentence}\n\n{page}"]
)
def test_a_sentence_without_the_label_is_no_statement(sentence: str, place: str) -> None:
    """It may be a sentence of a page that the model typed without its number."""
    assert find_statements(place.format(page=PAGE, sentence=sentence)) == []


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
    assert found == [Statement(f"figure {number}") for number in range(MAX_STATEMENTS)]
    listed = find_statements(f"{PAGE}\n\nNot found:\n- the price\n- the owner")
    assert listed == [Statement("the price"), Statement("the owner")]


def test_a_statement_is_about_the_request_that_it_names() -> None:
    chile, peru = UUID(int=1), UUID(int=2)
    objectives = {chile: "The copper output of Chile in 2024", peru: "The copper output of Peru"}
    assert by_request([Statement(WHAT)], objectives) == {peru: WHAT}
    assert by_request([Statement("más datos")], objectives) == {
        chile: "más datos",
        peru: "más datos",
    }


@pytest.mark.parametrize(
    ("statement", "is_about"), CASES["a_statement_about_other_years_leaves_a_request_answered"]
)
def test_a_statement_about_other_years_leaves_a_request_answered(
    statement: str, *, is_about: bool
) -> None:
    request = UUID(int=1)
    found = by_request([Statement(statement)], {request: "The cocoa output of Ghana in 2025"})
    assert found == ({request: statement} if is_about else {})


@pytest.mark.parametrize(
    ("statement", "sentence", "is_answered"),
    CASES["a_statement_that_a_cited_sentence_answers_does_not_count"],
)
def test_a_statement_that_a_cited_sentence_answers_does_not_count(
    statement: str, sentence: str, *, is_answered: bool
) -> None:
    page = "## Norvolt: third quarter 2026\nSource: https://example.org/q3\nPublished: 2026-11-12\n"
    document = (
        f"{PAGE}\n\n{page}\n[2.8] {sentence}\n\n## Without a source\n\nNot found: {statement}"
    )
    assert find_statements(document) == ([] if is_answered else [Statement(statement)])


MISSION = (
    "Monitor makers of transformers: Norvolt, Hanseong, Suryodaya, Meridian. Prices and exports of transformers, "
    "their workers and sales."
)
REQUEST, OTHER = UUID(int=1), UUID(int=2)
NODE, OTHER_NODE, EDGE = UUID(int=11), UUID(int=12), UUID(int=13)


def _settle(
    *objectives: str, text: str, mission: str = MISSION, statements: tuple[Statement, ...] = ()
) -> RequestOutcomes:
    requests = dict(zip((REQUEST, OTHER), objectives, strict=False))
    written = Answer([NODE]) if text else Answer()
    return settle_requests(requests, mission, statements, written, {NODE: text})


@pytest.mark.parametrize(
    ("objective", "text"), CASES["what_does_not_bear_on_a_request_leaves_it_open"]
)
def test_what_does_not_bear_on_a_request_leaves_it_open(objective: str, text: str) -> None:
    outcomes = _settle(objective, text=text)
    assert (outcomes.answers, outcomes.not_found) == ({}, {})
    assert outcomes.unanswered == [REQUEST]


@pytest.mark.parametrize(
    ("objective", "text"), CASES["a_request_is_answered_by_what_has_a_word_of_it"]
)
def test_a_request_is_answered_by_what_has_a_word_of_it(objective: str, text: str) -> None:
    outcomes = _settle(objective, text=text)
    assert (outcomes.answers, outcomes.unanswered) == ({REQUEST: Answer([NODE], [])}, [])


@pytest.mark.parametrize(
    ("objective", "statement", "text", "is_answered"),
    CASES["a_request_that_the_document_lacks_as_a_whole_is_answered_by_all_its_words_alone"],
)
def test_a_request_that_the_document_lacks_as_a_whole_is_answered_by_all_its_words_alone(
    objective: str, statement: str, text: str, *, is_answered: bool
) -> None:
    outcomes = _settle(objective, text=text, statements=(Statement(statement),))
    assert ([*outcomes.answers], outcomes.not_found) == (
        ([REQUEST], {}) if is_answered else ([], {REQUEST: statement})
    )


def test_each_request_is_answered_by_the_elements_that_bear_on_it() -> None:
    requests = {REQUEST: "Copper use of Norvolt", OTHER: "Owners of the port of Gdynia"}
    texts = {NODE: "Norvolt\ncopper: 3", OTHER_NODE: "Gdynia", EDGE: "Norvolt ships from Gdynia"}
    outcomes = settle_requests(requests, MISSION, (), Answer([NODE, OTHER_NODE], [EDGE]), texts)
    assert outcomes.answers == {
        REQUEST: Answer([NODE], []),
        OTHER: Answer([OTHER_NODE], [EDGE]),
    }


@pytest.mark.parametrize(
    ("statements", "text", "answered", "not_found"),
    [
        ([Statement("the price", 2)], "copper, Gdynia", [REQUEST], {OTHER: "the price"}),
        (
            [Statement("the use", 1), Statement("the owner", 2)],
            "copper",
            [REQUEST],
            {OTHER: "the owner"},
        ),
        ([Statement("the use", 1)], "Gdynia", [OTHER], {REQUEST: "the use"}),
        ([Statement("anything")], "", [], {REQUEST: "anything", OTHER: "anything"}),
        ([], "", [], {REQUEST: None, OTHER: None}),
    ],
)
def test_a_request_that_the_document_lacks_is_answered_in_part_or_not_found(
    statements: list[Statement],
    text: str,
    answered: list[UUID],
    not_found: dict[UUID, str | None],
) -> None:
    objectives = "Copper use of Norvolt", "Owners of the port of Gdynia"
    outcomes = _settle(*objectives, text=text, statements=tuple(statements))
    assert ([*outcomes.answers], outcomes.not_found) == (answered, not_found)
    assert outcomes.unanswered == [*not_found]


@pytest.mark.parametrize(
    ("requests", "shown"), CASES["a_query_shows_the_requests_that_it_is_to_answer"]
)
def test_a_query_shows_the_requests_that_it_is_to_answer(
    requests: list[str], shown: str | None
) -> None:
    query = Query(objective="The use of copper", reasoning="It lacks.")
    now = datetime(2026, 1, 1, tzinfo=UTC)
    message = acquisition_message(MISSION, query, "", "", now, requests)
    lines = f"Requests that it is to answer:\n{shown}\nEnd with a line such as `Not found 1: `"
    assert (lines in message) == (shown is not None)
    assert ("Not found" in message) == (shown is not None)
