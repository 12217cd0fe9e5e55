"""An iteration as its page shows it, in every state."""

from datetime import UTC, datetime, timedelta
from typing import Any
from uuid import UUID, uuid4

import pytest

from services.api.resources.iterations.flow import Flow, build_flow, group_troubles
from shared.billing.budgets import SUSPENSION_WORDS
from shared.schemas.base import CallTotals, StepResponse, Trouble
from shared.schemas.iterations import IterationProgress, PhaseRunResponse
from tests.support.responses import summary

STARTED_AT = datetime(2026, 5, 1, 12, tzinfo=UTC)


def at(seconds: float) -> datetime:
    return STARTED_AT + timedelta(seconds=seconds)


def step(kind: str, status: str, index: int = 0, **more: Any) -> StepResponse:
    empty = dict.fromkeys(("result", "error", "retry_at", "started_at", "ended_at"))
    defaults: dict[str, Any] = {
        "id": uuid4(),
        "input": {},
        "attempts": 0,
        "republish_count": 0,
        **empty,
    }
    return StepResponse(kind=kind, status=status, index=index, **(defaults | more))


def run(
    step_id: UUID, phase: str, started_after: float, ended_after: float | None = None
) -> PhaseRunResponse:
    return PhaseRunResponse(
        step_id=step_id,
        phase=phase,
        model="m",
        answers=1,
        created_at=at(started_after),
        completed_at=None if ended_after is None else at(ended_after),
    )


def flow(
    *steps: StepResponse,
    runs: tuple[PhaseRunResponse, ...] = (),
    status: str = "running",
    ended_after: float | None = None,
    errors: tuple[str, ...] = (),
) -> Flow:
    iteration = summary(
        *errors,
        status=status,
        stage="ended" if ended_after else "researching",
        started_at=STARTED_AT,
        ended_at=None if ended_after is None else at(ended_after),
    )
    return build_flow(
        IterationProgress(
            iteration=iteration, now=at(10), steps=list(steps), runs=list(runs), calls=CallTotals()
        )
    )


OBSERVED = step("observe", "completed", result={"queries": 1, "insights": 1})


def test_before_the_plan_all_stages_wait_for_it() -> None:
    iteration_flow = flow(step("observe", "running", started_at=at(0)))
    assert iteration_flow.planned is None
    assert [stage.why_empty for stage in iteration_flow.stages] == [
        "",
        *["Waiting for the plan."] * 3,
    ]
    assert iteration_flow.seconds == 10


def test_a_query_shows_its_phases_and_their_time_bars() -> None:
    query = step("query", "running", started_at=at(1), input={"objective": "Find out"})
    iteration_flow = flow(
        OBSERVED,
        query,
        step("insight", "planned"),
        runs=(
            run(query.id, "knowledge_acquisition", 1.5, 4),
            run(query.id, "graph_construction", 4),
        ),
    )
    assert iteration_flow.planned == (1, 1)
    step_card = iteration_flow.stages[1].step_cards[0]
    assert (step_card.text, step_card.word, step_card.tone) == ("Find out", "running", "busy")
    assert [(phase.name, phase.state) for phase in step_card.phases] == [
        ("acquisition", "done"),
        ("construction", "running"),
    ]
    assert [(bar.start, bar.length, bar.open) for bar in step_card.bars] == [
        (1, 3, False),
        (4, 6, True),
    ]
    assert iteration_flow.stages[2].step_cards[0].word == "waiting"
    assert iteration_flow.stages[3].why_empty == "Waiting for the analyses."


def test_a_step_to_be_retried_is_shown_as_retrying() -> None:
    query = step("query", "pending", error="503", attempts=2, retry_at=at(12))
    step_card = flow(OBSERVED, query).stages[1].step_cards[0]
    assert (step_card.word, step_card.tone, step_card.is_tried_again) == ("retrying", "warn", True)


def test_a_stage_with_one_failed_step_is_still_successful() -> None:
    stage = flow(
        OBSERVED,
        step("query", "failed", error="gave up"),
        step("query", "completed", 1, result={"nodes": 2, "edges": 1}),
    ).stages[1]
    assert (stage.tone, stage.ended) == ("good", 2)
    assert stage.step_cards[1].notes == ("2 nodes, 1 edge",)


