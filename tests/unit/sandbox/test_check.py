"""The sandbox's entailment check: whether a quote says what it was cited for, by rules."""

import json

import pytest

from sandbox.model.request import ChatRequest
from sandbox.model.router import CHECK_SCHEMA, Phase, answer_request, phase_of
from tests.support.case_files import read_cases

CASES = read_cases(__file__)

QUOTE = "The Ewoyaa mine sold 350,000 tonnes in 2025."


def _request(claim: str, quote: str = QUOTE, title: str = "") -> ChatRequest:
    text = f"<claim>\n{claim}\n</claim>\n\n<page_title>\n{title}\n</page_title>\n\n<quote>\n{quote}\n</quote>"
    schema = {"name": CHECK_SCHEMA, "schema": {"type": "object"}}
    return ChatRequest(
        {
            "messages": [{"role": "user", "content": text}],
            "response_format": {"type": "json_schema", "json_schema": schema},
        }
    )


@pytest.mark.parametrize(("claim", "verdict"), CASES["a_claim_is_compared_with_the_quote"])
def test_a_claim_is_compared_with_the_quote(claim: str, verdict: str) -> None:
    request = _request(claim)
    assert phase_of(request) is Phase.ENTAILMENT_CHECK
    answer = json.loads(answer_request(request).text)
    assert answer["verdict"] == verdict
    assert answer["reason"]


def test_the_title_names_the_subject() -> None:
    request = _request('Mine "Bald Hill": sold = 7', "It sold 7 tonnes.", "News of Bald Hill")
    assert json.loads(answer_request(request).text)["verdict"] == "supported"


def test_another_number_in_its_place_contradicts() -> None:
    request = _request('Mine "Ewoyaa": sold = 9', "Ewoyaa sold 7 tonnes.")
    assert json.loads(answer_request(request).text)["verdict"] == "contradicted"
