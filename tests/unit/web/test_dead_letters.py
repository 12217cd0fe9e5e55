"""Dead letters in words."""

from datetime import UTC, datetime
from uuid import uuid4

import pytest

from services.api.web.presenters.dead_letters import explain
from shared.schemas.operations import DeadLetterResponse, DeadLetterStep

AT = datetime(2026, 3, 1, tzinfo=UTC)


def letter(
    subject: str = "query.requested",
    code: str = "llm_quota",
    *,
    refusal: str | None = None,
    kind: str | None = None,
    retry_requested_at: datetime | None = None,
) -> DeadLetterResponse:
    step = None
    if kind is not None:
        step = DeadLetterStep(
            id=uuid4(),
            kind=kind,
            index=1,
            status="failed",
            iteration_id=uuid4(),
            iteration_number=7,
            iteration_status="completed",
            agent_id=uuid4(),
            agent_name="Tin",
        )
    return DeadLetterResponse(
        id=uuid4(),
        service="researcher",
        subject=subject,
        code=code,
        error="it failed",
        attempts=3,
        created_at=AT,
        stored_at=AT,
        retry_requested_at=retry_requested_at,
        refusal=refusal,
        step=step,
    )


@pytest.mark.parametrize(
    ("subject", "kind", "title"),
    [
        ("query.requested", "query", "Query 2 failed"),
        ("insight.requested", "insight", "Insight 2 failed"),
        ("iteration.started", "observe", "Planning failed"),
        ("query.requested", None, "A query failed"),
        ("advice.produced", None, "Advice was not sent to destinations"),
        ("plan.produced", None, "The researcher could not process plan.produced"),
    ],
)
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
    assert explain(letter(retry_requested_at=AT)).advice.startswith("It is retried within seconds")
