"""An iteration on its pages: stages, outcomes, strip and waterfall."""

from datetime import UTC, datetime, timedelta
from typing import Any
from uuid import UUID, uuid4

import pytest

from services.api.resources.iterations.flow import Flow, build_flow, group_troubles
from services.api.resources.iterations.outcomes import build_strip, outcome_of, problems_of
from services.api.resources.iterations.waterfall import (
    ROOT,
    START,
    Key,
    Row,
    Segment,
    Waterfall,
    build_axis,
    build_waterfall,
    parse_key,
)
from shared.billing.budgets import SUSPENSION_WORDS
from shared.schemas.base import CallTotals, FailedSending, IterationSummary, StepResponse, Trouble
from shared.schemas.iterations import (
    CallUsage,
    IterationOutcome,
    IterationProgress,
    IterationSums,
    IterationTrace,
    PhaseRun,
    PhaseRunResponse,
    TracedCall,
    TracedStep,
    TracedTool,
)
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


IN_MAY = datetime(2026, 5, 1, 12, tzinfo=UTC)


def at(seconds: float) -> datetime:
    return IN_MAY + timedelta(seconds=seconds)


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
        started_at=IN_MAY,
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


def test_a_step_shows_what_was_read_of_its_evidence() -> None:
    checks = {"supported": 3, "contradicted": 1, "unchecked": 2, "stopped": "the budget is reached"}
    query = step("query", "completed", result={"nodes": 1, "edges": 0, "checks": checks})
    assert flow(OBSERVED, query).stages[1].step_cards[0].notes == (
        "1 node, 0 edges",
        "Claims read: 3 supported, 1 contradicted, 2 unchecked (the budget is reached)",
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
    assert [f"{stage.kind}-{stage.round}" for stage in iteration_flow.stages] == [
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
    ended = step("observe", "failed", error=error, started_at=IN_MAY, ended_at=at(1))
    [card] = flow(ended).step_cards
    assert (card.word, card.tone) == (word, tone)


STEP_ID, RUN_ID = UUID(int=1), UUID(int=2)


def _at(seconds: float) -> datetime:
    return STARTED_AT + timedelta(seconds=seconds)


def _maybe(seconds: float | None) -> datetime | None:
    return None if seconds is None else _at(seconds)


def _step(started_after: float | None, ended_after: float | None, **values: Any) -> TracedStep:
    defaults: dict[str, Any] = {
        "id": STEP_ID,
        "kind": "query",
        "index": 1,
        "status": "completed",
        "input": {},
        "result": None,
        "error": None,
        "attempts": 0,
        "republish_count": 0,
        "retry_at": None,
        "started_at": _maybe(started_after),
        "ended_at": _maybe(ended_after),
    }
    return TracedStep(**(defaults | values))


def _run(started_after: float, ended_after: float | None) -> PhaseRun:
    return PhaseRun(
        id=RUN_ID,
        agent_id=uuid4(),
        iteration_id=uuid4(),
        step_id=STEP_ID,
        phase="knowledge_acquisition",
        model="m",
        event_count=0,
        created_at=_at(started_after),
        completed_at=_maybe(ended_after),
        spent=CallUsage(),
    )


def _call(started_after: float, answered_after: float | None, **values: Any) -> TracedCall:
    defaults: dict[str, Any] = {
        "id": uuid4(),
        "step_id": STEP_ID,
        "interaction_id": RUN_ID,
        "kind": "llm",
        "phase": "knowledge_acquisition",
        "model": "m",
        "request": {},
        "input_tokens": 10,
        "output_tokens": 2,
        "cached_tokens": 4,
        "cost_usd": 0.5,
        "assumed_usd": 0,
        "attempts": 1,
        "received_chars": None,
        "failures": [],
        "started_at": _at(started_after),
        "sent_at": _at(started_after),
        "answered_at": _maybe(answered_after),
    }
    return TracedCall(**(defaults | values))


def _rows(
    *steps: TracedStep,
    runs: tuple[PhaseRun, ...] = (),
    calls: tuple[TracedCall, ...] = (),
    ended_after: float | None = 10,
    now: float = 10,
) -> list[Row]:
    """The rows without the start, which is always the second."""
    root, start, *others = _waterfall(
        *steps, runs=runs, calls=calls, ended_after=ended_after, now=now
    ).rows
    assert (start.key, start.parent, start.level) == (START, ROOT, 2)
    return [root, *others]


def _waterfall(
    *steps: TracedStep,
    runs: tuple[PhaseRun, ...] = (),
    calls: tuple[TracedCall, ...] = (),
    ended_after: float | None = 10,
    now: float = 10,
    why: str = "due",
) -> Waterfall:
    trace = IterationTrace(
        id=uuid4(),
        agent_id=uuid4(),
        number=1,
        why=why,
        status="running" if ended_after is None else "completed",
        stage="ended",
        errors=[],
        started_at=STARTED_AT,
        ended_at=_maybe(ended_after),
        plan=None,
        deadline_at=STARTED_AT,
        steps=list(steps),
        runs=list(runs),
        sums=IterationSums(),
        written=[],
        calls=list(calls),
    )
    return build_waterfall(trace, _at(now))


@pytest.mark.parametrize(
    ("seconds", "length", "ticks", "second_label"),
    CASES["an_axis_has_round_ticks_and_is_hardly_longer_than_the_iteration"],
)
def test_an_axis_has_round_ticks_and_is_hardly_longer_than_the_iteration(
    seconds: float, length: float, ticks: int, second_label: str
) -> None:
    axis = build_axis(STARTED_AT, _at(seconds))
    assert round(axis.seconds, 6) == length
    assert axis.ticks == ticks
    positions, texts = zip(*axis.labels, strict=True)
    assert positions == tuple(100 * place / ticks for place in range(ticks))
    assert texts[:2] == ("0", second_label)


@pytest.mark.parametrize(
    ("started_after", "ended_after", "iteration_ended_after", "segments"),
    [
        (0, 10, 10, (Segment(0, 100, "work"),)),
        (2.5, 5, 10, (Segment(25, 25, "work"),)),
        (4, None, None, (Segment(40, 60, "work"),)),  # still running: up to now
        (10, 10, 10, ()),  # would lie after the axis
        (5, 5, 10, (Segment(50, 0.4, "work"),)),  # took no time but stays visible
        (5, 4_000, 10, (Segment(50, 50, "work"),)),  # retried after the iteration
        (None, None, 10, ()),
    ],
)
def test_a_bar_has_the_position_of_its_step_in_time(
    started_after: float | None,
    ended_after: float | None,
    iteration_ended_after: float | None,
    segments: tuple[Segment, ...],
) -> None:
    status = "completed" if ended_after is not None else "running"
    step = _step(started_after, ended_after, status=status)
    _, row = _rows(step, ended_after=iteration_ended_after)
    assert row.segments == segments


def test_waiting_for_a_worker_and_for_a_provider_is_a_part_of_its_own() -> None:
    done = _step(2, 5, first_requested_at=_at(1))
    assert _rows(done)[1].segments == (Segment(10, 10, "wait"), Segment(20, 30, "work"))
    requested = _step(None, None, status="pending", first_requested_at=_at(4))
    (_, row) = _rows(requested, ended_after=None)
    assert (row.segments, row.word) == ((Segment(40, 60, "wait"),), "waiting for a worker")
    waiting = _step(2, None, status="pending", waiting_since=_at(6), error="away")
    (_, row) = _rows(waiting, ended_after=None)
    assert row.segments == (Segment(20, 40, "work"), Segment(60, 40, "wait"))
    assert (row.word, row.tone) == ("waiting for the provider", "warn")


def test_rows_are_nested_from_the_iteration_to_the_tools() -> None:
    answer = _call(1, 2, tools=[TracedTool(name="addGraphNode", uses=3, refused=1)])
    search = _call(
        2,
        3,
        kind="search",
        model=None,
        request={"tool": "tavilySearch", "query": "lithium"},
        input_tokens=None,
        output_tokens=None,
        cached_tokens=0,
    )
    rows = _rows(_step(0, 4), runs=(_run(0.5, 4),), calls=(answer, search))
    assert [(row.level, row.kind, row.name) for row in rows] == [
        (1, "iteration", "Iteration 1"),
        (2, "step", "Query 2"),
        (3, "run", "Knowledge acquisition"),
        (4, "model", "Model call 1"),
        (5, "tool", "addGraphNode"),
        (4, "search", "Search"),
    ]
    assert [row.parent for row in rows] == [
        None,
        ROOT,
        f"step-{STEP_ID}",
        f"run-{RUN_ID}",
        f"call-{answer.id}",
        f"run-{RUN_ID}",
    ]
    assert [row.has_children for row in rows] == [True, True, True, True, False, False]
    for row in rows[:3]:
        assert (row.input_tokens, row.output_tokens, row.cached_tokens) == (10, 2, 4)
        assert (row.cost_usd, row.calls) == (1.0, 2)
    tool = rows[4]
    assert (tool.note, tool.word, tool.is_timed, tool.segments) == ("× 3", "1 refused", False, ())
    assert rows[5].note == "lithium"


def test_failed_attempts_are_marked_and_the_last_one_is_the_work() -> None:
    failure = FailedSending(at=_at(4), kind="timeout", error="no answer", response="")
    retried = _call(1, 8, sent_at=_at(5), failures=[failure], attempts=2)
    row = _rows(_step(0, 9), runs=(_run(0, 9),), calls=(retried,))[3]
    assert row.segments == (Segment(10, 40, "wait"), Segment(50, 30, "work"))
    assert (row.marks, row.word, row.tone, row.seconds) == ((40,), "1 retry", "warn", 7)
    failed = _call(1, None, failures=[failure])
    step = _step(0, 9, status="failed", error="no answer")
    step_row, run_row, call_row = _rows(step, runs=(_run(0, None),), calls=(failed,))[1:]
    assert {row.tone for row in (step_row, run_row, call_row)} == {"bad"}
    assert {row.word for row in (step_row, run_row, call_row)} == {"failed"}


def test_a_budget_stops_a_step_and_does_not_fail_it() -> None:
    step = _step(0, 9, status="failed", error=f"It is suspended {SUSPENSION_WORDS}.")
    assert (_rows(step)[1].word, _rows(step)[1].tone) == ("stopped", "warn")


def test_a_running_call_says_how_far_it_is() -> None:
    step, run = _step(0, None, status="running"), _run(0, None)
    growing = _call(1, None, received_chars=12_345)
    rows = _rows(step, runs=(run,), calls=(growing,), ended_after=None)
    assert (rows[3].word, rows[3].end) == ("12,345 characters so far", None)
    assert rows[3].segments == (Segment(10, 90, "work"),)
    fresh = _rows(step, runs=(run,), calls=(_call(1, None),), ended_after=None)[3]
    assert fresh.word == "waiting for the answer"


@pytest.mark.parametrize(
    ("why", "icon", "words"), [("due", "clock", "on schedule"), ("run_now", "play", "Run now")]
)
def test_the_first_row_says_what_started_the_iteration(why: str, icon: str, words: str) -> None:
    start = _waterfall(_step(0, 1), why=why).rows[1]
    assert (start.name, start.icon, start.seconds) == ("Start", icon, None)
    assert words in start.note
    assert [segment.x for segment in start.segments] == [0]


def test_the_legend_has_what_the_iteration_has() -> None:
    plain = _waterfall(_step(0, 4), runs=(_run(0, 4),), calls=(_call(1, 2),))
    assert [kind for kind, _ in plain.legend] == ["step", "run", "model"]
    waited = _waterfall(_step(2, 4, first_requested_at=_at(0), status="failed", error="away"))
    assert waited.legend == [("step", "step"), ("wait", "waiting"), ("bad", "failed")]


def test_a_model_that_all_calls_share_is_named_once() -> None:
    root, _, run, call = _rows(_step(0, 4), runs=(_run(0, 4),), calls=(_call(1, 2),))
    assert (root.note, run.note, call.note) == ("1 step, m", "", "")
    root, _, run, call = _rows(_step(0, 4), runs=(_run(0, 4),), calls=(_call(1, 2, model="n"),))
    assert (root.note, run.note, call.note) == ("1 step", "m", "n")


def test_rows_have_the_text_of_the_plan() -> None:
    second = _step(0, 1, input={"round": 2, "objective": "Who buys?"})
    assert (_rows(second)[1].name, _rows(second)[1].note) == ("Query 2", "Round 2: Who buys?")
    assert _rows(_step(0, 1, kind="advise", index=0))[1].name == "Advice"
    insight = _step(0, 1, kind="insight", input={"observation": "It grows."})
    assert _rows(insight)[1].note == "It grows."


@pytest.mark.parametrize(
    ("text", "key"),
    [
        (ROOT, Key(ROOT, UUID(int=0))),
        (START, Key(START, UUID(int=0))),
        (f"step-{STEP_ID}", Key("step", STEP_ID)),
        (f"call-{STEP_ID}", Key("call", STEP_ID)),
        (f"tool-{STEP_ID}-2", Key("tool", STEP_ID, 2)),
        (f"tool-{STEP_ID}", None),
        (f"run-{STEP_ID}-2", None),
        ("run-" + "-" * 36, None),
        (f"owner-{STEP_ID}", None),
        ("", None),
    ],
)
def test_an_address_opens_only_rows(text: str, key: Key | None) -> None:
    assert parse_key(text) == key