def test_a_step_shows_what_checks_of_its_evidence_found() -> None:
    checks = {"supported": 3, "contradicted": 1, "unchecked": 2, "stopped": "the budget is reached"}
    query = step("query", "completed", result={"nodes": 1, "edges": 0, "checks": checks})
    assert flow(OBSERVED, query).stages[1].step_cards[0].notes == (
        "1 node, 0 edges",
        "Quotes checked: 3 supported, 1 contradicted, 2 unchecked (the budget is reached)",
    )


def test_feedback_rounds_are_shown_in_order() -> None:
    second_round = {"round": 1}
    iteration_flow = flow(
        OBSERVED,
        step("query", "completed", result={"nodes": 1, "edges": 0}),
        step("insight", "completed", result={"analyses": [], "missing": ["prices"]}),
        step("query", "completed", 1, input=second_round, result={"nodes": 2, "edges": 2}),
        step("insight", "completed", 1, input=second_round, result={"analyses": [str(uuid4())]}),
    )
    assert [stage.key for stage in iteration_flow.stages] == [
        "observe-0",
        "query-0",
        "insight-0",
        "query-1",
        "insight-1",
        "advise-0",
    ]
    assert (iteration_flow.rounds, iteration_flow.planned) == (1, (1, 1))
    assert (iteration_flow.gain.nodes, iteration_flow.gain.edges, iteration_flow.gain.analyses) == (
        3,
        2,
        1,
    )
    assert iteration_flow.stages[2].step_cards[0].missing == ("prices",)


def test_an_iteration_without_a_plan_shows_its_error_once() -> None:
    iteration_flow = flow(
        step("observe", "failed", error="no key"),
        status="failed",
        ended_after=2,
        errors=("observe: no key", "the deadline passed"),
    )
    assert [stage.why_empty for stage in iteration_flow.stages[1:]] == ["There was no plan."] * 3
    assert iteration_flow.errors == ("the deadline passed",)
    assert iteration_flow.seconds == 2


def test_an_adviser_without_a_step_is_distinguished_from_a_waiting_one() -> None:
    iteration_flow = flow(OBSERVED, status="completed", ended_after=3)
    assert iteration_flow.stages[-1].why_empty.startswith("Not run")


def trouble(kind: str, index: int, error: str, **more: Any) -> Trouble:
    return Trouble(
        **{"iteration_number": 1, "attempts": 1, "retry_at": None}
        | {"step": kind, "index": index, "error": error}
        | more
    )


def test_steps_with_the_same_error_are_one_group() -> None:
    steps = [step("query", "running", index) for index in range(3)]
    progress = IterationProgress(
        iteration=summary(status="running"), now=at(10), steps=steps, runs=[], calls=CallTotals()
    )
    groups = group_troubles(
        [
            trouble("query", 0, "503", waiting_since=at(4), retry_at=at(30)),
            trouble("query", 1, "503", waiting_since=at(2), retry_at=at(20)),
            trouble("query", 2, "no answer", attempts=2),
            trouble("insight", 0, "503"),
        ],
        progress,
    )
    assert [[each.name for each in group.steps] for group in groups] == [
        ["Query 1", "Query 2"],
        ["Query 3"],
        ["Insight 1"],
    ]
    assert [each.id for each in groups[0].steps] == [steps[0].id, steps[1].id]
    assert groups[2].steps[0].id is None
    assert (groups[0].waiting_since, groups[0].retry_at) == (at(2), at(20))
    assert (groups[1].waiting_since, groups[1].attempts) == (None, 2)
    assert group_troubles([], None) == []


def test_the_plan_is_the_completed_step_that_wrote_it() -> None:
    assert flow(step("observe", "running", started_at=at(0))).plan_id is None
    assert flow(OBSERVED, step("query", "running")).plan_id == OBSERVED.id


@pytest.mark.parametrize(
    ("error", "word", "tone"),
    [
        (f"The budget is reached. It is suspended {SUSPENSION_WORDS}", "stopped", "warn"),
        ("the search service refused the key", "failed", "bad"),
        (None, "failed", "bad"),
    ],
)
def test_a_step_that_a_budget_stopped_did_not_fail(error: str | None, word: str, tone: str) -> None:
    ended = step("observe", "failed", error=error, started_at=STARTED_AT, ended_at=at(1))
    [card] = flow(ended).step_cards
    assert (card.word, card.tone) == (word, tone)
