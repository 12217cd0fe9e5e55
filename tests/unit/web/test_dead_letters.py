"""Dead letters in words."""

from datetime import datetime

import pytest

from services.api.resources.operate.dead_letters import explain
from shared.schemas.operations import DeadLetterResponse
from tests.support.case_files import read_cases
from tests.support.responses import DEAD_STEP, START, dead_letter

CASES = read_cases(__file__)


def letter(
    subject: str = "query.requested",
    code: str = "llm_quota",
    *,
    refusal: str | None = None,
    kind: str | None = None,
    retry_requested_at: datetime | None = None,
) -> DeadLetterResponse:
    step = kind and DEAD_STEP.model_copy(update={"kind": kind})
    return dead_letter(
        subject=subject,
        code=code,
        refusal=refusal,
        retry_requested_at=retry_requested_at,
        step=step,
    )


@pytest.mark.parametrize(("subject", "kind", "title"), CASES["the_title_says_what_failed"])
def test_the_title_says_what_failed(subject: str, kind: str | None, title: str) -> None:
    assert explain(letter(subject, kind=kind)).title == title


def test_the_reason_and_what_to_do_depend_on_the_code() -> None:
    explained = explain(letter(code="llm_quota"))
    assert explained.cause == "The account at the model server has no credit left."
    assert explained.advice == "Check its plan and billing, then retry."
    assert explain(letter(code="new_in_a_later_version")).cause == "It failed with this error."


def test_what_cannot_be_retried_says_why() -> None:
    refused = letter(refusal="iteration 7 of Tin is still running", kind="query")
    assert (
        explain(refused).advice == "It cannot be retried now: iteration 7 of Tin is still running."
    )
    unusable = letter(code="invalid_answer", refusal="the same answer would be read", kind="query")
    assert explain(unusable).advice.startswith("Run the agent again.")
    ended = letter("iteration.started", refusal="it has ended", kind="observe")
    assert "Run the agent again" in explain(ended).advice


def test_a_requested_retry_needs_nothing_more() -> None:
    assert explain(letter(retry_requested_at=START)).advice.startswith(
        "It is retried within seconds"
    )
