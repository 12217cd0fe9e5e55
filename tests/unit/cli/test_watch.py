"""What commands show while agents work: watch, top, tail and progress."""

import io
import time
from collections.abc import Callable, Sequence
from datetime import UTC, datetime, timedelta
from typing import Any
from uuid import UUID

import pytest
from rich.console import Console

from cli.app import run
from cli.client.client import Client
from cli.client.target import Api
from cli.commands.events import subject_pattern
from cli.commands.top import Load, load_table, loads_between
from cli.errors import AwayError, BadInputError
from cli.render.console import THEME, SafeConsole
from cli.render.events import line_of, summary
from cli.render.iterations import doing, show_iteration, waiting
from cli.watch import IterationWatch, ProgressPrinter, why_not_started
from shared.enums import WorkReason
from shared.errors import USED_UP
from shared.events.envelope import Event
from shared.events.stream_reader import StoredEvent
from shared.schemas.base import (
    AgentDetails,
    CitationResponse,
    ConclusionResponse,
    GraphCounts,
    GraphResponse,
    IterationDetails,
    IterationSummary,
    RunningCall,
    StepResponse,
)
from shared.schemas.operations import ServiceLoadResponse, ServiceLoadsResponse
from tests.support.case_files import read_cases
from tests.support.cli.console import printed
from tests.support.contracts.samples import samples
from tests.support.responses import ID, agent, iteration, run_of, step

CASES = read_cases(__file__)


class FlakyClient(Client):
    """An API client whose first calls fail."""

    def __init__(self, failures: int, details: IterationDetails) -> None:
        super().__init__(Api("http://127.0.0.1:1"))
        self._failures = failures
        self._details = details

    def iterations(
        self, reference: str, limit: int | None = 20, *, status: str | None = None
    ) -> list[IterationSummary]:
        self._failures -= 1
        if self._failures >= 0:
            raise AwayError("restarting")
        return [self._details]

    def iteration(self, iteration_id: UUID) -> IterationDetails:
        return self._details

    def graph(
        self, reference: str, *, type_name: str | None = None, limit: int = 100
    ) -> GraphResponse:
        nothing = GraphCounts(nodes=0, edges=0, analyses=0, advice=0)
        return GraphResponse(counts=nothing, node_types=[], edge_types=[], nodes=[], edges=[])


def watch(client: Client, seconds: float, meanwhile: Callable[[], object]) -> IterationWatch:
    printer = ProgressPrinter(SafeConsole(file=io.StringIO(), theme=THEME))
    return IterationWatch(client, printer, time.monotonic() + seconds, meanwhile)


def test_watching_waits_for_an_api_that_comes_back() -> None:
    calls: list[None] = []
    details = iteration(step("observe"), status="completed")
    with FlakyClient(2, details) as client:
        result = watch(client, 30, lambda: calls.append(None)).watch_iteration(ID, 1)
    assert result is details
    assert len(calls) == 2


def test_watching_stops_at_the_deadline() -> None:
    with FlakyClient(0, iteration(step("observe", 0, "running"))) as client:
        watcher = watch(client, 0.1, lambda: None)
        assert watcher.watch_iteration(ID, 1) is None
        assert watcher.out_of_time


@pytest.mark.parametrize(
    ("agent", "reason"),
    [
        (agent(status="configuring"), "waiting until the agent is configured"),
        (
            agent(last_iteration=iteration(step("observe", 0, "running"))),
            "waiting for iteration 1 to end",
        ),
        (
            agent(suspended_until=datetime(2026, 11, 28, tzinfo=UTC)),
            "suspended until 2026-11-28 00:00 UTC: daily budget reached",
        ),
        (agent(), "waiting for the scheduler"),
    ],
)
def test_why_an_iteration_has_not_started(agent: AgentDetails, reason: str) -> None:
    assert why_not_started(agent, 2) == reason


