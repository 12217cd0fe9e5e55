"""An iteration as its page shows it, at every point of its way."""

from datetime import UTC, datetime, timedelta
from typing import Any
from uuid import UUID, uuid4

from services.api.web.presenters.iterations import Flow, build_flow
from shared.schemas.base import CallTotals, IterationView, StepView
from shared.schemas.iterations import PhaseRunView, ProgressView

BEGAN = datetime(2026, 5, 1, 12, tzinfo=UTC)


def at(seconds: float) -> datetime:
    return BEGAN + timedelta(seconds=seconds)


def step(kind: str, status: str, index: int = 0, **more: Any) -> StepView:
    empty = dict.fromkeys(("result", "error", "retry_at", "started_at", "ended_at"))
    given = {"id": uuid4(), "input": {}, "attempts": 0, "republish_count": 0, **empty, **more}
    return StepView(kind=kind, status=status, index=index, **given)


def run(step_id: UUID, phase: str, begin: float, end: float | None = None) -> PhaseRunView:
    return PhaseRunView(
        step_id=step_id,
        phase=phase,
        model="m",
        answers=1,
        created_at=at(begin),
        completed_at=None if end is None else at(end),
    )


def flow(
    *steps: StepView,
    runs: tuple[PhaseRunView, ...] = (),
    status: str = "running",
    ended: float | None = None,
    errors: tuple[str, ...] = (),
) -> Flow:
    iteration = IterationView(
        id=uuid4(),
        agent_id=uuid4(),
        number=1,
        why="due",
        status=status,
        stage="ended" if ended else "researching",
        errors=list(errors),
        started_at=BEGAN,
        ended_at=None if ended is None else at(ended),
    )
    return build_flow(
        ProgressView(
            iteration=iteration, now=at(10), steps=list(steps), runs=list(runs), calls=CallTotals()
        )
    )


PLANNED = step("observe", "completed", result={"queries": 1, "insights": 1})


def test_before_the_plan_everybody_waits_for_it() -> None:
    found = flow(step("observe", "running", started_at=at(0)))
    assert found.planned is None
    assert [stage.why_empty for stage in found.stages] == ["", *["Waits for the plan."] * 3]
    assert found.seconds == 10


def test_a_query_shows_its_phases_and_its_bars_in_time() -> None:
    query = step("query", "running", started_at=at(1), input={"objective": "Find out"})
    found = flow(
        PLANNED,
        query,
        step("insight", "planned"),
        runs=(
            run(query.id, "knowledge_acquisition", 1.5, 4),
            run(query.id, "graph_construction", 4),
        ),
    )
    assert found.planned == (1, 1)
    lane = found.stages[1].lanes[0]
    assert (lane.text, lane.word, lane.tone) == ("Find out", "running", "busy")
    assert [(leg.name, leg.state) for leg in lane.legs] == [
        ("acquisition", "done"),
        ("construction", "running"),
    ]
    assert [(bar.start, bar.length, bar.open) for bar in lane.bars] == [
        (1, 3, False),
        (4, 6, True),
    ]
    assert found.stages[2].lanes[0].word == "waiting"
    assert found.stages[3].why_empty == "Waits for the analyses."


def test_what_is_tried_again_is_neither_running_nor_failed() -> None:
    query = step("query", "pending", error="503", attempts=2, retry_at=at(12))
    lane = flow(PLANNED, query).stages[1].lanes[0]
    assert (lane.word, lane.tone, lane.is_tried_again) == ("retrying", "warn", True)


def test_a_stage_with_one_failed_lane_has_still_done_its_work() -> None:
    stage = flow(
        PLANNED,
        step("query", "failed", error="gave up"),
        step("query", "completed", 1, result={"nodes": 2, "edges": 1}),
    ).stages[1]
    assert (stage.tone, stage.ended) == ("good", 2)
    assert stage.lanes[1].notes == ("2 nodes, 1 edge written",)


def test_rounds_stand_one_after_another() -> None:
    again = {"round": 1}
    found = flow(
        PLANNED,
        step("query", "completed", result={"nodes": 1, "edges": 0}),
        step("insight", "completed", result={"analyses": [], "missing": ["prices"]}),
        step("query", "completed", 1, input=again, result={"nodes": 2, "edges": 2}),
        step("insight", "completed", 1, input=again, result={"analyses": [str(uuid4())]}),
    )
    assert [stage.key for stage in found.stages] == [
        "observe-0",
        "query-0",
        "insight-0",
        "query-1",
        "insight-1",
        "advise-0",
    ]
    assert (found.rounds, found.planned) == (1, (1, 1))
    assert (found.gain.nodes, found.gain.edges, found.gain.analyses) == (3, 2, 1)
    assert found.stages[2].lanes[0].missing == ("prices",)


def test_an_iteration_without_a_plan_says_so_and_its_error_once() -> None:
    found = flow(
        step("observe", "failed", error="no key"),
        status="failed",
        ended=2,
        errors=("observe: no key", "the deadline passed"),
    )
    assert [stage.why_empty for stage in found.stages[1:]] == ["There was no plan."] * 3
    assert found.errors == ("the deadline passed",)
    assert found.seconds == 2


def test_an_adviser_that_was_not_asked_is_told_apart_from_one_that_waits() -> None:
    found = flow(PLANNED, status="completed", ended=3)
    assert found.stages[-1].why_empty.startswith("Was not asked")
