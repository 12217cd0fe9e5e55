"""Which dead letters may be retried, as a table of cases."""

from dataclasses import replace

import pytest

from shared.enums import IterationStatus, StepKind
from shared.workflow.dead_letters import FailedStep, retry_refusal

QUERY = FailedStep(StepKind.QUERY, 7, IterationStatus.FAILED, "Lithium")
SPACED = replace(QUERY, agent_name="Lithium Supply")


@pytest.mark.parametrize(
    ("service", "subject", "step"),
    [
        ("researcher", "query.requested", QUERY),
        (
            "researcher",
            "query.requested",
            replace(QUERY, iteration_status=IterationStatus.COMPLETED),
        ),
        ("analyzer", "insight.requested", replace(QUERY, kind=StepKind.INSIGHT)),
        ("adviser", "analysis.produced", replace(QUERY, kind=StepKind.ADVISE)),
        ("observer", "iteration.started", None),
        ("aggregator", "query.failed", None),
        ("scheduler", "iteration.completed", None),
    ],
)
def test_a_retry_is_allowed(service: str, subject: str, step: FailedStep | None) -> None:
    assert retry_refusal(service, subject, "llm_key", step) is None


@pytest.mark.parametrize(
    ("service", "subject", "code", "step", "words"),
    [
        ("researcher", "analysis.produced", "x", None, ["consumes analysis.produced", "discard"]),
        ("brain", "query.requested", "x", None, ["no brain of this version", "discard"]),
        (
            "observer",
            "iteration.started",
            "llm_key",
            replace(QUERY, kind=StepKind.OBSERVE),
            ["iteration 7 of Lithium", "`vigil run Lithium`"],
        ),
        (
            "researcher",
            "query.requested",
            "llm_key",
            replace(QUERY, iteration_status=IterationStatus.RUNNING),
            ["iteration 7 of Lithium is still running", "when the iteration has ended"],
        ),
        (
            "researcher",
            "query.requested",
            "empty_answer",
            SPACED,
            ["response is stored", '`vigil run "Lithium Supply"`'],
        ),
    ],
)
def test_a_retry_is_refused_with_an_alternative(
    service: str, subject: str, code: str, step: FailedStep | None, words: list[str]
) -> None:
    refusal = retry_refusal(service, subject, code, step)
    assert refusal is not None
    assert [word for word in words if word not in refusal] == []
