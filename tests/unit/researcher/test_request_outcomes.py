"""Whether what a query wrote answers its requests."""

from datetime import UTC, datetime
from uuid import UUID

import pytest

from services.researcher.handler import RequestOutcomes, settle_requests
from services.researcher.not_found import Statement
from services.researcher.prompts import acquisition_message
from shared.events.models import Query
from shared.workflow.investigations import Answer
from tests.support.case_files import read_cases

CASES = read_cases(__file__)

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
    message = acquisition_message(MISSION, query, "", datetime(2026, 1, 1, tzinfo=UTC), requests)
    lines = f"Requests that it is to answer:\n{shown}\nEnd with a line such as `Not found 1: `"
    assert (lines in message) == (shown is not None)
    assert ("Not found" in message) == (shown is not None)
