"""What became of an iteration, and what its pages advise."""

from datetime import UTC, datetime, timedelta
from uuid import uuid4

import pytest

from services.api.web.presenters.outcomes import build_strip, outcome_of, problems_of
from shared.billing.budgets import SUSPENSION_WORDS
from shared.schemas.base import IterationSummary
from shared.schemas.iterations import IterationOutcome

STOP = f"the budget of it is reached. It is suspended {SUSPENSION_WORDS}; a higher budget resumes it immediately"
KEY = "Tavily refused the key: Unauthorized. Check TAVILY_API_KEY"
STARTED_AT = datetime(2026, 1, 1, tzinfo=UTC)


def _iteration(*errors: str, status: str = "failed") -> IterationSummary:
    return IterationSummary(
        id=uuid4(),
        agent_id=uuid4(),
        number=3,
        why="due",
        status=status,
        stage="researching",
        errors=list(errors),
        started_at=STARTED_AT,
        ended_at=None,
    )


@pytest.mark.parametrize(
    ("iteration", "word", "tone", "icon"),
    [
        (_iteration(status="running"), "researching", "busy", "loader-circle"),
        (_iteration(status="completed"), "completed", "good", "circle-check"),
        (_iteration(f"query: {STOP}", status="completed"), "completed", "good", "circle-check"),
        (_iteration(status="quiet"), "quiet", "idle", "circle-dashed"),
        (_iteration(f"query: {KEY}"), "failed", "bad", "circle-x"),
        (_iteration(f"query: {STOP}", f"query: {KEY}"), "failed", "bad", "circle-x"),
        (_iteration(), "failed", "bad", "circle-x"),
        (_iteration(f"observe: {STOP}"), "stopped", "warn", "wallet"),
    ],
)
def test_a_budget_stop_is_no_failure(
    iteration: IterationSummary, word: str, tone: str, icon: str
) -> None:
    outcome = outcome_of(iteration)
    assert (outcome.word, outcome.tone, outcome.icon) == (word, tone, icon)


def test_equal_errors_are_one_problem_with_its_steps() -> None:
    iteration = _iteration(f"query: {KEY}", f"query: {KEY}", f"insight: {KEY}", "no such step: x")
    key, other = problems_of(iteration)
    assert (key.title, key.error) == ("The search service refused the key", KEY)
    assert key.steps == ("query", "query", "insight")
    assert key.link is not None
    assert key.link.for_operators
    assert key.can_run_again
    assert (other.title, other.error, other.steps) == ("A step failed", "no such step: x", ())


def test_a_stop_links_to_the_budget_and_cannot_be_run_again() -> None:
    iteration = _iteration(f"observe: {STOP}")
    (problem,) = problems_of(iteration)
    assert problem.is_stop
    assert not problem.can_run_again
    assert problem.link is not None
    assert problem.link.href == f"/agents/{iteration.agent_id}/settings#budget"


@pytest.mark.parametrize(
    ("error", "title"),
    [
        ("it answered 401: no. Check OPENAI_API_KEY", "The model server refused the key"),
        ("404. Check the model name 'x'", "The model server does not offer the model"),
        (
            "429: quota. Check the account's plan and billing",
            "The account at the model server has no credit left",
        ),
        ("no progress for 1800 s while researching", "No progress for too long"),
        ("the search service cannot be reached: refused", "A provider did not answer"),
        ("it answered 503: overloaded", "A provider is overloaded or limits requests"),
        ("an answer that fits no schema", "A step failed"),
    ],
)
def test_each_kind_of_error_has_a_title(error: str, title: str) -> None:
    (problem,) = problems_of(_iteration(f"query: {error}"))
    assert problem.title == title
    assert problem.remedy


def test_a_strip_is_relative_to_the_longest() -> None:
    def outcome(number: int, seconds: float | None) -> IterationOutcome:
        ended_at = None if seconds is None else STARTED_AT + timedelta(seconds=seconds)
        status = "running" if seconds is None else "completed"
        return IterationOutcome(
            number=number, status=status, is_stopped=False, started_at=STARTED_AT, ended_at=ended_at
        )

    bars = build_strip([outcome(1, 100), outcome(2, 25), outcome(3, 0), outcome(4, None)])
    assert [(bar.number, bar.share, bar.seconds) for bar in bars] == [
        (1, 1.0, 100),
        (2, 0.5, 25),
        (3, 0.0, 0),
        (4, 1.0, None),
    ]
    assert [bar.share for bar in build_strip([outcome(1, 0)])] == [0.0]
    assert build_strip([]) == []
