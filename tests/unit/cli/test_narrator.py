"""An iteration told while it happens: each thing once, in words that a person understands."""

import io
from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from uuid import UUID

import pytest
from rich.console import Console

from cli.render.console import THEME
from cli.render.iterations import doing, show_iteration
from cli.watch import ProgressPrinter
from shared.schemas.base import CitationView, ConclusionView, CountsView, RunningCall, StepView
from tests.support.cli.story import iteration, run_of, step

ANALYSIS = UUID(int=11)
NOTHING = CountsView(nodes=0, edges=0, analyses=0, advice=0)
SOMETHING = CountsView(nodes=12, edges=9, analyses=1, advice=0)
PLANNED = {"objective": "Find the price of lithium in 2025"}
OBSERVED = {"observation": "Prices and output move together"}


def concluded() -> Sequence[ConclusionView]:
    return [
        ConclusionView(
            id=ANALYSIS,
            word="pattern",
            name="Prices follow output",
            summary="Prices followed output for three years.",
            content="",
            confidence=None,
            generated_at="",
            iteration_id=None,
            citations=list[CitationView](),
        )
    ]


class Heard:
    """A printer with all that it has printed."""

    def __init__(self) -> None:
        self._written = io.StringIO()
        self.printer = ProgressPrinter(Console(file=self._written, width=200, theme=THEME))

    @property
    def text(self) -> str:
        return self._written.getvalue()


def _second_round() -> list[StepView]:
    lacked = {"objective": "Find the output of 2024", "round": 1}
    return [
        step("query", 0, input=PLANNED, result={"nodes": 12, "edges": 1}),
        step("insight", 0, input=OBSERVED, result={"analyses": [], "missing": ["output"]}),
        step("query", 1, input=lacked, result={"nodes": 1, "edges": 0}),
        step("insight", 1, input=OBSERVED | {"round": 1}, result={"analyses": [], "missing": []}),
    ]


def test_what_is_asked_in_a_further_round_says_so() -> None:
    heard = Heard()
    heard.printer.update(iteration(step("observe"), *_second_round()), concluded)
    for words in (
        "plans 1 query and 1 insight",
        "query 1: 12 nodes",
        "query 2, round 2: 1 node",
        "missing data  Find the output of 2024",
        "insight 2, round 2: not enough data",
    ):
        assert words in heard.text


def test_an_iteration_shows_its_rounds() -> None:
    written = io.StringIO()
    console = Console(file=written, width=200, theme=THEME)
    show_iteration(console, iteration(step("observe"), *_second_round()), said=False)
    lines = written.getvalue().splitlines()
    (at,) = (place for place, line in enumerate(lines) if line.startswith("query 2, round 2 "))
    assert lines[at + 1] == "  ? Find the output of 2024"
    assert any(line.startswith("query 1 ") for line in lines)


def test_a_whole_iteration_is_told_step_by_step_and_each_once() -> None:
    heard = Heard()
    observe = step("observe")
    waiting = [
        step("query", 0, "running", input=PLANNED),
        step("insight", 0, "planned", input=OBSERVED),
    ]
    done = [
        step("query", 0, input=PLANNED, result={"nodes": 12, "edges": 1}),
        step("insight", 0, input=OBSERVED, result={"analyses": [str(ANALYSIS)], "missing": []}),
        step("advise", result={"advice": [], "reason": "It is too early."}),
    ]
    heard.printer.begin(1, 2)
    for told in (
        iteration(step("observe", 0, "running")),
        iteration(observe, *waiting),
        iteration(observe, *waiting),
        iteration(observe, *done),
        iteration(observe, *done, status="completed"),
    ):
        heard.printer.update(told, concluded)
    heard.printer.stop()
    heard.printer.end(iteration(observe, *done, status="completed"), NOTHING, SOMETHING)
    for words in (
        "Iteration 1 of 2",
        "plans 1 query and 1 insight",
        "Find the price of lithium in 2025",
        "Prices and output move together",
        "query 1: 12 nodes, 1 edge",
        "insight 1: 1 analysis",
        "pattern  Prices followed output for three years.",
        "advises nothing, as usual",
        "It is too early.",
        "completed in 9.0 s: 12 nodes and 9 edges (+12 nodes, +9 edges)",
    ):
        assert heard.text.count(words) == 1, words


