"""The sandbox's verification: whether quotes have what is claimed, and claims the figures of conclusions, by rules."""

import json

import pytest

from sandbox.model.read import BY_RULES
from sandbox.model.request import ChatRequest
from sandbox.model.router import READING_SCHEMA, Phase, answer_request, phase_of
from tests.support.case_files import read_cases

CASES = read_cases(__file__)
QUOTE = "The Ewoyaa mine sold 350,000 tonnes in 2025."


def _request(claims: str, conclusions: str = "") -> ChatRequest:
    text = f"<claims>\n{claims}\n</claims>\n\n<conclusions>\n{conclusions}\n</conclusions>"
    schema = {"name": READING_SCHEMA, "schema": {"type": "object"}}
    return ChatRequest(
        {
            "messages": [{"role": "user", "content": text}],
            "response_format": {"type": "json_schema", "json_schema": schema},
        }
    )


def _verdicts(claims: str, conclusions: str = "") -> list[str]:
    request = _request(claims, conclusions)
    assert phase_of(request) is Phase.VERIFICATION
    verdicts: list[str] = json.loads(answer_request(request).text)["verdicts"]
    return verdicts


@pytest.mark.parametrize(("claim", "code"), CASES["a_claim_is_compared_with_the_quote"])
def test_a_claim_is_compared_with_the_quote(claim: str, code: str) -> None:
    [verdict] = _verdicts(f'1 {claim} | "", undated | »{QUOTE}«')
    assert verdict.split()[1] == code
    assert code == "s" or BY_RULES in verdict


def test_the_title_names_the_subject() -> None:
    claim = '1 Mine "Bald Hill": sold = 7 | "News of Bald Hill", undated | »It sold 7 tonnes.«'
    assert _verdicts(claim) == ["1 s"]


def test_another_number_in_its_place_contradicts() -> None:
    [verdict] = _verdicts('1 Mine "Ewoyaa": sold = 9 | "", undated | »Ewoyaa sold 7 tonnes.«')
    assert verdict.startswith("1 c ")


def test_a_claim_without_a_quote_gets_no_verdict() -> None:
    assert _verdicts('1 Mine "Ewoyaa": sold = 9') == []


def test_a_sentence_has_the_figures_of_the_claims_that_it_cites() -> None:
    claims = '1 Mine "Ewoyaa": sold = 9 tonnes\n2 Mine "Bald Hill": sold = 7 tonnes'
    sentences = (
        "3 [1] Ewoyaa sold 9 tonnes.\n4 [2] Bald Hill sold 9 tonnes.\n5 The two sold 9 tonnes."
    )
    found = _verdicts(claims, sentences)
    assert [verdict[:4] for verdict in found] == ["3 ss", "4 sn", "5 ss"]
