"""What became of an iteration, and what its pages advise."""

from datetime import UTC, datetime, timedelta

import pytest

from services.api.resources.iterations.outcomes import build_strip, outcome_of, problems_of
from shared.billing.budgets import SUSPENSION_WORDS
from shared.schemas.base import IterationSummary
from shared.schemas.iterations import IterationOutcome
from tests.support.case_files import read_cases
from tests.support.responses import summary

CASES = read_cases(__file__)

STOP = f"the budget of it is reached. It is suspended {SUSPENSION_WORDS}; a higher budget resumes it immediately"
KEY = "Tavily refused the key: Unauthorized. Check TAVILY_API_KEY"
STARTED_AT = datetime(2026, 1, 1, tzinfo=UTC)


@pytest.mark.parametrize(
    ("iteration", "word", "tone", "icon"),
    [
        (summary(status="running"), "researching", "busy", "loader-circle"),
        (summary(status="completed"), "completed", "good", "circle-check"),
        (summary(f"query: {STOP}", status="completed"), "completed", "good", "circle-check"),
        (summary(status="quiet"), "quiet", "idle", "circle-dashed"),
        (summary(f"query: {KEY}"), "failed", "bad", "circle-x"),
        (summary(f"query: {STOP}", f"query: {KEY}"), "failed", "bad", "circle-x"),
        (summary(), "failed", "bad", "circle-x"),
        (summary(f"observe: {STOP}"), "stopped", "warn", "wallet"),
    ],
)
def test_a_budget_stop_is_no_failure(
    iteration: IterationSummary, word: str, tone: str, icon: str
) -> None:
    outcome = outcome_of(iteration)
    assert (outcome.word, outcome.tone, outcome.icon) == (word, tone, icon)


def test_equal_errors_are_one_problem_with_its_steps() -> None:
    iteration = summary(f"query: {KEY}", f"query: {KEY}", f"insight: {KEY}", "no such step: x")
    key, other = problems_of(iteration)
    assert (key.title, key.error) == ("The search service refused the key", KEY)
    assert key.steps == ("query", "query", "insight")
    assert key.link is not None
    assert key.link.for_operators
    assert key.can_run_again
    assert (other.title, other.error, other.steps) == ("A step failed", "no such step: x", ())


def test_a_stop_links_to_the_budget_and_cannot_be_run_again() -> None:
    iteration = summary(f"observe: {STOP}")
    (problem,) = problems_of(iteration)
    assert problem.is_stop
    assert not problem.can_run_again
    assert problem.link is not None
    assert problem.link.href == f"/agents/{iteration.agent_id}/settings#budget"


@pytest.mark.parametrize(("error", "title"), CASES["each_kind_of_error_has_a_title"])
def test_each_kind_of_error_has_a_title(error: str, title: str) -> None:
    (problem,) = problems_of(summary(f"query: {error}"))
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
    assert [bar.title for bar in bars[2:]] == [
        "Iteration 3: completed, 0 ms",
        "Iteration 4: running",
    ]
    assert [bar.share for bar in build_strip([outcome(1, 0)])] == [0.0]
    assert build_strip([]) == []