@pytest.mark.parametrize("interrupted", ["watch_iteration", "_load"])
def test_an_interrupted_wait_says_that_the_iteration_continues(
    interrupted: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def interrupt(*_: object) -> None:
        raise KeyboardInterrupt

    counts = GraphResponse(
        counts=GraphCounts(nodes=0, edges=0, analyses=0, advice=0),
        node_types=[],
        edge_types=[],
        nodes=[],
        edges=[],
    )
    monkeypatch.setattr(Client, "order", lambda *_: agent("Lithium of Chile", iterations_started=6))
    monkeypatch.setattr(Client, "graph", lambda *_, **__: counts)
    monkeypatch.setattr(IterationWatch, interrupted, interrupt)
    arguments = ["run", "Lithium", "--wait", "--url", "http://127.0.0.1:1", "--token", "vgl_x"]
    assert run(arguments) == 130
    printed = capsys.readouterr()
    assert printed.err == (
        'Iteration 7 continues. To look again: vigil iterations "Lithium of Chile"\n'
    )


START = datetime(2026, 11, 1, tzinfo=UTC)


def service(service: str = "observer", **values: Any) -> ServiceLoadResponse:
    numbers = {"lag": 0, "in_flight": 1, "waiting_replicas": 3, "delivered": 10}
    leases = {"replicas": 1, "leases": 1, "lapsed_leases": 0, "workers": 1}
    return ServiceLoadResponse(service=service, **{**numbers, **leases, **values})


def loads(seconds: float, *services: ServiceLoadResponse) -> ServiceLoadsResponse:
    return ServiceLoadsResponse(
        measured_at=START + timedelta(seconds=seconds), bus_fault=None, services=list(services)
    )


def rate(before: ServiceLoadsResponse, after: ServiceLoadsResponse) -> float | None:
    [load] = loads_between(before, after)
    return load.per_second


def test_the_rate_is_the_number_of_deliveries_per_second() -> None:
    assert rate(loads(0, service()), loads(2, service(delivered=15))) == 2.5


def test_the_rate_of_a_recreated_consumer_is_not_negative() -> None:
    assert rate(loads(0, service()), loads(2, service(delivered=1))) == 0


def test_without_two_readings_the_rate_is_unknown() -> None:
    assert rate(loads(0, service(delivered=None)), loads(2, service())) is None
    assert rate(loads(0), loads(2, service())) is None
    assert rate(loads(0, service()), loads(0, service())) is None


def table_row(load: Load) -> list[str]:
    buffer = io.StringIO()
    Console(file=buffer, width=120, theme=THEME).print(load_table([load]))
    return buffer.getvalue().splitlines()[1].split()


def test_a_missing_consumer_is_shown_and_the_api_has_none() -> None:
    [missing, api] = loads_between(
        loads(0),
        loads(
            1,
            service(lag=None, in_flight=None, waiting_replicas=None, delivered=None),
            service("api", lag=None, in_flight=None, waiting_replicas=None, delivered=None),
        ),
    )
    assert table_row(missing) == ["observer", "1", "unknown", "unknown", "unknown", "1", "1"]
    assert table_row(api) == ["api", "1", "1", "1"]


def test_lapsed_leases_are_shown() -> None:
    [load] = loads_between(loads(0, service()), loads(1, service(lapsed_leases=2)))
    assert "+2" in table_row(load)


@pytest.mark.parametrize(("text", "pattern"), CASES["a_noun_alone_means_all_of_its_events"])
def test_a_noun_alone_means_all_of_its_events(text: str, pattern: str) -> None:
    assert subject_pattern(text) == pattern


@pytest.mark.parametrize("text", ["queries", "*.done", "query.completed.now", "", "a b"])
def test_an_unknown_pattern_is_rejected_with_the_valid_subjects(text: str) -> None:
    with pytest.raises(BadInputError, match=r"iteration\.started"):
        subject_pattern(text)


@pytest.mark.parametrize("event", list(samples()), ids=lambda event: event.subject)
def test_every_event_has_a_summary(event: Event) -> None:
    assert summary(event)


def test_old_and_unreadable_events_have_a_line() -> None:
    now = datetime.now(UTC)
    unreadable = StoredEvent(1, "query.dreamt", now - timedelta(minutes=10), b"{}")
    line = line_of(unreadable, "Lithium [watch]")
    assert all(word in line for word in ("10 min ago", "query.dreamt", "cannot read this event"))
    assert r"Lithium \[watch]" in line  # a name is no markup
    assert "ago" not in line_of(StoredEvent(2, "query.dreamt", now, b"{}"), "Lithium")


ANALYSIS = UUID(int=11)
NOTHING = GraphCounts(nodes=0, edges=0, analyses=0, advice=0)
SOMETHING = GraphCounts(nodes=12, edges=9, analyses=1, advice=0)
PLANNED = {"objective": "Find the price of lithium in 2025"}
OBSERVED = {"observation": "Prices and output move together"}


def list_conclusions() -> Sequence[ConclusionResponse]:
    return [
        ConclusionResponse(
            id=ANALYSIS,
            word="pattern",
            name="Prices follow output",
            summary="Prices followed output for three years.",
            content="",
            confidence=None,
            generated_at="",
            iteration_id=None,
            citations=list[CitationResponse](),
        )
    ]


class ProgressRecorder:
    """A progress printer that records its output."""

    def __init__(self) -> None:
        self._output = io.StringIO()
        self.printer = ProgressPrinter(SafeConsole(file=self._output, width=200, theme=THEME))

    @property
    def text(self) -> str:
        return self._output.getvalue()


def _second_round() -> list[StepResponse]:
    missing = {"objective": "Find the output of 2024", "round": 1}
    return [
        step("query", 0, input=PLANNED, result={"nodes": 12, "edges": 1}),
        step("insight", 0, input=OBSERVED, result={"analyses": [], "missing": ["output"]}),
        step("query", 1, input=missing, result={"nodes": 1, "edges": 0}),
        step("insight", 1, input=OBSERVED | {"round": 1}, result={"analyses": [], "missing": []}),
    ]


def test_a_step_of_a_further_round_is_labelled() -> None:
    recorder = ProgressRecorder()
    recorder.printer.update(iteration(step("observe"), *_second_round()), list_conclusions)
    for words in (
        "plans 1 query and 1 insight",
        "query 1: 12 nodes",
        "query 2, round 2: 1 node",
        "missing data  Find the output of 2024",
        "insight 2, round 2: not enough data",
    ):
        assert words in recorder.text


def test_an_iteration_shows_its_rounds() -> None:
    rounds = iteration(step("observe"), *_second_round())
    lines = printed(show_iteration, rounds, show_messages=False).splitlines()
    (position,) = (
        index for index, line in enumerate(lines) if line.startswith("query 2, round 2 ")
    )
    assert lines[position + 1] == "  ? Find the output of 2024"
    assert any(line.startswith("query 1 ") for line in lines)


def test_an_iteration_shows_why_it_worked_and_what_was_checked() -> None:
    observe = step(
        "observe",
        result={
            "reasons": [WorkReason.NEWS, WorkReason.DUE],
            "due": ["the horizon of an analysis has passed"],
            "pages_checked": 5,
            "pages_changed": 2,
            "pages_failed": 4,
            "failures": [
                {"url": "https://a.example/", "error": "not reached: no response within 10 s"},
                {"url": "https://b.example/feed", "error": "unreadable: its feed cannot be read"},
                {"url": "https://c.example/", "error": "unsupported type: its type 'video/mp4'"},
            ],
        },
    )
    lines = printed(show_iteration, iteration(observe), show_messages=False).splitlines()
    assert "  Why: pages have changed or are new; the horizon of an analysis has passed." in lines
    checked = "Pages checked: 5 (2 not reached, 1 unreadable, 1 unsupported type, 2 changed)."
    assert f"  {checked}" in lines
    assert "  https://a.example/ is not reached: no response within 10 s." in lines
    assert "  https://b.example/feed is unreadable: its feed cannot be read." in lines


def test_a_whole_iteration_is_printed_step_by_step_and_only_once() -> None:
    recorder = ProgressRecorder()
    observe = step("observe")
    waiting = [
        step("query", 0, "running", input=PLANNED),
        step("insight", 0, "planned", input=OBSERVED),
    ]
    finished_steps = [
        step("query", 0, input=PLANNED, result={"nodes": 12, "edges": 1}),
        step("insight", 0, input=OBSERVED, result={"analyses": [str(ANALYSIS)], "missing": []}),
        step("advise", result={"advice": [], "reason": "It is too early."}),
    ]
    recorder.printer.begin(1, 2)
    for details in (
        iteration(step("observe", 0, "running")),
        iteration(observe, *waiting),
        iteration(observe, *waiting),
        iteration(observe, *finished_steps),
        iteration(observe, *finished_steps, status="completed"),
    ):
        recorder.printer.update(details, list_conclusions)
    recorder.printer.stop()
    recorder.printer.end(
        iteration(observe, *finished_steps, status="completed"), NOTHING, SOMETHING
    )
    for words in (
        "Iteration 1 of 2",
        "plans 1 query and 1 insight",
        "Find the price of lithium in 2025",
        "Prices and output move together",
        "query 1: 12 nodes, 1 edge",
        "insight 1: 1 analysis",
        "pattern  Prices followed output for three years.",
        "gives no advice, like most iterations",
        "It is too early.",
        "completed in 9 s: 12 nodes and 9 edges (+12 nodes, +9 edges)",
    ):
        assert recorder.text.count(words) == 1, words


def test_a_retry_and_a_failure_are_each_printed_once() -> None:
    recorder = ProgressRecorder()
    error = "no answer from the model server at http://localhost:1/v1"
    for attempts in (1, 2, 3):
        retry = step("observe", 0, "pending", error=error, attempts=attempts)
        recorder.printer.update(iteration(retry), list_conclusions)
    recorder.printer.stop()
    failure = step("observe", 0, "failed", error=f"{error} (gave up after 5 attempts)")
    deadline = "the iteration's deadline passed while observing"
    final = iteration(failure, status="failed", errors=[f"observe: {failure.error}", deadline])
    recorder.printer.update(final, list_conclusions)
    recorder.printer.end(final, NOTHING, NOTHING)
    assert recorder.text.count("will be retried") == 1
    assert recorder.text.count("gave up after 5 attempts") == 1
    assert deadline in recorder.text


def test_an_insight_without_data_shows_what_is_missing() -> None:
    recorder = ProgressRecorder()
    insight = step("insight", 0, result={"analyses": [], "missing": ["Output of Chile in 2025"]})
    recorder.printer.update(iteration(insight), list_conclusions)
    assert "insight 1: not enough data for an analysis" in recorder.text
    assert "missing  Output of Chile in 2025" in recorder.text


def test_a_running_step_is_shown_with_its_phase() -> None:
    query = step("query", 0, "running")
    details = iteration(query, interactions=[run_of(query, "graph_construction")])
    assert doing(details, query) == "graph construction"


def test_a_step_without_a_worker_is_shown_as_waiting() -> None:
    query = step("query", 0, "pending")
    assert doing(iteration(query), query) == "waiting for a worker"


def test_a_step_waiting_for_a_provider_shows_the_next_attempt() -> None:
    now = datetime.now(UTC)
    query = step(
        "query",
        0,
        "pending",
        input=PLANNED,
        error="no answer from the model server at http://127.0.0.1:9/v1: connection refused",
        waiting_since=now - timedelta(minutes=12),
        retry_at=now + timedelta(seconds=40),
    )
    recorder = ProgressRecorder()
    for _ in range(2):
        recorder.printer.update(iteration(query), list_conclusions)
    recorder.printer.stop()
    assert recorder.text.count("query 1: waiting for 12 min: no answer from the model server") == 1
    assert "connection refused; next attempt in 40 s" in recorder.text
    assert "retried" not in recorder.text
    assert doing(iteration(query), query).startswith("waiting, next attempt in")


def test_a_step_waiting_for_a_quota_names_no_attempt_of_its_own() -> None:
    query = step(
        "query",
        0,
        "pending",
        input=PLANNED,
        error=f"the search service {USED_UP}: it answered 432",
        waiting_since=datetime.now(UTC),
        retry_at=datetime.now(UTC) + timedelta(minutes=8),
    )
    assert doing(iteration(query), query).startswith("waiting: the search service")
    assert query.error is not None
    assert query.waiting_since is not None
    assert "next attempt" not in waiting(query.error, query.waiting_since, query.retry_at)


def fake_clock(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    """Replace the monotonic clock by the list's one item, in seconds."""
    clock = [0.0]
    monkeypatch.setattr("cli.render.operations.time.monotonic", lambda: 1000.0 + clock[0])
    return clock


@pytest.mark.parametrize(
    ("received", "words"),
    [
        (None, "query 1: waiting for the first token, 1 min 30 s"),
        (12_345, "query 1: receiving the answer: 12,345 characters after 1 min 30 s"),
    ],
)
def test_a_long_call_is_reported_periodically_without_a_terminal(
    monkeypatch: pytest.MonkeyPatch, received: int | None, words: str
) -> None:
    query = step("query", 0, "running", input=PLANNED)
    details = iteration(query, running_calls=[running_call(query, 90, received)])
    clock = fake_clock(monkeypatch)
    recorder = ProgressRecorder()
    for seconds in (0, 10, 29, 41):
        clock[0] = seconds
        recorder.printer.update(details, list_conclusions)
    recorder.printer.stop()
    assert recorder.text.count(words) == 2
    output = printed(show_iteration, details, show_messages=False)
    assert words.removeprefix("query 1: ") in output


def running_call(parent: StepResponse, seconds: float, received: int | None) -> RunningCall:
    return RunningCall(
        step_id=parent.id,
        phase="knowledge_acquisition",
        kind="llm",
        model="m",
        sent_at=datetime.now(UTC) - timedelta(seconds=seconds),
        received_chars=received,
        progressed_at=None,
    )