def test_trouble_is_told_when_it_comes_and_a_failure_once() -> None:
    heard = Heard()
    error = "no answer from the model server at http://localhost:1/v1"
    for attempts in (1, 2, 3):
        trying = step("observe", 0, "pending", error=error, attempts=attempts)
        heard.printer.update(iteration(trying), concluded)
    failed = step("observe", 0, "failed", error=f"{error} (gave up after 5 attempts)")
    deadline = "the iteration's deadline passed while observing"
    ended = iteration(failed, status="failed", errors=[f"observe: {failed.error}", deadline])
    heard.printer.update(ended, concluded)
    heard.printer.end(ended, NOTHING, NOTHING)
    assert heard.text.count("is retried") == 1
    assert heard.text.count("gave up after 5 attempts") == 1
    assert deadline in heard.text


def test_an_insight_without_data_says_what_is_missing() -> None:
    heard = Heard()
    lacking = step("insight", 0, result={"analyses": [], "missing": ["Output of Chile in 2025"]})
    heard.printer.update(iteration(lacking), concluded)
    assert "insight 1: not enough data for an analysis" in heard.text
    assert "missing  Output of Chile in 2025" in heard.text


@pytest.mark.parametrize(
    ("phase", "calls", "words"),
    [
        ("knowledge_acquisition", [], "decides where to search"),
        (
            "knowledge_acquisition",
            [("tavilySearch", '{"query": "lithium price"}')],
            "searches “lithium price”",
        ),
        (
            "knowledge_acquisition",
            [("tavilyExtract", '{"urls": ["https://a.example"]}')],
            "reads “https://a.example”",
        ),
        ("knowledge_acquisition", [("tavilySearch", "not json")], "searches"),
        ("graph_construction", [("queryGraph", "{}")], "reads the document"),
        ("graph_construction", [("addGraphNode", "{}")] * 3, "writes to the graph (3 so far)"),
    ],
)
def test_what_a_worker_does_is_told_from_its_last_answer(
    phase: str, calls: list[tuple[str, str]], words: str
) -> None:
    working = step("query", 0, "running")
    told = iteration(working, interactions=[run_of(working, phase, *calls)])
    assert words in doing(told, working)


def test_a_step_that_nobody_has_taken_waits() -> None:
    waiting = step("query", 0, "pending")
    assert doing(iteration(waiting), waiting) == "waiting for a worker"


def test_a_step_that_waits_for_a_provider_says_so_and_when_it_looks_again(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    now = datetime.now(UTC)
    waits = step(
        "query",
        0,
        "pending",
        input=PLANNED,
        error="no answer from the model server at http://127.0.0.1:9/v1: connection refused",
        waiting_since=now - timedelta(minutes=12),
        retry_at=now + timedelta(seconds=40),
    )
    clock = stopped_clock(monkeypatch)
    heard = Heard()
    for seconds in (0, 10, 35):
        clock[0] = seconds
        heard.printer.update(iteration(waits), concluded)
    assert heard.text.count("query 1: waiting for 12 min: no answer from the model server") == 2
    assert "connection refused; next try in 40 s" in heard.text
    assert "retried" not in heard.text
    assert doing(iteration(waits), waits).startswith("waiting, next try in")


def stopped_clock(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    """A clock that stands at its one item."""
    clock = [0.0]
    monkeypatch.setattr("cli.watch.time.monotonic", lambda: 1000.0 + clock[0])
    return clock


@pytest.mark.parametrize(
    ("received", "words"),
    [
        (None, "query 1: waiting for the first token, 90 s"),
        (12_345, "query 1: receiving the answer: 12,345 characters after 90 s"),
    ],
)
def test_a_long_call_is_told_now_and_then_without_a_terminal(
    monkeypatch: pytest.MonkeyPatch, received: int | None, words: str
) -> None:
    works = step("query", 0, "running", input=PLANNED)
    told = iteration(works, running_calls=[running_call(works, 90, received)])
    clock = stopped_clock(monkeypatch)
    heard = Heard()
    for seconds in (0, 10, 29, 31):
        clock[0] = seconds
        heard.printer.update(told, concluded)
    assert heard.text.count(words) == 2
    written = io.StringIO()
    show_iteration(Console(file=written, width=200, theme=THEME), told, said=False)
    assert words.removeprefix("query 1: ") in written.getvalue()


def test_a_short_call_is_not_told() -> None:
    works = step("query", 0, "running", input=PLANNED)
    heard = Heard()
    heard.printer.update(iteration(works, running_calls=[running_call(works, 5, None)]), concluded)
    assert heard.text == ""


def running_call(of: StepView, seconds: float, received: int | None) -> RunningCall:
    return RunningCall(
        step_id=of.id,
        phase="knowledge_acquisition",
        kind="llm",
        model="m",
        sent_at=datetime.now(UTC) - timedelta(seconds=seconds),
        received_chars=received,
        progressed_at=None,
    )
